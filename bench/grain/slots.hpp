// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What contestants of one process have in common: the outputs of a run's tasks, the counts of what
/// has run, and how problems are measured one after the other.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "bench/grain/problem/contestant.hpp"

namespace tern::bench::grain {

/// What has run in each column.
///
/// Threads: `of` and `keep_failure` may be called by several at once.
class tallies {
public:
  explicit tallies(const problem& p) : p_(p), columns_(static_cast<std::size_t>(p.width())) {}

  void clear() {
    for (tally& one : columns_) one.clear();
    failed_ = nullptr;
  }
  tally& of(int column) noexcept { return columns_[static_cast<std::size_t>(column)]; }
  /// For runtimes whose tasks must not throw: the exception that is being handled is thrown by
  /// `check`, if it is the first.
  void keep_failure() noexcept {
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = std::current_exception();
  }
  /// \throws what was kept; std::runtime_error if not each task of so many steps has run once.
  void check(int steps) const {
    if (failed_) std::rethrow_exception(failed_);
    long tasks = 0, inputs = 0;
    for (const tally& one : columns_) {
      tasks += one.tasks();
      inputs += one.inputs();
    }
    check_run(p_, steps, tasks, inputs);
  }

private:
  const problem& p_;
  std::vector<tally> columns_;
  std::mutex mutex_;
  std::exception_ptr failed_;
};

/// Outputs of a run's tasks in memory that all threads share.
class slots {
public:
  explicit slots(const problem& p) : p_(p), done_(p) {}

  /// For a run. Outputs of so many steps are kept: of all, for graphs, in which nothing says when
  /// an output is needed no more; of two, where a task also depends on those that read what it
  /// overwrites.
  void prepare(int kept) {
    kept_ = kept;
    memory_.assign(static_cast<std::size_t>(kept) * static_cast<std::size_t>(p_.width()) * p_.bytes, std::byte{0xff});
    done_.clear();
  }
  void run(int step, int column, long iterations) {
    done_.of(column).add(run_task(p_, step, column, iterations, at(step, column),
                                  [&](int from) -> std::span<const std::byte> { return at(step - 1, from); }));
  }
  /// The same for runtimes whose tasks must not throw: `check` does.
  void run_kept(int step, int column, long iterations) noexcept {
    try {
      run(step, column, iterations);
    } catch (...) {
      done_.keep_failure();
    }
  }
  /// \throws what a task has thrown; std::runtime_error if not each has run once.
  void check(int steps) const { done_.check(steps); }

  std::span<std::byte> at(int step, int column) {
    const auto row = static_cast<std::size_t>(step) % static_cast<std::size_t>(kept_);
    return std::span(memory_).subspan(
        (row * static_cast<std::size_t>(p_.width()) + static_cast<std::size_t>(column)) * p_.bytes, p_.bytes);
  }

private:
  const problem& p_;
  int kept_ = 1;
  std::vector<std::byte> memory_;
  tallies done_;
};

/// Measures each problem with what `carrier(problem)` gives, a run_grid, and prints the report.
/// \param threads of this process that run tasks.
template <class Carrier> void measure_problems(const request& asked, int threads, Carrier&& carrier) {
  report found(asked.seconds);
  for (const auto& name : asked.problems) {
    const problem p(name);
    const double per_iteration = asked.seconds == 0 ? 0 : calibrate(p.work, threads);
    found.measure(p, threads, per_iteration, carrier(p));
  }
  found.print();
}

} // namespace tern::bench::grain
