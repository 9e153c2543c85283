// SPDX-License-Identifier: Apache-2.0
/// \file
/// Counts what this process allocates, in all libraries and threads: an executable's own malloc
/// replaces the C library's. The C library's other allocation functions keep working beside it.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {

std::atomic<std::uint64_t> made{0};
void note() noexcept { made.fetch_add(1, std::memory_order_relaxed); }

} // namespace

std::uint64_t allocations_so_far();
std::uint64_t allocations_so_far() { return made.load(std::memory_order_relaxed); }

extern "C" {
void* malloc(std::size_t size) noexcept {
  note();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  note();
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  note();
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  note();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return memalign(alignment, size); }
int posix_memalign(void** to, std::size_t alignment, std::size_t size) noexcept {
  void* found = memalign(alignment, size);
  if (!found) return ENOMEM;
  *to = found;
  return 0;
}
void free(void* old) noexcept { __libc_free(old); }
}
