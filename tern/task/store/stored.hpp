// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Names of what is on disk. Internal.

#include <cstdint>

namespace tern::detail {

/// Where the bytes of one object are in a store. A value; its holder owns the place until `drop`.
struct stored {
  std::uint64_t offset = 0; ///< in the store's file
  std::uint64_t bytes = 0;  ///< none: takes no place there
  std::uint64_t check = 0;  ///< XXH3, 64 bits, of the bytes
};

} // namespace tern::detail
