// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a worker does: it looks for work, in a fixed order, and parks when there is none.

#include <atomic>
#include <cstdint>

#include <tern/task/worker/worker.hpp>

namespace tern::detail {

/// Has no state of a worker's own: that lies in `worker`.
class worker_loop {
public:
  explicit worker_loop(scheduler_core& core) noexcept;
  /// The calling thread is this worker until the run is over.
  void work(worker& w);
  /// Looks after the events and nothing else, until the run is over.
  void poll_apart();
  void run_fiber(worker& w, runnable* x);
  /// Gives a body that waited its fiber.
  /// \return null if there is no stack for it just now.
  fiber* begin_pending(worker& w, pending_fiber* p);

  std::atomic<int> poller_thread{0};      // the kernel's number of the one that polls apart; 0: none
  std::atomic<bool> poller_sleeps{false}; // it sleeps, and polls only after it has passed `freeze`

private:
  /// Does one thing.
  /// \return false if there was nothing to do.
  bool step(worker& w);
  bool take_turn(worker& w);
  [[gnu::noinline]] bool poll(worker& w); // else each step saves more registers
  void poller_sleep();
  bool take_outside(worker& w);
  bool resume_spawner(worker& w);
  /// The next of these kinds that is this worker's to run.
  runnable* own_fiber(worker& w, unsigned kinds) noexcept;
  /// A short wait of a worker that searches.
  /// \return whether there was an event.
  bool spin_for_work(worker& w, unsigned call, int looks);

  scheduler_core& core_;
  const std::int64_t long_body_ticks_;
  int poll_in = 0; // worker 0's: turns until the next look at the events
};

} // namespace tern::detail
