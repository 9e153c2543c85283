// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which of the host's copies of objects are in its memory, and which are on disk. Internal.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tern/hetero/data/coherence.hpp>
#include <tern/hetero/data/host_paging.hpp>
#include <tern/hetero/eviction/eviction_rank.hpp>
#include <tern/hetero/paging/resident_instances.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/store/store.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

/// Keeps the host's copies of a runtime's objects within a limit of bytes.
///
/// Tasks, transfers and other users whose blocks are in memory go on at once. Others wait in the
/// order in which they came, until there is room for all that one needs; then that is read, and
/// held. A fiber that lives while something waits makes room: blocks go in the order of
/// eviction_rank. One that is the same on disk, or that others have, goes at once; else it is
/// written first, by a fiber of its own. It stays on disk until it changes.
///
/// Guarantees: nothing is lost if the disk is full or fails, as what could not be written stays.
/// Nothing waits for ever: if all that is in the way is held by accesses of the program, or cannot
/// be written, or nothing has happened for `patience`, the first that waits gets its memory beyond
/// the limit. Only what is larger than the limit by itself fails, and what has to wait when the
/// heap has no memory even for a note of that.
///
/// Threads: any. Locks an object before its own lock, never after.
class host_pager final : public host_paging {
public:
  struct settings {
    std::size_t limit = 0;
    tern::detail::object_store::settings disk;
    std::string owner; ///< for messages of the disk
  };
  static constexpr std::chrono::seconds patience{1};

  /// \param copies its coherence, which outlives it.
  host_pager(coherence& copies, tern::detail::scheduler_core& core, const settings& s);
  ~host_pager() override;

  void changes(object_state& o) noexcept override;
  bool may_pass() noexcept override;
  void arrive(task_record* t) noexcept override;
  void arrive(transfer* x) noexcept override;
  std::byte* hold(object_state& o) override;
  void let_go(object_state& o) noexcept override;
  void forget(object_state& o) noexcept override;
  void look_again() noexcept override {
    if (waiting_.load(std::memory_order_relaxed) > 0 || over_limit()) wake();
  }
  void add_to(statistics& s) const noexcept;
  std::size_t limit() const noexcept { return limit_; }
  /// For reports: a line; empty if nothing waits.
  std::string describe() const;

private:
  friend struct host_pager_peer; // of the tests
  /// On lines of its own: one thread fills it in, another looks at it again and again.
  struct alignas(64) request {
    std::uint64_t number = 0; ///< in the order of arrival
    task_record* task = nullptr;
    transfer* copy = nullptr;
    object_state* held = nullptr;
    std::optional<promise<void>> done; ///< of `held`
    std::exception_ptr failed;
  };
  struct amounts {
    std::size_t all = 0, lacking = 0; ///< bytes of the blocks that it needs
  };
  struct loading {
    object_state* object;
    std::byte* to;
  };
  template <class F> static void each_object(const request& r, F&& f);
  bool over_limit() const noexcept { return held_.load(std::memory_order_relaxed) > static_cast<std::int64_t>(limit_); }
  bool has_room(std::size_t bytes) const noexcept {
    return held_.load(std::memory_order_relaxed) + static_cast<std::int64_t>(bytes) <=
           static_cast<std::int64_t>(limit_);
  }
  bool must_not_wait() const noexcept;
  void wake() noexcept;
  /// Lists whose entries go from one to another: only a new request takes memory.
  using requests = std::list<request>;
  template <class T> void enter(T* request::*as, T* what) noexcept; ///< without memory for it: refuses it
  void push(requests&& one) noexcept;
  /// What cannot even wait, for want of memory, fails at once.
  void refuse(request& r) noexcept;
  std::exception_ptr no_memory(const request& r) const noexcept;

  // Of its fiber
  void work() noexcept;
  void serve(bool impatient) noexcept;
  std::optional<requests::iterator> first() noexcept;
  request& take(requests::iterator r) noexcept;
  void pass_copies() noexcept;
  static amounts amounts_of(const request& r) noexcept;
  std::exception_ptr too_large(const request& r, std::size_t bytes) const;
  void reserve(request& r) noexcept;
  void bring(object_state& o, const request& r, std::vector<loading>& loads);
  void finish_those_here() noexcept;
  bool is_here(request& r) const noexcept;
  void finish(request& r) noexcept;

  // room.cpp
  /// Makes room for so many bytes, or begins to. \return whether memory may be free later without
  /// more. Sets `look_soon_` if another thread had locked an object.
  bool make_room(std::size_t bytes) noexcept;
  eviction_rank rank_of(object_state& o, bool foreseen) const;
  /// Under the lock.
  void release_block(object_state& o) noexcept;
  std::byte* take_memory(std::size_t bytes);
  void give_memory(std::byte* memory, std::size_t bytes) noexcept;
  void drop_spare_memory() noexcept;

  // disk.cpp
  void start_save(object_state* o) noexcept;
  void start_load(const loading& l) noexcept;
  void save(object_state& o) noexcept;
  void load(const loading& l) noexcept;
  void transfer_ended(object_state& o, bool orphan) noexcept;
  bool can_write() const noexcept;
  void cannot_write(const std::string& why) noexcept;
  void drop_copies() noexcept;
  void take_time() const;

  coherence& copies_;
  tern::detail::scheduler_core& core_;
  const std::size_t limit_;
  const bool simulated_;
  tern::detail::object_store store_;
  resident_instances resident_;             // blocks in memory
  std::atomic<std::int64_t> held_{0};       // bytes of blocks, with those that are being read
  std::atomic<std::size_t> waiting_{0};     // requests
  std::atomic<int> passed_{0};              // since the last of them was served
  std::atomic<std::int64_t> full_until_{0}; // nothing is written before
  std::atomic<bool> reported_full_{false};
  struct counted {
    std::atomic<std::uint64_t> times{0}, bytes{0};
  } saved_, loaded_;

  mutable tern::detail::spin_lock guard_; // of what follows
  requests queue_, copies_waiting_;       // transfers are in the second one
  std::uint64_t arrived_ = 0;
  std::multimap<std::size_t, std::byte*> spare_; // memory by bytes; with what is held, within the limit
  std::size_t spare_bytes_ = 0;
  bool active_ = false, sleeps_ = false, news_ = false;
  semaphore wakeup_{0};

  // The fiber's.
  requests coming_; // have their room, and wait until all is there
  std::atomic<int> writing_{0};
  std::atomic<std::uint64_t> io_ended_{1};
  bool look_soon_ = false;
  std::uint64_t awaits_disk_ = 0; // while `io_ended_` is this, nothing can be done: blocks are being written
};

} // namespace tern::hetero::detail
