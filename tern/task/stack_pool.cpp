// SPDX-License-Identifier: Apache-2.0
#include <tern/task/detail/stack_pool.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/task/detail/sanitizer.hpp>

namespace tern::detail {
namespace {

constexpr std::size_t stacks_per_mapping = 16;
// Linux 6.13 and later: a guard that costs no mapping of its own. Older kernels refuse it with EINVAL.
constexpr int madv_guard_install = 102;

bool make_guard(void* page, std::size_t size) {
  return madvise(page, size, madv_guard_install) == 0 || mprotect(page, size, PROT_NONE) == 0;
}

} // namespace

stack_pool::stack_pool(std::size_t stack_bytes)
    : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      usable_((std::max(stack_bytes, std::size_t{16} * 1024) + page_ - 1) / page_ * page_), slot_(usable_ + page_) {}

stack_pool::~stack_pool() {
  for (auto& s : free_) tsan::destroy_fiber(s.tsan_fiber);
  for (auto& m : mappings_) {
    asan::forget(m.base, m.size);
    munmap(m.base, m.size);
  }
}

void stack_pool::grow() {
  const std::size_t size = slot_ * stacks_per_mapping;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw error(errc::out_of_memory,
                "no memory for more fiber stacks (" + std::to_string(stacks_) + " of " +
                    std::to_string(usable_ / 1024) + " KiB exist): " + std::strerror(errno),
                "start fewer fibers at once, or raise vm.max_map_count or the memory limit");
  // A huge page would back sixteen barely used stacks with 2 MiB each. Only a hint, so its failure changes nothing.
  (void)madvise(base, size, MADV_NOHUGEPAGE);
  auto* low = static_cast<std::byte*>(base);
  for (std::size_t i = 0; i < stacks_per_mapping; ++i)
    if (!make_guard(low + i * slot_, page_)) {
      const int why = errno;
      munmap(base, size);
      throw error(errc::out_of_memory,
                  "cannot guard fiber stack " + std::to_string(stacks_ + i) + ": " + std::strerror(why),
                  "start fewer fibers at once, or raise vm.max_map_count");
    }
  free_.reserve(stacks_ + stacks_per_mapping); // so that `give` need not allocate
  mappings_.push_back({base, size});
  for (std::size_t i = stacks_per_mapping; i-- > 0;) free_.push_back({low + i * slot_ + page_, usable_, nullptr});
  stacks_ += stacks_per_mapping;
}

stack stack_pool::take() {
  std::lock_guard hold(lock_);
  if (free_.empty()) grow();
  stack s = free_.back();
  free_.pop_back();
  if (!s.tsan_fiber) s.tsan_fiber = tsan::create_fiber();
  return s;
}

void stack_pool::give(stack s) noexcept {
  std::lock_guard hold(lock_);
  free_.push_back(s); // cannot throw: there is room for every stack (grow)
}

} // namespace tern::detail
