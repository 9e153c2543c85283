// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory of objects' states. Internal.

#include <cstddef>

namespace tern::hetero::detail {

/// Aligned blocks of one size: an object that arrives in a message takes what one that has left in
/// another had. Each thread keeps up to `most_kept`; what it cannot keep goes to the system. Any
/// thread, also another than took it. A build with AddressSanitizer keeps none, so that it finds
/// uses of what is gone.
class state_memory {
public:
  static constexpr std::size_t alignment = 64, most_kept = 64;
  /// \param bytes the same each time. \throws std::bad_alloc.
  static void* take(std::size_t bytes);
  static void give_back(void* memory, std::size_t bytes) noexcept;
};

} // namespace tern::hetero::detail
