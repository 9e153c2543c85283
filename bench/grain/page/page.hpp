// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The figures of docs/results/grain.md, all from one command.

#include <string>
#include <vector>

#include "bench/harness/harness.hpp"

namespace tern::bench::grain {

/// Measures METG of all carriers and rivals, and the lines; writes them into the page's blocks and
/// draws the pictures beside the page. In a scale that is tiny the figures are none.
/// \param turns of METG, and pairs of each line.
/// \throws std::runtime_error if the page cannot be read or written, or has other blocks.
void write_page(const std::string& path, const std::vector<metric>& lines, int turns, const scale& of);

} // namespace tern::bench::grain
