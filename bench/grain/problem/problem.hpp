// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is measured: a grid of tasks, what each computes, and how large its output is. All
/// contestants run the same tasks by `run_task`, in which each input is checked.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bench/grain/problem/grid.hpp"
#include "bench/grain/problem/kernels.hpp"

namespace tern::bench::grain {

/// Where an output comes from. Outputs are filled with it.
struct stamp {
  std::int32_t step = -1, column = -1;
  bool operator==(const stamp&) const = default;
};
/// The smallest output.
using block = std::array<stamp, 2>;
constexpr std::size_t least_bytes = sizeof(block);
constexpr std::size_t page_bytes = 4096;

/// How long tasks are, compared with the mean.
enum class imbalance {
  none,
  stays, ///< column by column: from next to nothing for the first to twice the mean for the last
  fresh  ///< by a hash of step and column, up to twice the mean
};

struct problem {
  /// \param name PATTERN[RADIX].WIDTH, then in any order what is not usual: `.64KiB` or `.512B`,
  /// the size of outputs; `.memory`, the kernel; `.stays` or `.fresh`, the imbalance; `.19us`, how
  /// long tasks are on average (without it METG is sought); `.broken`, a plan that lacks a
  /// dependence. As "stencil.16", "nearest5.16.64KiB", "trivial.16.3us".
  /// \throws std::invalid_argument naming the word that means nothing.
  explicit problem(const std::string& name);

  std::string name;
  grid truth{pattern::trivial, 1, 1}; ///< what inputs are checked against
  grid plan{pattern::trivial, 1, 1};  ///< what a contestant follows: the same, unless it is broken
  std::size_t bytes = least_bytes;    ///< of an output
  kernel work = kernel::compute;
  imbalance load = imbalance::none;
  double microseconds = 0; ///< of a task; 0: METG is sought

  int width() const noexcept { return truth.width(); }
  /// Of one task, where the mean is `mean`.
  long iterations(int step, int column, long mean) const noexcept;
};

/// Fills an output.
/// \pre its size is a multiple of that of a stamp.
void write_output(std::span<std::byte> output, stamp of);
/// \throws std::runtime_error if the input of that task is not the output of `of`: looks at the
/// beginning of each page, and at the end.
void check_input(std::span<const std::byte> input, stamp of, stamp task);

/// One task: checks the inputs that it truly needs, computes, fills the output.
/// \param input `std::span<const std::byte> input(from)`: what has come from that column of the
/// step before, or nothing.
/// \return the number of inputs.
/// \throws std::runtime_error if an input comes from elsewhere, or one is missing.
template <class Input>
std::size_t run_task(const problem& p, int step, int column, long mean, std::span<std::byte> output, Input&& input) {
  const auto wanted = p.truth.dependences(step, column);
  for (const int from : wanted) check_input(input(from), {step - 1, from}, {step, column});
  compute(p.work, p.iterations(step, column, mean));
  write_output(output, {step, column});
  return wanted.size();
}

/// The place of `from` among what the plan's task needs, for carriers that bring inputs in that
/// order; their number, if the plan lacks it.
inline std::size_t place_of(std::span<const int> needed, int from) noexcept {
  std::size_t i = 0;
  while (i < needed.size() && needed[i] != from) ++i;
  return i;
}

/// Counts what was done, in a column or on a rank. Each is alone in its line of the cache.
class alignas(64) tally {
public:
  void add(std::size_t inputs) noexcept {
    tasks_.fetch_add(1, std::memory_order_relaxed);
    inputs_.fetch_add(static_cast<long>(inputs), std::memory_order_relaxed);
  }
  void clear() noexcept { tasks_ = inputs_ = 0; }
  long tasks() const noexcept { return tasks_.load(std::memory_order_relaxed); }
  long inputs() const noexcept { return inputs_.load(std::memory_order_relaxed); }

private:
  std::atomic<long> tasks_{0}, inputs_{0};
};
/// \throws std::runtime_error if a run has not done each task of so many steps once.
void check_run(const problem& p, int steps, long tasks, long inputs);

} // namespace tern::bench::grain
