// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The sides (side.hpp) of these benchmarks.

#include "bench/ask.hpp"

#include <string>

namespace tern::bench::task {

using namespace sides;

/// tern, TBB, libomp, libgomp, and "libomp turnaround", whose threads never yield their cores to others: on two workers
/// that makes fib four times as fast, and nothing else that is measured here faster.
const side& side_named(const std::string& name);

} // namespace tern::bench::task
