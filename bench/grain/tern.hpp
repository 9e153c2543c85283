// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What carries tasks over Tern's ranks.

#include "bench/grain/problem/contestant.hpp"

namespace tern::bench::grain {

/// Both prepare all ranks, and are called by rank 0 while the others handle messages. \pre p lives
/// as long as the function that they give.
run_grid by_messages(const problem& p);
/// A mobile object for each column.
run_grid by_objects(const problem& p);

} // namespace tern::bench::grain
