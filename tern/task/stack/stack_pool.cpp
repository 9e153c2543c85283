// SPDX-License-Identifier: Apache-2.0
#include <tern/task/stack/stack_pool.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/trace/trace.hpp>

namespace tern::detail {
namespace {

// Linux 6.13 and later: a guard that costs no mapping of its own. Older kernels refuse it with
// EINVAL.
constexpr int madv_guard_install = 102;
constexpr std::size_t mapping_bytes = std::size_t{64} * 1024 * 1024; // mappings grow up to this
constexpr std::size_t colours = 16;
constexpr unsigned char canary = 0xc5;

// Stacks of all pools that are guarded by a page of their own: each costs two of the process's
// mappings.
std::atomic<std::size_t> guard_pages{0};

std::size_t most_guard_pages() {
  static const std::size_t most = [] {
    std::size_t mappings = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
    return mappings > 0 ? mappings / 4 : std::size_t{16384};
  }();
  return most;
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

} // namespace

stack_guard best_guard() {
  static const stack_guard best = [] {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* trial = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED) return stack_guard::pages;
    const bool works = madvise(trial, page, madv_guard_install) == 0;
    munmap(trial, page);
    return works ? stack_guard::regions : stack_guard::pages;
  }();
  return best;
}

stack_pool::stack_pool(scheduler_core* home, std::size_t stack_bytes, stack_guard guard)
    : home_(home), page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      guard_(guard == stack_guard::automatic ? best_guard() : guard), traced_(trace::on()) {
  classes_[0].usable = round_up(std::max(stack_bytes, least_bytes), page_);
  for (std::size_t i = 1; i < classes_.size(); ++i) classes_[i].usable = std::size_t{1} << i;
}

stack_pool::~stack_pool() {
  for (const auto& m : mappings_) {
    for (std::size_t i = 0; i < m.carved; ++i) {
      fiber* f = m.fiber_at(i);
      tsan::destroy_fiber(f->tsan_fiber);
      f->~fiber();
    }
    asan::forget(m.base, m.slot * m.slots);
    munmap(m.base, m.slot * m.slots);
  }
  guard_pages.fetch_sub(guarded_, std::memory_order_relaxed);
}

std::uint8_t stack_pool::class_of(std::size_t stack_bytes) const {
  if (stack_bytes == 0 || stack_bytes == classes_[0].usable) return 0;
  if (stack_bytes > most_bytes)
    throw error(errc::invalid_argument, "a fiber cannot have a stack of " + std::to_string(stack_bytes) + " bytes",
                "at most 2^36 bytes; put large data on the heap");
  const std::size_t rounded = std::bit_ceil(std::max({stack_bytes, least_bytes, page_}));
  return rounded == classes_[0].usable ? std::uint8_t{0} : static_cast<std::uint8_t>(std::bit_width(rounded) - 1);
}

// Stacks of one size would have their busiest addresses in the same few sets of the cache.
fiber* stack_pool::mapping::fiber_at(std::size_t i) const noexcept {
  std::byte* end = base + (i + 1) * slot - sizeof(fiber) - i % colours * 64;
  // address: alignment, which is the same wherever the mapping lies
  return reinterpret_cast<fiber*>(reinterpret_cast<std::uintptr_t>(end) & ~std::uintptr_t{alignof(fiber) - 1});
}

void stack_pool::map(std::uint8_t stack_class) {
  size_class& c = classes_[stack_class];
  const std::size_t slot = guard_bytes + c.usable;
  const std::size_t slots = std::max<std::size_t>(1, std::min(c.slots, mapping_bytes / slot));
  mappings_.emplace_back(); // now: later nothing may fail
  // If so many do not fit, we do not try fewer: the heap needs some room as well.
  void* base = mmap(nullptr, slot * slots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    const int why = errno;
    mappings_.pop_back();
    throw error(errc::out_of_memory,
                "no memory for more fiber stacks (" + std::to_string(made()) + " exist, the next has " +
                    std::to_string(c.usable / 1024) + " KiB): " + std::strerror(why),
                "start fewer fibers at once, or raise vm.max_map_count or the memory limit");
  }
  // A huge page would back many barely used stacks with 2 MiB each. Only a hint, so its failure
  // changes nothing.
  (void)madvise(base, slot * slots, MADV_NOHUGEPAGE);
  mappings_.back() = {static_cast<std::byte*>(base), slot, slots, 0, stack_class};
  c.mapping = mappings_.size();
  if (c.slots * slot < mapping_bytes) c.slots *= 2;
}

// Below `low`.
guard_kind stack_pool::protect(std::byte* low) {
  std::byte* guard = low - guard_bytes;
  if (guard_ == stack_guard::regions && madvise(guard, guard_bytes, madv_guard_install) == 0) return guard_kind::region;
  if (guard_ != stack_guard::canary && guard_pages.load(std::memory_order_relaxed) < most_guard_pages() &&
      mprotect(guard, guard_bytes, PROT_NONE) == 0) {
    guard_pages.fetch_add(1, std::memory_order_relaxed);
    ++guarded_;
    return guard_kind::page;
  }
  std::memset(low, canary, canary_bytes);
  return guard_kind::canary;
}

fiber* stack_pool::carve(std::uint8_t stack_class) {
  size_class& c = classes_[stack_class];
  if (c.mapping == 0 || mappings_[c.mapping - 1].carved == mappings_[c.mapping - 1].slots) map(stack_class);
  mapping& m = mappings_[c.mapping - 1];
  std::byte* low = m.base + m.carved * m.slot + guard_bytes;
  auto* f = ::new (static_cast<void*>(m.fiber_at(m.carved))) fiber;
  f->guard = protect(low);
  f->leave_flags = static_cast<std::uint8_t>((f->guard == guard_kind::canary ? leave_flags::canary : 0) |
                                             (traced_ ? leave_flags::traced : 0));
  f->home = home_;
  f->stack_class = stack_class;
  f->low = low;
  f->size = static_cast<std::size_t>(reinterpret_cast<std::byte*>(f) - low);
  f->tsan_fiber = tsan::create_fiber();
  ++m.carved;
  made_.fetch_add(1, std::memory_order_relaxed);
  return f;
}

fiber* stack_pool::take(std::uint8_t stack_class) {
  std::lock_guard hold(lock_);
  size_class& c = classes_[stack_class];
  if (!c.free) return carve(stack_class);
  fiber* f = c.free;
  c.free = static_cast<fiber*>(f->next);
  return f;
}

void stack_pool::give(fiber* chain) noexcept {
  if (!chain) return;
  fiber* last = chain;
  while (last->next) last = static_cast<fiber*>(last->next);
  std::lock_guard hold(lock_);
  size_class& c = classes_[chain->stack_class];
  last->next = c.free;
  c.free = chain;
}

std::size_t stack_pool::deepest() {
  std::lock_guard hold(lock_);
  std::size_t most = 0;
  std::vector<unsigned char> resident;
  for (const auto& m : mappings_) {
    const std::size_t usable = m.slot - guard_bytes, pages = usable / page_;
    resident.resize(pages);
    for (std::size_t i = 0; i < m.carved; ++i) {
      const fiber* f = m.fiber_at(i);
      if (mincore(f->low, usable, resident.data()) != 0) continue;
      // A canary touches the lowest page.
      std::size_t p = f->guard == guard_kind::canary ? 1 : 0;
      while (p < pages && (resident[p] & 1) == 0) ++p;
      most = std::max(most, (pages - p) * page_);
    }
  }
  return most;
}

void check_canary(const fiber& f) noexcept {
  for (std::size_t i = 0; i < canary_bytes; ++i)
    if (std::to_integer<unsigned char>(f.low[i]) != canary) overflowed(f);
}

} // namespace tern::detail
