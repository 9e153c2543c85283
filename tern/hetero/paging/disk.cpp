// SPDX-License-Identifier: Apache-2.0
/// \file
/// Blocks are written to disk and read back, each by a fiber of its own.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/hetero/paging/host_pager.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::hetero::detail {

namespace {

constexpr auto retry_after = std::chrono::seconds(1); // a full disk

/// Names the object, which the disk does not know.
std::exception_ptr with_object(const object_state& o, const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    return std::make_exception_ptr(
        error(e.code(), o.text() + " did not come back from disk: " + e.message(), e.hint()));
  } catch (...) {
    return std::current_exception();
  }
}

/// Without the lock, under which the list of instances may grow.
std::size_t bytes_of(const object_state& o) noexcept { return static_cast<std::size_t>(o.all.size()) * o.element; }

bool is_orphan(object_state& o) noexcept {
  if (!o.orphan || std::any_of(o.instances.begin(), o.instances.end(), [](const instance& i) { return i.users > 0; }))
    return false;
  o.orphan = false;
  return true;
}

} // namespace

// In a simulation a disk is as slow as elsewhere; or nothing would ever come meanwhile.
void host_pager::take_time() const {
  if (simulated_) this_fiber::sleep_for(std::chrono::microseconds(50));
}

bool host_pager::can_write() const noexcept { return core_.now() >= full_until_.load(std::memory_order_relaxed); }

// Nothing is lost: what does not get there stays in memory, beyond the limit.
void host_pager::cannot_write(const std::string& why) noexcept {
  full_until_.store(core_.now() + std::chrono::nanoseconds(retry_after).count(), std::memory_order_relaxed);
  drop_copies();
  if (!reported_full_.exchange(true, std::memory_order_relaxed))
    log_error("objects stay in memory beyond --tern-hetero-host-memory, and the program goes on: " + why);
}

// What is in memory as well need not be on a disk that is full.
void host_pager::drop_copies() noexcept {
  const std::uint64_t before = store_.bytes();
  resident_.each([&](object_state& o, std::size_t) {
    if (o.paged->at == host_block::here) changes(o);
  });
  if (store_.bytes() < before) full_until_.store(0, std::memory_order_relaxed);
}

void host_pager::start_save(object_state* o) noexcept {
  const tern::detail::causal_scope no_cause(nullptr); // it works for all
  copies_.client().save_began();
  core_.owner->spawn([this, o] { save(*o); }, {.name = "host memory to disk"});
}

void host_pager::save(object_state& o) noexcept {
  take_time();
  std::optional<tern::detail::stored> where;
  std::string why;
  try {
    where = store_.write({o.host.load(std::memory_order_relaxed), bytes_of(o)});
    saved_.times.fetch_add(1, std::memory_order_relaxed);
    saved_.bytes.fetch_add(bytes_of(o), std::memory_order_relaxed);
  } catch (const error& e) {
    why = e.what();
  } catch (const std::exception& e) {
    why = e.what();
  }
  bool orphan = false;
  {
    const std::lock_guard hold(o.lock);
    --o.instances[0].users;
    o.paged->at = host_block::here;
    if (where) {
      o.paged->copy = *where;
      o.paged->has_copy = true;
    }
    orphan = is_orphan(o);
  }
  writing_.fetch_sub(1, std::memory_order_relaxed);
  if (!where) cannot_write(why);
  transfer_ended(o, orphan);
  copies_.client().save_ended();
}

void host_pager::start_load(const loading& l) noexcept {
  const tern::detail::causal_scope no_cause(nullptr);
  core_.owner->spawn([this, l] { load(l); }, {.name = "host memory from disk"});
}

void host_pager::load(const loading& l) noexcept {
  take_time();
  object_state& o = *l.object;
  const std::size_t bytes = bytes_of(o);
  std::exception_ptr why;
  try {
    constexpr std::size_t block = tern::detail::object_store::alignment;
    // address: of memory that the disk reaches without a copy; it is whole blocks, unless pinned
    if (reinterpret_cast<std::uintptr_t>(l.to) % block == 0 && (bytes % block == 0 || !copies_.memory().pinned())) {
      store_.read(o.paged->copy, l.to, (bytes + block - 1) / block * block);
    } else {
      const byte_buffer there = store_.read(o.paged->copy);
      std::memcpy(l.to, there.data(), bytes);
    }
    loaded_.times.fetch_add(1, std::memory_order_relaxed);
    loaded_.bytes.fetch_add(bytes, std::memory_order_relaxed);
    resident_.add(o, 0);
  } catch (...) {
    why = with_object(o, std::current_exception());
  }
  bool orphan = false;
  {
    const std::lock_guard hold(o.lock);
    --o.instances[0].users;
    if (why) {
      o.paged->at = host_block::absent;
      o.paged->failed = why;
      give_memory(l.to, bytes);
    } else {
      o.host.store(l.to, std::memory_order_release);
      o.paged->at = host_block::here;
    }
    orphan = is_orphan(o);
  }
  transfer_ended(o, orphan);
}

void host_pager::transfer_ended(object_state& o, bool orphan) noexcept {
  if (orphan) copies_.destroy(&o);
  io_ended_.fetch_add(1, std::memory_order_release); // what the block is now
  wake();
}

} // namespace tern::hetero::detail
