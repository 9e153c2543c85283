// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which blocks leave the host's memory, and what memory they leave.
#include <algorithm>
#include <bit>
#include <mutex>

#include <tern/hetero/paging/host_pager.hpp>

namespace tern::hetero::detail {

namespace {

constexpr int most_writing = 4; // at a time: as the disk has threads, and some that come next

/// Must a block be written before it goes? Not if the disk, or other instances, have all that is
/// valid in it, or a device is just writing it anew.
bool is_needed_here(object_state& o) noexcept {
  bool needed = false;
  const bool others_keep = o.paged->parked == 0; // a transfer that waits has been told that it is here
  o.each(o.all, [&](const fragment& f) {
    needed = needed || ((f.valid & 1) != 0 && (!others_keep || (f.valid == 1 && f.writing == 0)));
  });
  return needed && !o.paged->has_copy;
}

} // namespace

eviction_rank host_pager::rank_of(object_state& o, bool foreseen) const {
  const instance& x = o.instances[0];
  if (const auto next = copies_.upcoming().next(o, o.all, upcoming_uses::any_device))
    return eviction_rank::of_next(*next, x.leaving && !is_needed_here(o));
  // What is not wanted and is being written goes when that is over, not what was written faster.
  const bool soon_clean = x.unwanted && o.paged->at == host_block::saving;
  if (foreseen || x.unwanted)
    return eviction_rank::of_idle(soon_clean || !is_needed_here(o), x.unwanted ? 0 : x.last_used);
  return eviction_rank::of_unknown(x.last_used);
}

bool host_pager::make_room(std::size_t bytes) noexcept {
  if (has_room(bytes)) return false;
  const std::uint64_t ended = io_ended_.load(std::memory_order_acquire); // before the look
  // Blocks that come next are written while there is time: 1/16 of the memory.
  const std::size_t at_once = std::max(bytes, limit_ / 64), ahead = bytes + limit_ / 16;
  copies_.foresee();
  const bool foreseen = copies_.upcoming().complete();
  std::size_t coming = 0; // bytes that are free, or will be when they have been written
  bool later = false;
  std::vector<object_state*> saves;
  const auto held = static_cast<std::size_t>(std::max<std::int64_t>(held_.load(std::memory_order_relaxed), 0));
  const std::size_t free = limit_ > held ? limit_ - held : 0;
  const std::size_t beyond = held > limit_ ? held - limit_ : 0;
  const bool skipped = resident_.each([&](object_state& o, std::size_t) { return rank_of(o, foreseen); },
                                      [&](object_state& o, std::size_t) {
                                        instance& x = o.instances[0];
                                        host_block& b = *o.paged;
                                        if (b.at == host_block::saving) {
                                          later = true;
                                          coming += x.bytes;
                                        } else if (b.is_held(x.users)) {
                                          later = later || x.users - b.parked > b.open;
                                        } else if (!is_needed_here(o)) {
                                          if (free + coming < at_once + beyond)
                                            release_block(o); // else it can go when it must
                                          coming += x.bytes;
                                        } else if (can_write()) {
                                          later = true;
                                          if (writing_.load(std::memory_order_relaxed) < most_writing) {
                                            writing_.fetch_add(1, std::memory_order_relaxed);
                                            b.at = host_block::saving;
                                            ++x.users;
                                            x.leaving = true;
                                            saves.push_back(&o);
                                          }
                                          coming += x.bytes;
                                        }
                                        return free + coming < ahead + beyond;
                                      });
  awaits_disk_ = later && free + coming >= bytes + beyond && !has_room(bytes) ? ended : 0;
  for (object_state* o : saves) start_save(o);
  look_soon_ = skipped;
  return later || skipped;
}

void host_pager::release_block(object_state& o) noexcept {
  host_block& b = *o.paged;
  if (!b.has_copy) o.each(o.all, [&](fragment& f) { o.set_valid(f, f.valid & ~std::uint64_t{1}); });
  give_memory(o.host.exchange(nullptr, std::memory_order_relaxed), o.instances[0].bytes);
  b.at = host_block::absent;
  resident_.remove(o, 0);
}

// Memory --------------------------------------------------------------------------------------------------------------
// Blocks that come often have the size of one that has just gone: pages that the kernel has given
// once are used again.

std::byte* host_pager::take_memory(std::size_t bytes) {
  {
    const std::lock_guard hold(guard_);
    if (const auto at = spare_.find(bytes); at != spare_.end()) {
      std::byte* const p = at->second;
      spare_.erase(at);
      spare_bytes_ -= bytes;
      held_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
      return p;
    }
  }
  std::size_t spare = 0;
  {
    const std::lock_guard hold(guard_);
    spare = spare_bytes_;
  }
  if (spare > 0 && !has_room(bytes + spare)) drop_spare_memory();
  std::byte* const p = copies_.memory().allocate(bytes);
  held_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  return p;
}

void host_pager::give_memory(std::byte* memory, std::size_t bytes) noexcept {
  held_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  try {
    const std::lock_guard hold(guard_);
    if (spare_bytes_ + bytes <= limit_ / 16) {
      spare_.emplace(bytes, memory);
      spare_bytes_ += bytes;
      return;
    }
  } catch (const std::bad_alloc&) { // then it goes
  }
  copies_.memory().free(memory);
}

void host_pager::drop_spare_memory() noexcept {
  std::multimap<std::size_t, std::byte*> gone;
  {
    const std::lock_guard hold(guard_);
    gone.swap(spare_);
    spare_bytes_ = 0;
  }
  for (const auto& [bytes, memory] : gone) copies_.memory().free(memory);
}

} // namespace tern::hetero::detail
