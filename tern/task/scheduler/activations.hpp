// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where and when activations run: on the worker that they are near to, or on one that has nothing
/// else to do. Internal.

#include <cstdint>

#include <tern/task/worker/worker.hpp>

namespace tern::detail {

/// Requires real workers, at least one. Guarantees: what is ready is run, in the end, by the worker
/// that it was given to or by one that takes half of what that one has. A worker that sleeps is
/// woken if no other looks for work. A worker that has nothing to do leaves others' alone for a
/// moment, so that what they touch need not follow; then it takes half, and the last one only from
/// an owner that is in a long body.
class activations {
public:
  explicit activations(scheduler_core& core) noexcept;

  /// It can run. Any thread. \param near the worker that ran it last. \param awaited by the calling
  /// fiber, which is about to wait: no worker is woken for it alone.
  void ready(activation& a, int near, bool awaited) noexcept;
  /// Runs one, and others after it, on its worker. \return whether there was one.
  bool run(worker& w, unsigned kinds) {
    activation* const a = w.activations.pop(kinds);
    return a && begin(w, a);
  }
  /// The same with what another worker has.
  bool steal(worker& w);
  /// What a pooled fiber does for `run`.
  void run_in_fiber(worker* w);
  /// The calling fiber gives up the activation that it runs, if any; the rest of its body has
  /// nothing to do with that.
  static void give_up() noexcept;

private:
  bool begin(worker& w, activation* a);
  void wake_for(worker& target, worker* by, unsigned there, bool awaited) noexcept;

  scheduler_core& core_;
  const std::int64_t patience_, slice_; // ticks
};

} // namespace tern::detail
