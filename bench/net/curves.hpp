// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Latency and bandwidth over the size of a message, as numbers and as a picture.

#include <nlohmann/json.hpp>

#include "bench/harness/plot.hpp"

namespace tern::bench::net {

/// Measures all lines: {"lines": [{"name", "latency": {"8": microseconds, …}, "bandwidth": {"8":
/// GB/s, …}}, …]}. What this machine lacks is left out.
nlohmann::ordered_json measure_curves();

picture picture_of(const nlohmann::ordered_json& curves);

} // namespace tern::bench::net
