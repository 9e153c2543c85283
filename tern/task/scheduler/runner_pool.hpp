// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runners: pooled fibers that run tasklets which no context waits for on the spot, and what
/// the events want done in a fiber.

#include <atomic>

#include <tern/task/worker/worker.hpp>

namespace tern::detail {

/// A runner is an ordinary fiber that never ends: a tasklet that blocks suspends its runner, and
/// the worker takes another one. Each worker keeps some idle ones; the others are shared.
class runner_pool {
public:
  static constexpr const char* runner_name = "tasklets";

  explicit runner_pool(scheduler_core& core) noexcept : core_(core) {}
  /// Runs a tasklet, and more after it, in a runner.
  void run(worker& w, tasklet* t);
  /// Runs `event_source::run_in_fiber` in a runner.
  /// \return false if there is no stack for it.
  bool run_events(worker& w);
  fiber* idle(worker& w) noexcept; ///< null: none
  /// An idle one, or a new one.
  /// \return null if there is no stack for it just now.
  fiber* any(worker& w);

  /// An idle runner that no worker keeps.
  void share(fiber* f) noexcept;

private:
  fiber* make();
  [[noreturn]] void runner_loop(); // a runner's body
  void run_batch(worker* w, tasklet* t);

  scheduler_core& core_;
  spin_lock lock_;                 // protects the next
  fiber* shared_runners = nullptr; // through fiber::next
  std::atomic<bool> has_shared_runners{false};
};

} // namespace tern::detail
