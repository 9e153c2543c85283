// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Objects that are not in memory. Internal; docs/design/migration.md describes it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include <tern/mobile/directory.hpp>
#include <tern/mobile/disk/store.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern::mobile {

/// Of one rank: which of its objects are in memory. Thread-safe.
///
/// An object counts with the bytes that it would be packed to, from when an invocation of it last ended. When all that
/// are in memory, or are to be, would be more than the limit, fibers of its own write those that are idle and were not
/// used lately to disk (the clock algorithm, as for routes); one that is as it was when it was read is not written
/// again. Those that are wanted come back in the order in which they were, as room is made; if no object can go, one at
/// a time comes all the same, so that the job goes on.
class directory::pager {
public:
  explicit pager(directory& of);

  bool limits() const noexcept { return limit_ > 0; }
  /// `e`, whose access the caller has or which nobody knows of yet, takes so many bytes now.
  void measured(entry& e, std::uint64_t bytes) noexcept;
  /// Under its shard's lock: it is on this rank no more. \return what is on disk of it, for `forget`.
  [[nodiscard]] std::optional<detail::stored> gone(entry& e) noexcept;
  void forget(const std::optional<detail::stored>& copy) noexcept {
    if (copy) store_.drop(*copy);
  }
  /// It is at `loading` now: brings it back. Not under a lock.
  void want(entry& e);
  /// Something has happened; `room`: that may make room. Not under a lock.
  void look_again(bool room = true);
  /// In a fiber, `e` at `leaving`: to disk with it, unless it is wanted. \throws what packing and writing throw; then,
  /// as always, it is no longer at `leaving`.
  void put_out(entry& e);

private:
  void go_on();
  bool needs_room() const noexcept;
  void make_room();
  entry* find_idle();
  entry* find_idle(shard& s);
  void bring_back(entry& e);
  void take_time() const;
  bool is_full() const noexcept;
  detail::stored write(std::span<const std::byte> bytes);
  bool drop_copies();
  void cannot_write(const std::exception& e);

  static constexpr int most_writing = 2, most_reading = 4; // at a time; as the store has threads, and some to unpack
  directory& of_;
  const std::uint64_t limit_; // 0: none
  detail::object_store store_;
  std::atomic<std::int64_t> in_memory_{0};      // bytes, with those that are being read
  std::atomic<bool> stuck_{false};              // nothing could go when somebody looked last
  std::atomic<std::uint64_t> news_{0};          // how often something has happened since that may change it
  std::atomic<fiber_clock::rep> full_until_{0}; // nothing is written before
  tern::detail::spin_lock guard_;               // for what follows
  std::deque<entry*> wanted_;
  std::atomic<std::size_t> waiting_{0}; // of those
  std::uint64_t leaving_ = 0;           // bytes that are being written
  int writing_ = 0, reading_ = 0;
  bool told_ = false; // that the disk is full
  mutex looking_;     // for one, of those that write
  std::size_t shard_ = 0, slot_ = 0;
};

} // namespace tern::mobile
