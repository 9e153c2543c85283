// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What carries tasks on one node, over the workers of a scheduler. All are called in a fiber of
/// it. \pre p lives as long as the functions that they give.

#include "bench/grain/problem/contestant.hpp"

namespace tern::bench::grain {

/// Host functions on hetero objects: two objects for each column, written in turn.
/// \throws std::invalid_argument for patterns with tasks of more than `most_hetero_inputs` inputs.
run_grid by_hetero_tasks(const problem& p);
constexpr std::size_t most_hetero_inputs = 9;

/// A task_graph that is built before the clock runs, or each time anew.
run_grid by_graph(const problem& p);
run_grid by_built_graph(const problem& p);

/// A coroutine for each task, which awaits those that it depends on.
run_grid by_coroutines(const problem& p);

} // namespace tern::bench::grain
