// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The lines of `bench_grain`.

#include <vector>

#include "bench/harness/harness.hpp"

namespace tern::bench::grain {

std::vector<metric> all_lines(const scale& of);

} // namespace tern::bench::grain
