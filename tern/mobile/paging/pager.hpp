// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which objects of a rank are in memory, and which are on disk. Internal; docs/design/migration.md
/// describes the protocol.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <string>

#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/paging/options.hpp>
#include <tern/mobile/routes/router.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/store/store.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

/// Keeps the objects of one rank within the limit of memory. Thread-safe.
///
/// An object counts with the bytes that it would be packed to, from when an invocation of it last
/// ended. When all that are in memory, or are to be, would be more than the limit, fibers of its
/// own write those that are idle and were not used lately to disk (the clock algorithm, as for
/// entries of objects elsewhere); one that is as it was when it was read is not written again.
/// Those that are wanted come back in the order in which they were, as room is made; if no object
/// can go, one at a time comes all the same, so that the job goes on.
class pager {
public:
  /// \throws error(invalid_option).
  pager(rank_objects& objects, object_loads& loads, admission& access, router& routes);

  bool limits() const noexcept { return limit_ > 0; }
  void forget(const std::optional<tern::detail::stored>& copy) noexcept {
    if (copy) store_.drop(*copy);
  }
  /// What an object at `stored` was packed to. \throws as `object_store::read`.
  byte_buffer copy_of(const entry& e);
  /// It is at `loading` now: brings it back. Not under a lock.
  void want(entry& e);
  /// Something has happened; `room`: that may make room. Not under a lock.
  void look_again(bool room = true);
  /// In a fiber: nothing is read or written from now on, once it returns, until `resume`.
  void settle();
  void resume() noexcept;
  /// A request to swap the object out, which is at `leaving`; answers it. In a fiber.
  void serve(entry& e, const invocation& request);

private:
  /// In a fiber, `e` at `leaving`: to disk with it, unless it is wanted. \throws what packing and
  /// writing throw; then, as always, it is no longer at `leaving`.
  void swap_out(entry& e);
  void go_on();
  void end_fiber() noexcept;
  bool needs_room() const noexcept;
  void make_room();
  entry* find_idle();
  entry* find_idle(shard& s);
  void bring_back(entry& e);
  void take_time() const;
  bool is_full() const noexcept;
  tern::detail::stored write(std::span<const std::byte> bytes);
  bool drop_copies();
  void cannot_write(const std::exception& e);

  static constexpr int most_writing = 2, most_reading = 4; // at a time; as the store has threads, and some to unpack
  rank_objects& objects_;
  net::node& node_;
  object_loads& loads_;
  admission& admission_;
  router& router_;
  const std::uint64_t limit_; // 0: none
  tern::detail::object_store store_;
  std::atomic<std::int64_t>& in_memory_;        // bytes, with those that are being read
  std::atomic<bool> stuck_{false};              // no object could go at the last look
  std::atomic<std::uint64_t> news_{0};          // how often something has happened since that may change it
  std::atomic<fiber_clock::rep> full_until_{0}; // nothing is written before
  tern::detail::spin_lock guard_;               // for what follows
  std::deque<entry*> wanted_;
  std::atomic<std::size_t> waiting_{0}; // of those
  std::uint64_t leaving_ = 0;           // bytes that are being written
  int writing_ = 0, reading_ = 0;
  bool reported_full_ = false; // that the disk is full
  bool stopped_ = false;       // nothing new is begun
  int fibers_ = 0;             // that read or write
  tern::detail::waiter_list settling_;
  mutex looking_; // for one, of those that write
  std::size_t shard_ = 0, slot_ = 0;
};

} // namespace tern::mobile::detail
