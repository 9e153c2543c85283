// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/memory/pinned_memory.hpp>

#include <algorithm>
#include <new>
#include <utility>

#include <sys/mman.h>

#include <tern/task/fiber/sanitizer.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t large_from = page * 4;
constexpr std::size_t mib = std::size_t{1} << 20;

// Small slabs at first: what is locked is resident. None so large that others would wait long until
// it is locked.
block_pool_settings settings_of(bool large, std::size_t budget) {
  return {.alignment = large ? page : 64,
          .granule = huge_page,
          .first_slab = (large ? 8 : 2) * mib,
          .largest_slab = (large ? 64 : 8) * mib,
          .limit = budget};
}

std::byte* pointer(std::uintptr_t at) noexcept { return reinterpret_cast<std::byte*>(at); }
// address: says only where memory lies and which slab a byte is of
std::uintptr_t address(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

// Aligned to huge pages, which the system does by itself only since Linux 6.7. \return 0 if there
// is none
std::uintptr_t map(std::size_t bytes) noexcept {
  if (bytes > SIZE_MAX - huge_page) return 0;
  const std::size_t more = bytes + huge_page;
  void* const got = ::mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return 0;
  auto* const first = static_cast<std::byte*>(got);
  const std::size_t gap = (huge_page - address(first) % huge_page) % huge_page;
  if (gap != 0) ::munmap(first, gap);
  ::munmap(first + gap + bytes, huge_page - gap);
  ::madvise(first + gap, bytes, MADV_HUGEPAGE); // a wish: without such pages it is memory all the same
  return address(first + gap);
}

// What is free is poisoned, so that the address sanitizer finds uses of it.
void poison([[maybe_unused]] std::uintptr_t at, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef TERN_ASAN
  __asan_poison_memory_region(pointer(at), bytes);
#endif
}
void unpoison([[maybe_unused]] std::uintptr_t at, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef TERN_ASAN
  __asan_unpoison_memory_region(pointer(at), bytes);
#endif
}

} // namespace

pinned_memory::pinned_memory(std::size_t budget)
    : budget_(budget), small_(*this, settings_of(false, budget)), large_(*this, settings_of(true, budget)) {}

pinned_memory::~pinned_memory() = default; // the pools give all back

// Slabs: all under mutex_ --------------------------------------------------------------------------------------------

pinned_memory::state pinned_memory::try_to_lock(std::uintptr_t at, std::size_t bytes) const noexcept {
  if (!locker_.lock) return state::ordinary;
  return locker_.lock(locker_.owner, pointer(at), bytes) ? state::locked : state::refused;
}

void pinned_memory::set(slab& s, state how) noexcept {
  const std::lock_guard hold(table_mutex_);
  s.how = how;
}

std::uintptr_t pinned_memory::get(std::size_t bytes, block_pool& pool) {
  if (bytes > budget_ || reserved_ > budget_ - bytes) return 0;
  std::vector<slab> table; // before anything that would have to be undone
  table.reserve(table_.size() + 1);
  const std::uintptr_t at = map(bytes);
  if (at == 0) return 0;
  const slab added{at, bytes, &pool, try_to_lock(at, bytes)};
  poison(at, bytes);
  const auto place = std::partition_point(table_.begin(), table_.end(), [at](const slab& s) { return s.at < at; });
  table.insert(table.end(), table_.begin(), place);
  table.push_back(added);
  table.insert(table.end(), place, table_.end());
  reserved_ += bytes;
  const std::lock_guard hold(table_mutex_);
  table_.swap(table);
  return at;
}

void pinned_memory::give_back(std::uintptr_t at, std::size_t bytes) noexcept {
  const auto s = std::partition_point(table_.begin(), table_.end(), [at](const slab& t) { return t.at < at; });
  const bool locked = s->how == state::locked;
  {
    const std::lock_guard hold(table_mutex_);
    table_.erase(s);
  }
  if (locked) locker_.unlock(locker_.owner, pointer(at));
  unpoison(at, bytes); // the marks would stay, for the next mapping at these addresses
  ::munmap(pointer(at), bytes);
  reserved_ -= bytes;
}

bool pinned_memory::lock_with(const locker& how) noexcept {
  const std::lock_guard hold(mutex_);
  if (locker_.lock) return locker_.owner == how.owner;
  locker_ = how;
  for (slab& s : table_) set(s, try_to_lock(s.at, s.bytes));
  return true;
}

bool pinned_memory::stop_locking(void* owner) noexcept {
  const std::lock_guard hold(mutex_);
  if (!locker_.lock || locker_.owner != owner) return false;
  for (slab& s : table_) {
    const bool locked = s.how == state::locked;
    set(s, state::ordinary); // before: it must not count as locked when it is not
    if (locked) locker_.unlock(owner, pointer(s.at));
  }
  locker_ = locker();
  return true;
}

// Blocks --------------------------------------------------------------------------------------------------------------

std::byte* pinned_memory::allocate(std::size_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  block_pool& pool = (bytes < large_from ? small_ : large_).pool;
  block_pool& other = (bytes < large_from ? large_ : small_).pool;
  // Where it is certain to be in vain, no slabs are given back to make room.
  const std::size_t kept = reserved_ - pool.bytes_idle() - other.bytes_idle();
  if (pool.largest_free() < bytes && bytes > budget_ - kept) return nullptr;
  try {
    std::uintptr_t at = pool.allocate(bytes);
    if (at == 0 && other.bytes_idle() != 0) {
      other.trim();
      at = pool.allocate(bytes);
    }
    if (at != 0) unpoison(at, bytes); // not the rest of the block
    return pointer(at);
  } catch (const std::bad_alloc&) { // for the bookkeeping
    return nullptr;
  }
}

void pinned_memory::free(std::byte* p) noexcept {
  if (!p) return;
  const std::lock_guard hold(mutex_);
  const slab* const s = find(p);
  block_pool& pool = s ? *s->pool : small_.pool; // which ends the process if it is of neither
  poison(address(p), pool.size_of(address(p)));
  pool.free(address(p));
}

void pinned_memory::trim() noexcept {
  const std::lock_guard hold(mutex_);
  small_.pool.trim();
  large_.pool.trim();
}

// Look-ups ------------------------------------------------------------------------------------------------------------

// Under either of the two.
const pinned_memory::slab* pinned_memory::find(const void* p) const noexcept {
  const std::uintptr_t at = address(p);
  const auto behind = std::partition_point(table_.begin(), table_.end(), [at](const slab& s) { return s.at <= at; });
  if (behind == table_.begin()) return nullptr;
  const slab& s = *std::prev(behind);
  return at - s.at < s.bytes ? &s : nullptr;
}

bool pinned_memory::holds(const void* p) const noexcept {
  const std::lock_guard hold(table_mutex_);
  return find(p);
}

bool pinned_memory::is_locked(const void* p) const noexcept {
  const std::lock_guard hold(table_mutex_);
  const slab* const s = find(p);
  return s && s->how == state::locked;
}

std::size_t pinned_memory::bytes_that_are(state how) const noexcept {
  const std::lock_guard hold(table_mutex_);
  std::size_t bytes = 0;
  for (const slab& s : table_) bytes += s.how == how ? s.bytes : 0;
  return bytes;
}
std::size_t pinned_memory::bytes_locked() const noexcept { return bytes_that_are(state::locked); }
std::size_t pinned_memory::bytes_not_locked() const noexcept { return bytes_that_are(state::refused); }

std::size_t pinned_memory::bytes_used() const noexcept {
  const std::lock_guard hold(mutex_);
  return small_.pool.bytes_used() + large_.pool.bytes_used();
}

std::size_t pinned_memory::bytes_reserved() const noexcept {
  const std::lock_guard hold(mutex_);
  return reserved_;
}

} // namespace tern::hetero::detail
