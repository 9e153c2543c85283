// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Efficiency over the length of tasks, of each carrier and rival.

#include "bench/harness/plot.hpp"

namespace tern::bench::grain {

/// Of a stencil of 16 columns: for each line the pairs of microseconds and efficiency, of the run
/// whose METG is the median of some.
nlohmann::ordered_json measure_curves();
picture picture_of(const nlohmann::ordered_json& curves);

} // namespace tern::bench::grain
