// SPDX-License-Identifier: Apache-2.0
#include "bench/task/kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace tern::bench::task {

namespace {

class random_numbers { // splitmix64
public:
  explicit random_numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return (*this)() % n; }
  double real() { return static_cast<double>((*this)() >> 11) * 0x1p-53; } // 0…1

private:
  std::uint64_t state_;
};

void require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error("wrong result: " + what);
}

} // namespace

template <class T> buffer<T>::buffer(std::size_t count) : size_(count) {
  constexpr std::size_t large = std::size_t{2} << 20;
  bytes_ = (count * sizeof(T) + large - 1) / large * large;
  // Twice the alignment is mapped, and what is too much is given back.
  void* raw = mmap(nullptr, bytes_ + large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  char* const low = static_cast<char*>(raw);
  const std::size_t before = (large - reinterpret_cast<std::uintptr_t>(raw) % large) % large;
  if (before) munmap(low, before);
  if (before < large) munmap(low + before + bytes_, large - before);
  data_ = reinterpret_cast<T*>(low + before);
  madvise(data_, bytes_, MADV_HUGEPAGE); // if the system has no huge pages, all get small ones
}
template class buffer<float>;
template class buffer<double>;
template class buffer<fft_kernel::point>;

std::uint64_t work(std::uint64_t seed, std::uint32_t rounds) noexcept {
  std::uint64_t x = seed | 1;
  for (std::uint32_t r = 0; r < rounds; ++r) x = x * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
  return x;
}

void spin(double microseconds) noexcept {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(microseconds * 1000));
  while (clock::now() < end) {
  }
}

void fib_kernel::check() const {
  std::uint64_t a = 0, b = 1;
  for (int i = 0; i < n; ++i) a = std::exchange(b, a + b);
  require(value == a, "fib(" + std::to_string(n) + ") is not " + std::to_string(value));
}

void small_kernel::check() const {
  for (std::size_t i = 0; i < count; i += 1009)
    require(out[i] == work(i + run, microsecond_rounds), "task " + std::to_string(i) + " did not run");
}

void burst_kernel::check() const {
  require(std::find(done.begin(), done.end(), 0) == done.end(), "a task of the burst did not run");
}

dense_kernel::dense_kernel(std::size_t size) : a(size), b(size), expected_(period) {
  for (std::size_t i = 0; i < size; ++i) a[i] = b[i] = static_cast<float>(i % period);
  for (std::size_t i = 0; i < period; ++i) expected_[i] = static_cast<float>(i);
}

void dense_kernel::chunk(std::size_t first, std::size_t last) const noexcept {
  float* const to = a.data();
  const float* const from = b.data();
  for (std::size_t i = first; i < last; ++i) to[i] = to[i] * scale + from[i];
}

void dense_kernel::check() {
  for (std::size_t i = 0; i < period; ++i) expected_[i] = expected_[i] * scale + static_cast<float>(i);
  for (std::size_t first = 0; first < a.size(); first += period) {
    const std::size_t n = std::min(period, a.size() - first);
    // Bit by bit: halving is exact, so it does not matter whether multiplication and addition are
    // fused.
    require(std::memcmp(a.data() + first, expected_.data(), n * sizeof(float)) == 0,
            "the array, between " + std::to_string(first) + " and " + std::to_string(first + n));
  }
}

mandelbrot_kernel::mandelbrot_kernel(std::size_t size)
    : rows(static_cast<int>(size)), iterations(size), expected_(size) {
  for (int y = 0; y < rows; ++y) expected_[static_cast<std::size_t>(y)] = count(y);
}

std::uint64_t mandelbrot_kernel::count(int y) const noexcept {
  constexpr int most = 1000;
  const double step = 2.5 / rows, ci = -1.25 + step * y;
  std::uint64_t all = 0;
  for (int x = 0; x < rows; ++x) {
    const double cr = -2 + step * x;
    double zr = 0, zi = 0;
    int n = 0;
    for (; n < most && zr * zr + zi * zi <= 4; ++n) {
      const double next = zr * zr - zi * zi + cr;
      zi = 2 * zr * zi + ci;
      zr = next;
    }
    all += static_cast<std::uint64_t>(n);
  }
  return all;
}

void mandelbrot_kernel::check() const { require(iterations == expected_, "the iterations of the picture's rows"); }

pareto_kernel::pareto_kernel(std::size_t size) : out(size) {
  constexpr double alpha = 1.2, least = 0.3;
  random_numbers random(1);
  for (std::size_t i = 0; i < size; ++i) {
    const double microseconds = least * std::pow(1 - random.real(), -1 / alpha);
    rounds_.push_back(static_cast<std::uint32_t>(std::min(microseconds, 1e5) * microsecond_rounds));
    expected_.push_back(work(i, rounds_.back()));
  }
}

void pareto_kernel::check() const { require(out == expected_, "what the bodies wrote"); }

namespace {
/// The same for every order of the same numbers.
std::uint64_t sum_of_bits(const buffer<double>& numbers) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) sum += std::bit_cast<std::uint64_t>(numbers[i]);
  return sum;
}
} // namespace

sort_kernel::sort_kernel(std::size_t size) : data(size), input_(size) {
  random_numbers random(2);
  for (std::size_t i = 0; i < size; ++i) input_[i] = random.real();
  sum_ = sum_of_bits(input_);
}

void sort_kernel::prepare() { std::memcpy(data.data(), input_.data(), data.size() * sizeof(double)); }

void sort_kernel::check() const {
  require(std::is_sorted(data.data(), data.data() + data.size()), "not sorted");
  require(sum_of_bits(data) == sum_, "not the numbers that were to be sorted");
}

namespace {
using point = fft_kernel::point;
point times(point a, point b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
struct serial {
  template <class F, class G> static void invoke(F&& f, G&& g) {
    f();
    g();
  }
};
} // namespace

fft_kernel::fft_kernel(std::size_t size) : size_(size), input_(size), in_(size), out_(size), roots_(size) {
  if (!std::has_single_bit(size) || size < 4) throw std::invalid_argument("fft: the size must be a power of two");
  random_numbers random(3);
  for (std::size_t i = 0; i < size; ++i) input_[i] = {random.real() - 0.5, random.real() - 0.5};
  for (std::size_t k = 0, m = size / 2; k < m; ++k) {
    const double angle = -std::numbers::pi * static_cast<double>(k) / static_cast<double>(m);
    roots_[m + k] = {std::cos(angle), std::sin(angle)};
  }
  for (std::size_t i = size / 2 - 1; i > 0; --i) roots_[i] = roots_[2 * i]; // every other one of the next larger circle
  prepare();
  transform<serial>();
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{3}, size - 2}) compare_with_definition(k);
  expected_ = hash();
}

void fft_kernel::prepare() { std::memcpy(in_.data(), input_.data(), size_ * sizeof(point)); }

void fft_kernel::small(std::size_t n, const point* in, point* out) const noexcept {
  const int shift = 64 - std::countr_zero(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t r = i; // bits reversed
    r = ((r >> 1) & 0x5555555555555555) | ((r & 0x5555555555555555) << 1);
    r = ((r >> 2) & 0x3333333333333333) | ((r & 0x3333333333333333) << 2);
    r = ((r >> 4) & 0x0f0f0f0f0f0f0f0f) | ((r & 0x0f0f0f0f0f0f0f0f) << 4);
    out[__builtin_bswap64(r) >> shift] = in[i];
  }
  for (std::size_t m = 1; m < n; m *= 2)
    for (std::size_t block = 0; block < n; block += 2 * m) twiddle(m, out + block, out + block, 0, m);
}

void fft_kernel::unshuffle(std::size_t m, const point* in, point* out, std::size_t a, std::size_t b) noexcept {
  for (std::size_t i = a; i < b; ++i) {
    out[i] = in[2 * i];
    out[m + i] = in[2 * i + 1];
  }
}

void fft_kernel::twiddle(std::size_t m, const point* in, point* out, std::size_t a, std::size_t b) const noexcept {
  for (std::size_t k = a; k < b; ++k) {
    const point even = in[k], odd = times(roots_[m + k], in[m + k]);
    out[k] = {even.re + odd.re, even.im + odd.im};
    out[m + k] = {even.re - odd.re, even.im - odd.im};
  }
}

std::uint64_t fft_kernel::hash() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size_; ++i)
    sum = sum * 31 + std::bit_cast<std::uint64_t>(out_[i].re) + 7 * std::bit_cast<std::uint64_t>(out_[i].im);
  return sum;
}

void fft_kernel::compare_with_definition(std::size_t k) const {
  point sum{0, 0};
  const std::size_t m = size_ / 2;
  for (std::size_t i = 0; i < size_; ++i) {
    const std::size_t turn = i * k % size_;
    const point root = roots_[m + turn % m], term = times(input_[i], root);
    sum.re += turn < m ? term.re : -term.re;
    sum.im += turn < m ? term.im : -term.im;
  }
  const double error = std::hypot(sum.re - out_[k].re, sum.im - out_[k].im);
  require(error < 1e-9 * std::sqrt(static_cast<double>(size_)), "frequency " + std::to_string(k));
}

void fft_kernel::check() const { require(hash() == expected_, "not what the serial transform gives"); }

namespace {
constexpr std::size_t residues = 20, longest = 400;
/// As BLOSUM's: about 5 for what is equal, -4 to 1 for what is not.
const std::array<std::array<signed char, residues>, residues>& similarity() {
  static const auto table = [] {
    random_numbers random(4);
    std::array<std::array<signed char, residues>, residues> t{};
    for (std::size_t i = 0; i < residues; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        t[i][j] = t[j][i] = static_cast<signed char>(i == j ? 4 + static_cast<int>(random.below(4))
                                                            : static_cast<int>(random.below(6)) - 4);
    return t;
  }();
  return table;
}
} // namespace

alignment_kernel::alignment_kernel(std::size_t size) : count(static_cast<int>(size)), scores_(size * size) {
  random_numbers random(5);
  for (std::size_t i = 0; i < size; ++i) {
    std::vector<std::uint8_t> s(longest / 2 + random.below(longest / 2 + 1));
    for (auto& one : s) one = static_cast<std::uint8_t>(random.below(residues));
    sequences_.push_back(std::move(s));
  }
  for (int i = 0; i < count; ++i)
    for (int j = i + 1; j < count; ++j) align(i, j);
  expected_ = scores_;
}

int alignment_kernel::score(int i, int j) const noexcept {
  constexpr int open = 11, extend = 1;
  const auto &a = sequences_[static_cast<std::size_t>(i)], &b = sequences_[static_cast<std::size_t>(j)];
  std::array<int, longest> best, gap; // scores so far that end at each residue of b: all, and those with a gap there
  best.fill(0);
  gap.fill(-open);
  int all = 0;
  for (const std::uint8_t x : a) {
    const auto& row = similarity()[x];
    int diagonal = 0, left = 0, across = -open;
    for (std::size_t k = 0; k < b.size(); ++k) {
      gap[k] = std::max(gap[k] - extend, best[k] - open);
      across = std::max(across - extend, left - open);
      const int here = std::max({0, diagonal + row[b[k]], gap[k], across});
      diagonal = best[k];
      best[k] = left = here;
      all = std::max(all, here);
    }
  }
  return all;
}

void alignment_kernel::check() const {
  const auto total = [](const std::vector<int>& s) { return std::accumulate(s.begin(), s.end(), std::int64_t{0}); };
  require(scores_ == expected_,
          "total score " + std::to_string(total(scores_)) + " instead of " + std::to_string(total(expected_)));
}

graph_kernel::graph_kernel(shape s, std::size_t size) {
  constexpr std::size_t window = 1000;
  if (size < 3) throw std::invalid_argument("a graph needs three nodes");
  random_numbers random(6);
  std::vector<std::uint32_t> before;
  for (std::size_t i = 0; i < size; ++i) {
    before.clear();
    switch (s) {
    case shape::chain:
      if (i > 0) before.push_back(static_cast<std::uint32_t>(i - 1));
      break;
    case shape::wide:
      if (i + 1 == size)
        for (std::uint32_t n = 1; n + 1 < size; ++n) before.push_back(n);
      else if (i > 0)
        before.push_back(0);
      break;
    case shape::random:
      for (std::size_t n = random.below(5); n > 0 && i > 0; --n)
        before.push_back(static_cast<std::uint32_t>(i - 1 - random.below(std::min(i, window))));
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
      break;
    }
    before_.insert(before_.end(), before.begin(), before.end());
    first_.push_back(static_cast<std::uint32_t>(before_.size()));
  }
  values_.resize(size);
}

std::uint64_t graph_kernel::value(const std::vector<std::uint64_t>& values, std::size_t i) const noexcept {
  std::uint64_t sum = run_ + i;
  for (std::size_t e = first_[i]; e < first_[i + 1]; ++e) sum += values[before_[e]];
  return sum;
}

void graph_kernel::node(std::size_t i) noexcept { values_[i] = value(values_, i); }

void graph_kernel::check() const {
  std::vector<std::uint64_t> right(values_.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    right[i] = value(right, i);
    require(values_[i] == right[i], "node " + std::to_string(i) + " ran too early or not at all");
  }
}

} // namespace tern::bench::task
