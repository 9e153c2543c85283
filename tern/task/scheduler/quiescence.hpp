// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Waiting until nothing goes on in a scheduler. A fiber that waits for it counts itself
/// (`waiting`) before it leaves its worker, which parks later if it finds no other work. Workers
/// look at the count when they park. The last one that does sees all asleep, and the count, as both
/// change with sequential consistency. No worker can resume while it holds `freeze` (parking.cpp),
/// so what it sees is the state of all.

#include <atomic>

#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

struct scheduler_core;

/// The fibers that wait for quiescence.
class quiescence_waiters {
public:
  explicit quiescence_waiters(scheduler_core& core) noexcept : core_(core) {}
  /// As `scheduler::quiesce`.
  void wait(bool of_timers);
  /// The calling worker parks: wakes those that wait, if there is quiescence.
  /// \return whether it woke any.
  bool announce() noexcept;
  /// \param timers_set there are some.
  /// \return the waiters that the caller must wake.
  /// \pre nothing runs or is ready.
  waiter* take(bool timers_set) noexcept;

  std::atomic<int> waiting{0};

private:
  scheduler_core& core_;
  spin_lock guard_;
  waiter_list for_fibers_, for_timers_; // that wait for others only, and also for no timers to be set
};

} // namespace tern::detail
