// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The pictures of docs/results/balance.md.

#include <string>

#include "bench/balance/simulated.hpp"

namespace tern::bench::balance {

/// How long the cores of a simulated machine are busy, with and without the policy, for two
/// placements, and the course of several policies: three PNG files in `folder`. \throws
/// std::runtime_error
void draw_pictures(const machine_size& s, const std::string& policy, const std::string& folder);

} // namespace tern::bench::balance
