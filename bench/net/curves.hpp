// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Latency and bandwidth over the size of a message, as numbers and as a picture.

#include <string>

#include <nlohmann/json.hpp>

namespace tern::bench::net {

/// Measures all lines: {"lines": [{"name", "latency": {"8": microseconds, …}, "bandwidth": {"8": GB/s, …}}, …]}. What
/// this machine lacks is left out.
nlohmann::ordered_json measure_curves();

/// Draws them into a PNG file. \throws std::runtime_error if it cannot.
void plot(const nlohmann::ordered_json& curves, const std::string& path);

} // namespace tern::bench::net
