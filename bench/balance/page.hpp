// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The figures of docs/results/balance.md, all from one command.

#include <map>
#include <string>
#include <vector>

#include "bench/harness/harness.hpp"

namespace tern::bench::balance {

/// `page` with what stands between the lines "<!-- NAME -->" and "<!-- end of NAME -->" replaced by
/// `blocks[NAME]`.
/// \throws std::runtime_error that names a block that only the page or only `blocks` has.
std::string filled(const std::string& page, const std::map<std::string, std::string>& blocks);

/// Measures everything (\param real its lines on real ranks), writes it into the page's blocks and
/// draws the pictures beside the page. In a scale that is tiny the figures are none.
/// \throws std::runtime_error if the page cannot be read or written, or has other blocks.
void write_page(const std::string& path, const std::vector<metric>& real, const scale& of);

} // namespace tern::bench::balance
