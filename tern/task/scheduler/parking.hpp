// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the workers of a scheduler sleep and are woken, and how its end is known; see
/// parking.cpp for the protocol.

#include <atomic>
#include <chrono>
#include <cstdint>

#include <tern/task/worker/worker.hpp>

namespace tern::detail {

class worker_parking {
public:
  // Worker 0 looks at its events so often even without a wake-up: bounds the damage of one lost by
  // the outside.
  static constexpr std::chrono::milliseconds longest_sleep{50};

  explicit worker_parking(scheduler_core& core) noexcept : core_(core) {}

  /// There is work that others may take: wakes a worker if none looks for any. Any thread.
  void notify() noexcept;
  /// The calling worker, which may have been searching, has found work.
  void found_work(worker& w) noexcept {
    if (w.searching) [[unlikely]]
      stop_searching(w);
  }
  /// Sleeps if there is really nothing to do.
  /// \return false if the run is over.
  bool park(worker& w);
  /// Has some worker nothing to do? A guess: it may have found something by now. Any thread.
  bool hungry() const noexcept {
    return searching.load(std::memory_order_relaxed) > 0 || asleep.load(std::memory_order_relaxed) > 0;
  }
  /// Have all? A guess as well.
  bool all_hungry() const noexcept {
    return searching.load(std::memory_order_relaxed) + asleep.load(std::memory_order_relaxed) >= workers();
  }
  void wake_one() noexcept;
  bool wake(worker& w) noexcept;
  void wake_all() noexcept;

  bool all_asleep() const noexcept;
  /// Whether no worker has anything that could run.
  /// \pre they cannot do anything meanwhile.
  bool nothing_ready() const noexcept;
  /// Whether nothing in here can ever run again, unless the outside brings something: an event, a
  /// foreign thread. False once the main fiber has ended.
  /// \pre the caller holds `freeze`, and reads what it wants to know of the outside before it
  /// releases it.
  bool stands_still() const noexcept;

  /// How often fibers have been entered by the workers themselves.
  std::uint64_t entered() const noexcept;

  // Both change with sequential consistency: see `notify` and `park`.
  alignas(64) std::atomic<int> searching{0}; // awake and without work; includes those that have been unparked
  std::atomic<int> asleep{0};                // parked, or unparked and not yet awake
  // Changes when `notify` finds a worker searching: that one watches it, and leaves others' queues
  // alone meanwhile.
  alignas(64) std::atomic<unsigned> notifications{0};
  // Foreign threads that are in here. What they make ready may end the run before they have left.
  alignas(64) std::atomic<int> visitors{0};
  // Fibers that wait for a foreign thread which works for this scheduler, and such threads that
  // hold it open: there is no end and no quiescence before they are done.
  std::atomic<int> working_outside{0};
  // A worker that has slept passes through it before it runs anything: so while a thread holds it
  // and all workers are counted as asleep, no fiber runs.
  spin_lock freeze;

private:
  void stop_searching(worker& w) noexcept;
  int workers() const noexcept;
  /// \param perhaps there may be something that cannot be told yet.
  bool anything_to_do(worker& w, bool& perhaps);
  /// Ends the run if main has ended and nothing can run any more.
  /// \return whether it did.
  bool end_if_done() noexcept;
  /// The calling worker sleeps: if all do, looks for a deadlock, and ends the run if there is one.
  void check_deadlock() noexcept;

  scheduler_core& core_;
  std::atomic<std::uint64_t> deadlock_checked_at{0}; // `entered` when a deadlock was last looked for
};

} // namespace tern::detail
