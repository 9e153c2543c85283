// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Copies of boxes of objects, from one instance to another or to the user's memory. Internal.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <tern/hetero/access.hpp>
#include <tern/hetero/device/device.hpp>
#include <tern/hetero/record/box.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

struct object_state;
struct task_record;

/// A box of an object on its way between two instances. Made and followed under the object's lock;
/// carried out by the worker of the device that is not the host.
struct transfer {
  object_state* object = nullptr;
  box part;
  std::uint8_t from = 0, to = 0; ///< instances
  /// As `to`: the worker that carries it out finds room for it first (coherence::settle).
  static constexpr std::uint8_t unsettled = 255;
  std::uint8_t device = 0;  ///< its worker carries the transfer out
  int waits = 0;            ///< for so many others, which bring the box to `from`
  transfer* next = nullptr; ///< in queues
  struct waiter {
    task_record* task;
    bool needs; ///< what it brings
  };
  std::vector<waiter> tasks;    ///< wait for it, each with one of its `pending`
  std::vector<transfer*> after; ///< wait for it
  bool save = false;            ///< to free memory of a device
  // Behind others on its device, by the worker (copies_home.cpp).
  std::vector<task_record*> follows; ///< what it was put behind and has not ended: it is not over before
  bool again = false;                ///< one of those was launched once more: what was copied is not what it wrote
  ticket running = 0;
  // Behind tasks of another device, by the worker (across.cpp).
  struct followed {
    task_record* task;      ///< with a reference
    bool had_been_repeated; ///< when its end was made known, it had been launched a second time
  };
  std::vector<followed> others; ///< what it was put behind and has not been found completed: as `follows`
  bool passed = false;          ///< the task that it was made for has been launched behind it
  // Under the object's lock.
  transfer* source = nullptr;       ///< has not ended, and brings to `from` what this one was put behind
  std::vector<transfer*> behind;    ///< of which this one is the source
  bool source_again = false;        ///< that one was made once more
  std::exception_ptr source_failed; ///< that one has
  bool is_behind() const noexcept { return !follows.empty() || !others.empty(); }
  // For the model of the link, from when it was begun.
  direction way = direction::to_device;
  bool both_ways = false; ///< a copy went the other way then
  std::uint64_t bytes = 0;
  // Out of the object, to the user's memory, for a task that counts such transfers: `to` is 0, and
  // not meant. Or from there into an instance: `from` is 0, and not meant.
  task_record* out_of = nullptr;
  std::byte* outside = nullptr; ///< where all that the task copies goes, packed
  void (*copied)(task_record* of, std::exception_ptr failed) noexcept = nullptr; ///< called when it has ended
  // The device's layout is another one.
  std::vector<std::byte> staged;
  const other_layout* unpack = nullptr;
  std::byte* unpack_to = nullptr;
};

/// Transfers that are to begin, or are to be processed otherwise, in order.
class transfer_chain {
public:
  void push(transfer* x) noexcept {
    x->next = nullptr;
    (first_ ? last_->next : first_) = x;
    last_ = x;
  }
  bool empty() const noexcept { return !first_; }
  /// Calls `f(x)` for each, in order; they are in no chain then.
  template <class F> void take_each(F&& f) {
    for (transfer* x = std::exchange(first_, nullptr); x;) {
      transfer* const after = std::exchange(x->next, nullptr); // `f` may give it away
      f(x);
      x = after;
    }
    last_ = nullptr;
  }

private:
  transfer *first_ = nullptr, *last_ = nullptr;
};

/// A task whose predecessors that have not ended are all in streams of one device, for the worker
/// of another one, which is to put it there behind these. It has one of the task's `pending`, so
/// that nothing makes the task ready meanwhile, and gives it back (device/worker/across.cpp).
struct handed_task {
  task_record* task = nullptr;
  std::vector<transfer::followed> after; ///< each with a reference
  std::vector<event_ref> events;         ///< their ends
  /// A copy to the host that is under way, of something that the task reads.
  struct way_home {
    transfer* copy; ///< only to be compared: it may be over
    event_ref end;
  };
  std::vector<way_home> home;
};

/// Transfers are used again: in steady state nothing is allocated for them. Any thread.
class transfer_pool {
public:
  transfer* make();
  void free(transfer* x) noexcept;
  std::size_t made() noexcept; ///< memory, in transfers

private:
  tern::detail::spin_lock lock_;
  std::vector<std::unique_ptr<transfer>> all_; // for their end
  transfer* free_ = nullptr;
};

} // namespace tern::hetero::detail
