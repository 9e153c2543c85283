// SPDX-License-Identifier: Apache-2.0
#include "tests/hetero/support/test_heap.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace tern::hetero::test_heap {

thread_local long allocations = 0;
thread_local long allowed = -1;

namespace {
std::atomic<std::size_t> bytes_refused{0}; // 0: none
std::atomic<unsigned> every{1}, asked{0}, times{0};

[[maybe_unused]] bool is_refused() noexcept {
  ++allocations;
  if (allowed >= 0 && allowed-- == 0) {
    allowed = 0;
    return true;
  }
  return false;
}
[[maybe_unused]] bool is_refused_aligned(std::size_t bytes) noexcept {
  if (bytes == 0 || bytes_refused.load(std::memory_order_relaxed) != bytes) return false;
  if ((asked.fetch_add(1, std::memory_order_relaxed) + 1) % every.load(std::memory_order_relaxed) != 0) return false;
  times.fetch_add(1, std::memory_order_relaxed);
  return true;
}
} // namespace

refusal::refusal(std::size_t bytes, unsigned one_of) noexcept {
  every.store(one_of, std::memory_order_relaxed);
  asked.store(0, std::memory_order_relaxed);
  times.store(0, std::memory_order_relaxed);
  bytes_refused.store(bytes, std::memory_order_relaxed);
}
refusal::~refusal() { bytes_refused.store(0, std::memory_order_relaxed); }
unsigned refusal::refused() noexcept { return times.load(std::memory_order_relaxed); }

} // namespace tern::hetero::test_heap

#if !defined(TERN_ASAN) && !defined(TERN_TSAN)
// Not inlined: g++ 12 would take the malloc of the one and the free of the other for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (tern::hetero::test_heap::is_refused()) throw std::bad_alloc();
  if (void* const p = std::malloc(std::max<std::size_t>(bytes, 1))) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  const auto multiple = static_cast<std::size_t>(align);
  if (tern::hetero::test_heap::is_refused() || tern::hetero::test_heap::is_refused_aligned(bytes))
    throw std::bad_alloc();
  if (void* const p =
          std::aligned_alloc(multiple, (std::max<std::size_t>(bytes, 1) + multiple - 1) / multiple * multiple))
    return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#endif
