// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where objects lie on the host. Internal.

#include <cstddef>
#include <memory>

namespace tern::hetero::detail {

class pinned_memory;

/// Memory of objects on the host: pinned, as far as `hetero-pinned` goes, where devices want that.
/// Any thread.
class host_memory {
public:
  /// \param pinned null: ordinary memory only.
  /// Before the first object.
  void use(std::shared_ptr<pinned_memory> pinned) noexcept { pinned_ = std::move(pinned); }
  const std::shared_ptr<pinned_memory>& pinned() const noexcept { return pinned_; }
  /// \throws std::bad_alloc.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* memory) noexcept;

private:
  std::shared_ptr<pinned_memory> pinned_;
};

} // namespace tern::hetero::detail
