// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The state of an object: which tasks use which part of it in which order, and which copies of it
/// are valid. Internal.
///
/// An object is cut into fragments, which never overlap and together are all of it: one as long as
/// tasks use it as a whole; a view cuts those that it meets, so that each lies within it or
/// outside. A fragment knows
/// - the tasks that wrote it last and those that have read it since: what a new task has to follow;
/// - which instances hold what it is (the M, S and I of the protocol: valid in one, in several,
///   not), and the transfers that are about to bring it to others.
/// An instance is memory of a device, or of the host, for a box of the object. The host has one,
/// number 0, for all of it. A task gets one that covers what it uses; so halos that overlap lie in
/// instances of their own on a device.
///
/// All is under the object's lock, which is held for moments and never while waiting.

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/hetero/access.hpp>
#include <tern/hetero/data/host_paging.hpp>
#include <tern/hetero/data/task_list.hpp>
#include <tern/hetero/memory/state_memory.hpp>
#include <tern/hetero/record/task_record.hpp>
#include <tern/task/future.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

class coherence;
class runtime;
struct transfer;

struct fragment {
  // What each task that is submitted looks at comes first.
  std::unique_ptr<fragment> next; ///< of the same cell
  /// One writer, several that commute, or none: yet, or any more (dependencies::leave).
  task_list writers, readers;
  /// While the writers commute: what each of them follows.
  task_list before_commuting;
  bool commuting = false; ///< then there are writers
  box where;
  bool lost = false;       ///< it was written, but the only device that had it is gone
  std::uint64_t valid = 0; ///< in instance i: bit i
  int writing = 0;         ///< tasks that write it hold instances: nothing is saved just now
  std::vector<transfer*> coming;
};

/// Most that an object may have; number 0 is the host's.
constexpr std::size_t instances_most = 64;

/// Of `fragment::valid`.
constexpr std::uint64_t bit(std::size_t instance) noexcept { return std::uint64_t{1} << instance; }

struct instance {
  std::uint8_t space = 0; ///< number of the device; 0: the host's memory
  box where;
  memory_handle memory = nullptr;
  layout how;
  std::size_t bytes = 0;
  int users = 0;  ///< tasks and transfers that need it now
  int pinned = 0; ///< by the user
  int saves = 0;  ///< of `users`: copies home that free memory
  bool exists = false;
  bool unwanted = false;  ///< it is the first to go, unless a task uses it again
  bool leaving = false;   ///< it was saved as one of the next to go, and no task has used it since
  bool home_only = false; ///< what it has could not be saved on another device
  bool keyed = false;     ///< the last task that used it has a key
  std::uint64_t key = 0;  ///< that one
  std::uint64_t last_used = 0;
  std::exception_ptr cannot_save; ///< it could not be copied home, and nothing has been written there since
};

using other_layouts = std::array<other_layout, 4>; ///< by kind

/// A reduction that is under way: tasks add to parts, which are added to the object when something
/// else uses it.
struct reduction {
  box part;
  void (*combine)(std::byte* into, const std::byte* from, std::int64_t n) = nullptr;
  std::vector<std::byte> identity;
  std::vector<object_state*> parts;
  std::size_t next = 0;
};

struct object_state {
  /// Beside so many, what a task's record takes in a cache does not count.
  static constexpr std::int64_t large_bytes = 16 * 1024;
  /// \param copies of `owner`.
  object_state(runtime& owner, coherence& copies, const box& all, std::size_t element, const char* type);
  ~object_state();
  static void* operator new(std::size_t bytes, std::align_val_t) { return state_memory::take(bytes); }
  static void operator delete(void* memory, std::size_t bytes, std::align_val_t) noexcept {
    state_memory::give_back(memory, bytes);
  }
  object_state(const object_state&) = delete;
  object_state& operator=(const object_state&) = delete;

  // What running tasks look at; apart from what submitting ones write.
  /// All of it is valid in the host's memory and stays there, and no other instance has been made:
  /// host tasks need not look further. Changes under the lock by a task that may write, or that is
  /// ordered before the reader.
  std::atomic<bool> on_host{false};
  std::atomic<bool> reducing{false};
  bool adopted = false;                  ///< the host's memory is the user's own, unless `left_lent`
  bool orphan = false;                   ///< no handle or task has it any more, but a transfer is under way
  const bool large;                      ///< it has `large_bytes` or more
  runtime& home;                         ///< for those that know it
  std::atomic<std::byte*> host{nullptr}; ///< its memory there, once there is some
  const std::uint64_t number;            ///< no other of the process has it; locks of several are taken in this order
  const box all;
  const std::size_t element; ///< bytes
  layout host_layout;        ///< packed
  /// Elements from row to row in the host's memory.
  std::int32_t host_pitch() const noexcept { return static_cast<std::int32_t>(all.extent(2)); }
  const char* const type; ///< "double"
  std::string name;
  coherence& copies;
  /// Where the host's copy is, if its memory is limited; null: in memory. Does not change once the
  /// object is used.
  std::unique_ptr<host_block> paged;
  std::shared_ptr<const other_layouts> other; ///< changes before it is used first
  /// Null: as on the host.
  const other_layout* other_layout_on(device_kind kind) const noexcept {
    if (!other) return nullptr;
    const other_layout& l = (*other)[static_cast<std::size_t>(kind)];
    return l.pack ? &l : nullptr;
  }

  byte_buffer landed; ///< the host's memory, if it came from elsewhere (passage/incoming.hpp); under the lock

  // A submitted task looks at what follows, up to `first.readers`: it is one line of a cache.
  alignas(64) tern::detail::spin_lock lock;
  bool tiled = false;                    ///< `many` is in the place of `first`
  std::atomic<std::uint32_t> handles{1}; ///< objects and views of the user's
  fragment first;
  /// Cells of a regular grid, each with one fragment or more, none of which reaches beyond it, once
  /// it has been cut into tiles.
  std::vector<fragment> many;
  std::array<std::int32_t, 3> tile, cell_count{1, 1, 1};
  std::size_t not_on_host = 1;          ///< fragments
  std::size_t elsewhere = 0;            ///< instances beside the host's
  std::vector<instance> instances;      ///< [0]: the host's
  bool left_lent = false;               ///< it was adopted, but no handle is left, and it has memory of ours
  int saving = 0;                       ///< copies that free memory, on their way to the host's memory
  std::unique_ptr<promise<void>> saved; ///< the last handle of an object in lent memory waits for it
  std::unique_ptr<reduction> reduced;
  // The task that has locked it to commute, and those that wait for that: under commute_locks'
  // lock.
  task_record *commuter = nullptr, *commuters_first = nullptr, *commuters_last = nullptr;

  /// "hetero_object<double, 2> 'a' of 100 x 100"
  std::string text() const;
  std::string text(const box& part) const; ///< "[0, 10) x [0, 100) of …"
  /// A task that uses it is about to be submitted. Else each of these lines would be waited for
  /// after the one before: the lock lets nothing pass.
  void prefetch() const noexcept {
    __builtin_prefetch(this);
    __builtin_prefetch(&lock, 1);
  }
  /// Has this part of it `large_bytes` or more?
  bool is_large(const box& part) const noexcept {
    return large && part.size() * static_cast<std::int64_t>(element) >= large_bytes;
  }

  // Under the lock ----------------------------------------------------------------------------------------------------

  /// Calls `f(fragment&)` for those that meet the box.
  template <class F> void each(const box& part, F&& f) {
    if (!tiled) {
      each_of(first, part, f);
      return;
    }
    std::array<std::int32_t, 3> low, high;
    for (std::size_t d = 0; d < 3; ++d) {
      low[d] = part.low[d] / tile[d];
      high[d] = (part.high[d] - 1) / tile[d];
    }
    for (std::int32_t z = low[0]; z <= high[0]; ++z)
      for (std::int32_t y = low[1]; y <= high[1]; ++y)
        for (std::int32_t x = low[2]; x <= high[2]; ++x)
          each_of(many[(static_cast<std::size_t>(z) * static_cast<std::size_t>(cell_count[1]) +
                        static_cast<std::size_t>(y)) *
                           static_cast<std::size_t>(cell_count[2]) +
                       static_cast<std::size_t>(x)],
                  part, f);
  }
  bool uncut() const noexcept { return !tiled && !first.next; }
  /// Cuts fragments so that each lies within the box or outside it.
  void cut(const box& part);
  /// Cuts into a grid of tiles, at once; does nothing if it has been cut before.
  void cut_tiles(const std::array<std::int32_t, 3>& size);
  void set_valid(fragment& f, std::uint64_t where) noexcept {
    not_on_host -= (f.valid & 1) == 0 ? 1 : 0;
    f.valid = where;
    not_on_host += (f.valid & 1) == 0 ? 1 : 0;
  }
  /// Host memory, if there is none yet. \throws error(out_of_memory).
  std::byte* host_memory();
  /// From now on the host's memory is the runtime's own, in which nothing is valid. \pre it is
  /// adopted, and no handle is left. \return false: that cannot be now, as something is valid there
  /// alone, or a task or transfer uses it. \throws as host_memory.
  bool leave_lent_memory();
  void update_on_host() noexcept {
    on_host.store(not_on_host == 0 && elsewhere == 0 && !paged, std::memory_order_release);
  }
  /// A piece of `of`, which follows and is followed by the same tasks.
  std::unique_ptr<fragment> piece(const fragment& of, const box& where);

private:
  template <class F> static void each_of(fragment& head, const box& part, F& f) {
    for (fragment* x = &head; x; x = x->next.get())
      if (x->where.meets(part)) f(*x);
  }
};

} // namespace tern::hetero::detail
