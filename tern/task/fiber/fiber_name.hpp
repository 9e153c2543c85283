// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Internal.

#include <array>

namespace tern::detail {

/// A fiber's name as a fiber keeps it: copied as one piece.
using fiber_name = std::array<char, 48>;

} // namespace tern::detail
