// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Efficiency over the length of tasks, as a picture.

#include <string>
#include <vector>

#include "bench/grain/page/survey.hpp"
#include "bench/harness/plot.hpp"

namespace tern::bench::grain {

/// Of a stencil of 16 columns.
nlohmann::ordered_json measure_curves();
/// What `measure_curves` gave, as a picture.
picture picture_of(const nlohmann::ordered_json& curves);
/// All of `found` that have that problem and are for pictures.
/// \throws std::runtime_error if a panel would be empty.
picture picture_of(const std::vector<finding>& found, const std::string& problem, const std::string& title);

} // namespace tern::bench::grain
