// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Grids of tasks: `width` columns, a task of each in every step. A pattern says which columns of
/// the step before a task needs. The patterns are those of Task Bench (Slaughter et al., "Task
/// Bench: A Parameterized Benchmark for Evaluating Parallel Runtime Performance", SC 2020).

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tern::bench::grain {

enum class pattern {
  trivial, ///< nothing
  stencil, ///< itself and the columns beside it
  fft,     ///< itself and the columns 2^k to the left and right; k is another one in each step
  tree,    ///< column c needs c / 2: what column 0 makes spreads
  blocks,  ///< all columns of its block of `radix`; blocks are shifted by half in every second step
  nearest, ///< `radix` columns around it
  spread,  ///< `radix` columns, spread evenly; all but the first move on in each step
  random   ///< up to `radix` columns by a fixed hash
};

/// Which tasks follow which. A value.
///
/// Threads: all functions but `drop` may be called by several at once.
class grid {
public:
  /// \param radix of the patterns that have one; more than `width` counts as `width`.
  /// \throws std::invalid_argument if a number is < 1.
  grid(pattern p, int width, int radix);

  int width() const noexcept { return width_; }
  /// After so many steps the same dependences come again.
  int period() const noexcept { return static_cast<int>(before_.size()); }
  /// The columns of step `step - 1` whose outputs the task needs, ascending; none in step 0.
  std::span<const int> dependences(int step, int column) const noexcept {
    return step == 0 ? std::span<const int>() : before_[phase(step - 1)].of(column);
  }
  /// The columns of step `step + 1` whose tasks need this one's output, ascending. The grid does
  /// not know its last step, after which there are none.
  std::span<const int> dependents(int step, int column) const noexcept { return after_[phase(step)].of(column); }
  /// How many inputs all tasks of so many steps have together.
  std::size_t inputs(int steps) const noexcept;

  /// Leaves one dependence out, in all steps whose pattern is that of `step`: to see whether the
  /// checks find it. \throws std::invalid_argument if there is no such dependence.
  void drop(int step, int column, int dependence);

private:
  /// For each column a list of columns.
  struct table {
    std::vector<int> begin, columns;
    std::span<const int> of(int column) const noexcept {
      const auto c = static_cast<std::size_t>(column);
      const auto first = static_cast<std::size_t>(begin[c]), last = static_cast<std::size_t>(begin[c + 1]);
      return std::span(columns).subspan(first, last - first);
    }
  };
  static table table_of(const std::vector<std::vector<int>>& lists);
  static std::vector<std::vector<int>> inverse(const std::vector<std::vector<int>>& lists);
  std::size_t phase(int step) const noexcept {
    return before_.size() == 1 ? 0 : static_cast<std::size_t>(step) % before_.size();
  }

  int width_;
  std::vector<table> before_, after_; // of each step of a period, from step 1 on
};

} // namespace tern::bench::grain
