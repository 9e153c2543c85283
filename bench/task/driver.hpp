// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The contestants (contestant.hpp) of these benchmarks.

#include "bench/harness/runner.hpp"

#include <string>

namespace tern::bench::task {

using namespace contest;

/// tern, TBB, libomp, libgomp, and "libomp turnaround". Threads of the latter never yield their
/// cores: on two workers that makes fib four times as fast, and no other benchmark here any
/// faster.
const contestant& contestant_named(const std::string& name);

} // namespace tern::bench::task
