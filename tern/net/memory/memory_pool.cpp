// SPDX-License-Identifier: Apache-2.0
#include <tern/net/memory/memory_pool.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <sys/mman.h>

#include <tern/base/error.hpp>
#include <tern/net/memory/shared_memory.hpp>

namespace tern::net {
namespace {

constexpr unsigned smallest = 12; // log2
constexpr std::size_t huge_page = std::size_t{2} << 20;

// Large blocks in large pages, if the kernel has some to spare: MPI copies between processes page
// by page, and what does not fit into the caches fits into the TLB.
void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes < 2 * huge_page) return std::aligned_alloc(alignment, bytes);
  const std::size_t whole = (bytes + huge_page - 1) / huge_page * huge_page;
  void* const memory = std::aligned_alloc(huge_page, whole);
  if (memory) madvise(memory, whole, MADV_HUGEPAGE); // a wish: without such pages it is memory all the same
  return memory;
}

} // namespace

memory_pool::memory_pool(std::size_t most) : store_(new store(most)) {}
memory_pool::~memory_pool() { store_->forget(); }

byte_buffer memory_pool::take(std::size_t size) {
  if (byte_buffer shared = detail::shared_pool::take_here(size); !shared.empty()) return shared;
  std::byte* const data = store_->take(size);
  return byte_buffer::borrow(data, size, *store_);
}

unsigned memory_pool::store::kind_of(std::size_t size) noexcept {
  if (size <= std::size_t{1} << smallest) return 0;
  const auto log = static_cast<unsigned>(std::bit_width(size - 1)) - 1; // 2^log < size <= 2^(log + 1)
  const std::size_t quarter = std::size_t{1} << (log - 2);
  const auto above = static_cast<unsigned>((size - (std::size_t{1} << log) + quarter - 1) / quarter); // 1 to 4
  return 4 * (log - smallest) + above;
}

std::size_t memory_pool::store::bytes_of(unsigned kind) noexcept {
  const std::size_t base = std::size_t{1} << (smallest + kind / 4);
  return base + kind % 4 * (base / 4);
}

std::byte* memory_pool::store::try_take(std::size_t size) noexcept {
  const unsigned kind = kind_of(size);
  if (kind >= kinds) return nullptr;
  block* b = nullptr;
  {
    std::lock_guard hold(lock_);
    b = free_ ? (*free_)[kind] : nullptr;
    if (b) {
      (*free_)[kind] = b->next;
      kept_.store(kept_.load(std::memory_order_relaxed) - bytes_of(kind), std::memory_order_relaxed);
    }
  }
  if (!b) {
    void* const memory = allocate(sizeof(block) + bytes_of(kind), alignof(block));
    if (!memory) return nullptr;
    b = ::new (memory) block{nullptr, kind};
  }
  users_.fetch_add(1, std::memory_order_relaxed);
  return reinterpret_cast<std::byte*>(b + 1);
}

std::byte* memory_pool::store::take(std::size_t size) {
  if (std::byte* data = try_take(size)) return data;
  throw error(errc::out_of_memory, "cannot allocate " + std::to_string(size) + " bytes for a message",
              "send less at a time, or give the process more memory");
}

void memory_pool::store::take_back(std::byte* data) noexcept {
  block* const b = reinterpret_cast<block*>(data) - 1;
  const std::size_t bytes = bytes_of(b->kind);
  bool keep = false;
  {
    std::lock_guard hold(lock_);
    const std::size_t now = kept_.load(std::memory_order_relaxed);
    keep = bytes <= most_ && now <= most_ - bytes;
    if (keep && !free_) {
      free_.reset(new (std::nothrow) std::array<block*, kinds>{});
      keep = free_ != nullptr;
    }
    if (keep) {
      b->next = std::exchange((*free_)[b->kind], b);
      kept_.store(now + bytes, std::memory_order_relaxed);
    }
  }
  if (!keep) std::free(b);
  forget();
}

// release: each user's work on its blocks comes before the end. acquire: by the last user.
void memory_pool::store::forget() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (free_)
    for (block* b : *free_)
      while (b) std::free(std::exchange(b, b->next));
  delete this;
}

} // namespace tern::net
