// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/data/host_memory.hpp>

#include <cstdlib>
#include <new>

#include <tern/hetero/memory/pinned_memory.hpp>

namespace tern::hetero::detail {

std::byte* host_memory::allocate(std::size_t bytes) {
  constexpr std::size_t most = std::size_t{1} << 47; // of a process; sanitizers refuse larger requests
  if (bytes > most) throw std::bad_alloc();
  if (pinned_)
    if (std::byte* const p = pinned_->allocate(bytes)) return p;
  // Whole pages, so that devices can use them in place.
  constexpr std::size_t page = 4096;
  const std::size_t whole = (bytes + page - 1) / page * page;
  auto* const p = static_cast<std::byte*>(std::aligned_alloc(whole >= page * 4 ? page : 64, whole));
  if (!p) throw std::bad_alloc();
  return p;
}

void host_memory::free(std::byte* memory) noexcept {
  if (pinned_ && pinned_->holds(memory))
    pinned_->free(memory);
  else
    std::free(memory);
}

} // namespace tern::hetero::detail
