// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Outputs of all tasks of a run, a place for each: for graphs, in which nothing says when an
/// output is needed no more.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "bench/grain/problem/problem.hpp"

namespace tern::bench::grain {

class slots {
public:
  explicit slots(const problem& p) : p_(p), tallies_(static_cast<std::size_t>(p.width())) {}

  void prepare(int steps) {
    memory_.assign(static_cast<std::size_t>(steps) * tallies_.size() * p_.bytes, std::byte{0xff});
    for (tally& one : tallies_) one.clear();
  }
  void run(int step, int column, long iterations) {
    tallies_[static_cast<std::size_t>(column)].add(
        run_task(p_, step, column, iterations, at(step, column),
                 [&](int from) -> std::span<const std::byte> { return at(step - 1, from); }));
  }
  void check(int steps) const {
    long tasks = 0, inputs = 0;
    for (const tally& one : tallies_) {
      tasks += one.tasks();
      inputs += one.inputs();
    }
    check_run(p_, steps, tasks, inputs);
  }

private:
  std::span<std::byte> at(int step, int column) {
    return std::span(memory_).subspan(
        (static_cast<std::size_t>(step) * tallies_.size() + static_cast<std::size_t>(column)) * p_.bytes, p_.bytes);
  }

  const problem& p_;
  std::vector<std::byte> memory_;
  std::vector<tally> tallies_;
};

} // namespace tern::bench::grain
