// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The pictures of docs/results/balance.md.

#include <string>

namespace tern::bench::balance {

/// How long 5600 simulated cores are busy, with and without the policy, for two placements, and the course of several
/// policies: three PNG files in `folder`. \param program bench_balance_tern. \throws std::runtime_error
void draw_pictures(const std::string& program, const std::string& policy, const std::string& folder);

} // namespace tern::bench::balance
