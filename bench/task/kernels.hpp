// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is computed, the same for all contestants. Bodies that take longer than a microsecond are
/// compiled once, in kernels.cpp, and linked into every contestant: compared are runtimes and not
/// compilers. A kernel has `prepare`, called before each measurement, and `check`, called after it;
/// neither is timed.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace tern::bench::task {

/// Zeroed memory in large pages, so that no contestant is slower by the luck of its page tables.
template <class T> class buffer {
public:
  explicit buffer(std::size_t count);
  ~buffer() { munmap(data_, bytes_); }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data_[i]; }

private:
  std::size_t size_, bytes_ = 0;
  T* data_ = nullptr;
};

/// A chain of `rounds` dependent multiplications, about 1.5 ns each. Not a clock: that would hide a
/// core's being shared.
std::uint64_t work(std::uint64_t seed, std::uint32_t rounds) noexcept;
constexpr std::uint32_t microsecond_rounds = 650;
/// Looks at the clock until `microseconds` are over.
void spin(double microseconds) noexcept;

/// Spawns as many tasks as there are calls, with no cut-off.
struct fib_kernel {
  explicit fib_kernel(std::size_t size) : n(static_cast<int>(size)) {}
  void prepare() { value = 0; }
  void check() const;
  int n;
  std::uint64_t value = 0;
};

/// `count` independent empty tasks.
struct empty_kernel {
  /// Nothing, but g++ leaves out a task without it.
  static void body() { asm volatile(""); }
  explicit empty_kernel(std::size_t size) : count(size) {}
  void prepare() {}
  void check() {} // there is nothing to see
  std::size_t count;
};

/// `count` independent tasks of about 1 µs.
struct small_kernel {
  explicit small_kernel(std::size_t size) : count(size), out(size) {}
  void prepare() { ++run; }
  void body(std::size_t i) { out[i] = work(i + run, microsecond_rounds); }
  void check() const; // of every 1009th
  std::size_t count;
  std::uint64_t run = 0;
  std::vector<std::uint64_t> out;
};

/// One short and `count` long tasks, all of them known within a microsecond.
struct burst_kernel {
  explicit burst_kernel(std::size_t size) : count(size), done(size + 1) {}
  void prepare() { done.assign(count + 1, 0); }
  void body(std::size_t i) {
    spin(i == 0 ? 1 : 2000);
    done[i] = 1;
  }
  void check() const;
  std::size_t count;
  std::vector<char> done;
};

/// a = a s + b over `size` floats each: waits for memory.
class dense_kernel {
public:
  explicit dense_kernel(std::size_t size);
  void prepare() {}
  void chunk(std::size_t first, std::size_t last) const noexcept;
  void check();

  static constexpr float scale = 0.5F;
  buffer<float> a, b;

private:
  static constexpr std::size_t period = 1024; // of the input: so that the result can be checked at memory's speed
  std::vector<float> expected_;
};

/// `size` rows of `size` points, of very different cost.
class mandelbrot_kernel {
public:
  explicit mandelbrot_kernel(std::size_t size);
  void prepare() { iterations.assign(iterations.size(), 0); }
  void row(int y) noexcept { iterations[static_cast<std::size_t>(y)] = count(y); }
  void check() const;
  int rows;
  std::vector<std::uint64_t> iterations;

private:
  std::uint64_t count(int y) const noexcept;
  std::vector<std::uint64_t> expected_;
};

/// `size` bodies whose costs have a Pareto distribution (alpha 1.2, at least 0.3 µs): most are
/// short, and a few make up a good part of the whole.
class pareto_kernel {
public:
  explicit pareto_kernel(std::size_t size);
  void prepare() { out.assign(out.size(), 0); }
  void body(std::size_t i) noexcept { out[i] = work(i, rounds_[i]); }
  void check() const;
  std::vector<std::uint64_t> out;

private:
  std::vector<std::uint32_t> rounds_;
  std::vector<std::uint64_t> expected_;
};

/// Sorts random doubles.
class sort_kernel {
public:
  explicit sort_kernel(std::size_t size);
  void prepare();
  void check() const;
  buffer<double> data;

private:
  buffer<double> input_;
  std::uint64_t sum_ = 0;
};

/// Fast Fourier transform of `size` points, a power of two, in the manner of the Barcelona OpenMP
/// Tasks Suite: recursive, with tasks for the halves and for pieces of the passes over memory.
class fft_kernel {
public:
  struct point {
    double re, im;
  };
  explicit fft_kernel(std::size_t size);
  void prepare();
  /// `Fork::invoke(f, g)` calls both, perhaps at the same time.
  template <class Fork> void transform() const { recurse<Fork>(size_, in_.data(), out_.data()); }
  void check() const;

private:
  // With which the other runtimes are fastest.
  static constexpr std::size_t leaf = 4096, grain = 16384;

  template <class Fork> void recurse(std::size_t n, point* in, point* out) const {
    if (n <= leaf) return small(n, in, out);
    const std::size_t m = n / 2;
    pieces<Fork>(0, m, [=](std::size_t a, std::size_t b) { unshuffle(m, in, out, a, b); });
    Fork::invoke([=, this] { recurse<Fork>(m, out, in); }, [=, this] { recurse<Fork>(m, out + m, in + m); });
    pieces<Fork>(0, m, [=, this](std::size_t a, std::size_t b) { twiddle(m, in, out, a, b); });
  }
  template <class Fork, class F> static void pieces(std::size_t a, std::size_t b, const F& f) {
    if (b - a <= grain) return f(a, b);
    const std::size_t middle = a + (b - a) / 2;
    Fork::invoke([=, &f] { pieces<Fork>(a, middle, f); }, [=, &f] { pieces<Fork>(middle, b, f); });
  }
  void small(std::size_t n, const point* in, point* out) const noexcept;
  static void unshuffle(std::size_t m, const point* in, point* out, std::size_t a, std::size_t b) noexcept;
  void twiddle(std::size_t m, const point* in, point* out, std::size_t a, std::size_t b) const noexcept;
  std::uint64_t hash() const noexcept;
  void compare_with_definition(std::size_t k) const;

  std::size_t size_;
  buffer<point> input_, in_, out_;
  buffer<point> roots_; // roots_[m + k] = exp(-pi i k / m) for each power of two m and k < m
  std::uint64_t expected_ = 0;
};

/// Smith-Waterman scores, with affine gaps, of all pairs of `size` random proteins of 200 to 400
/// residues.
class alignment_kernel {
public:
  explicit alignment_kernel(std::size_t size);
  void prepare() { scores_.assign(scores_.size(), 0); }
  void align(int i, int j) noexcept { scores_[static_cast<std::size_t>(i * count + j)] = score(i, j); }
  void check() const;
  int count;

private:
  int score(int i, int j) const noexcept;
  std::vector<std::vector<std::uint8_t>> sequences_;
  std::vector<int> scores_, expected_;
};

/// A graph of tasks that each add up what those before them have computed. Built once; a
/// measurement runs it `runs` times, with `prepare` before each, and gives the time of one.
class graph_kernel {
public:
  static constexpr int runs = 10;
  enum class shape { chain, wide, random };
  graph_kernel(shape s, std::size_t size);
  void prepare() { ++run_; } // changes all values: what is left from the last run is wrong
  void node(std::size_t i) noexcept;
  void check() const;
  std::size_t count() const { return values_.size(); }
  /// (before, after)
  template <class F> void for_each_edge(F&& f) const {
    for (std::size_t i = 0; i + 1 < first_.size(); ++i)
      for (std::size_t e = first_[i]; e < first_[i + 1]; ++e) f(before_[e], i);
  }
  bool is_source(std::size_t i) const { return first_[i] == first_[i + 1]; }

private:
  std::uint64_t value(const std::vector<std::uint64_t>& values, std::size_t i) const noexcept;
  std::vector<std::uint64_t> values_;
  std::vector<std::uint32_t> first_{0}, before_; // node i comes after before_[first_[i]…first_[i + 1])
  std::uint64_t run_ = 0;
};
template <graph_kernel::shape Shape> struct graph_kernel_of : graph_kernel {
  explicit graph_kernel_of(std::size_t size) : graph_kernel(Shape, size) {}
};
using chain_kernel = graph_kernel_of<graph_kernel::shape::chain>;
using wide_kernel = graph_kernel_of<graph_kernel::shape::wide>;
using random_kernel = graph_kernel_of<graph_kernel::shape::random>;

} // namespace tern::bench::task
