// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/memory/state_memory.hpp>

#include <array>
#include <new>

#include <tern/task/fiber/sanitizer.hpp>

namespace tern::hetero::detail {
namespace {

#ifdef TERN_ASAN
constexpr bool keeps = false;
#else
constexpr bool keeps = true;
#endif

void* from_system(std::size_t bytes) { return ::operator new(bytes, std::align_val_t(state_memory::alignment)); }
void to_system(void* memory) noexcept { ::operator delete(memory, std::align_val_t(state_memory::alignment)); }

// Objects may go when the thread's variables have gone.
constinit thread_local bool has_ended = false;

struct kept_blocks {
  ~kept_blocks() {
    has_ended = true;
    while (count > 0) to_system(blocks[--count]);
  }
  std::array<void*, state_memory::most_kept> blocks;
  std::size_t count = 0;
};
thread_local kept_blocks kept;

} // namespace

void* state_memory::take(std::size_t bytes) {
  if (!keeps || has_ended || kept.count == 0) return from_system(bytes);
  return kept.blocks[--kept.count];
}

void state_memory::give_back(void* memory, std::size_t) noexcept {
  if (!keeps || has_ended || kept.count == most_kept) return to_system(memory);
  kept.blocks[kept.count++] = memory;
}

} // namespace tern::hetero::detail
