// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long it takes to notice that nothing is under way, over the number of simulated ranks.

#include <nlohmann/json.hpp>

#include "bench/harness/plot.hpp"

namespace tern::bench::collectives {

/// In half round trips of a message of 8 bytes, which is what a simulated network takes for one.
double quiescence_of(int ranks);
/// As many, one after the other, as two sums over all ranks need at least: 2 log2 of the number,
/// rounded up.
double least_messages(int ranks);

/// {"2": half round trips, …}
nlohmann::ordered_json measure_curves();
picture picture_of(const nlohmann::ordered_json& points);

} // namespace tern::bench::collectives
