// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The timers of a scheduler: one wheel for each worker.

#include <atomic>
#include <cstdint>

#include <tern/task/worker/worker.hpp>

namespace tern::detail {

/// A timer lies in the wheel of the worker that set it; any worker may fire it, so a long body
/// delays none.
class timer_queue {
public:
  explicit timer_queue(scheduler_core& core) noexcept : core_(core) {}
  void set(worker& where, timer& t) noexcept;
  /// Waits while others are taken out to be fired.
  /// \return false if it has been, too.
  bool remove(worker& where, timer& t) noexcept;
  /// Fires what is due on one worker's clock.
  /// \return whether there was anything.
  bool fire(worker& whose, std::int64_t time) noexcept;
  bool fire_all() noexcept;
  /// The earliest moment at which a timer must be looked at.
  std::int64_t next_deadline() const noexcept;
  bool any() const noexcept { return armed.load(std::memory_order_relaxed) > 0; } ///< a guess

  std::atomic<std::int64_t> sleeps_until{wait_limit::never}; // the earliest time that a sleeping worker looks again

private:
  /// The calling worker has set a timer for `deadline`: those that sleep must not oversleep.
  void announce(std::int64_t deadline) noexcept;

  scheduler_core& core_;
  std::atomic<int> armed{0}; // set and not yet fired or removed; a guess
};

} // namespace tern::detail
