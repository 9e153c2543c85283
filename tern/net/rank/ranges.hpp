// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Lists of ranks in messages. Internal.

#include <string>
#include <vector>

namespace tern::net {

/// "0-3, 5". \pre ascending
std::string ranges(const std::vector<int>& numbers);

} // namespace tern::net
