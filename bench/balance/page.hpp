// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The figures of docs/results/balance.md, all from one command.

#include <string>
#include <vector>

#include "bench/harness/harness.hpp"

namespace tern::bench::balance {

/// Measures everything (\param real its lines on real ranks), writes it into the page's blocks and
/// draws the pictures beside the page. In a scale that is tiny the figures are none.
/// \throws std::runtime_error if the page cannot be read or written, or has other blocks.
void write_page(const std::string& path, const std::vector<metric>& real, const scale& of);

} // namespace tern::bench::balance
