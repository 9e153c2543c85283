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
  /// Hands something to another worker, which takes it when it next looks for activations. For what
  /// is frequent and touches what that one has in its caches: it costs this worker no line that the
  /// other has written. What one worker hands to one other is taken in order. If that one is in a
  /// long body, a worker without work stands in for it.
  /// \param self the calling worker. \param upto becomes how many it has handed to that
  /// one, for `settle`. \return false: it was not handed over, since a worker sleeps or for
  /// want of space.
  bool hand(worker& self, handed& x, int to, std::uint32_t& upto) noexcept;
  /// What the calling worker has handed to that one, up to the `upto`-th, has been taken when this
  /// returns.
  void settle(worker& self, int to, std::uint32_t upto) noexcept;
  /// The same for all that the calling fiber has handed to any, wherever it runs now.
  static void settle() noexcept {
    const worker* const w = this_worker();
    if (w && w->running && w->running->handed_by != 0) [[unlikely]]
      settle_fiber(*w->running);
  }
  /// The same for all that any worker has handed to any before.
  void settle_all() noexcept;
  /// As `settle()`, if the calling fiber goes on elsewhere than on that worker.
  static void settle_if_moved(const worker& self) noexcept {
    if (self.running && self.running->handed_by != 0 && self.running->handed_by != self.index + 1) [[unlikely]]
      settle_fiber(*self.running);
  }
  /// Takes what others have handed to a worker, on the calling one.
  void take_in(worker& of) noexcept {
    of.inbox.take_all([](handed& x) { x.take(x); });
  }
  /// Runs one, and others after it, on its worker. \return whether there was one.
  bool run(worker& w, unsigned kinds) {
    if (w.inbox.any()) take_in(w);
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
  static void settle_fiber(fiber& of) noexcept;
  void take_for_others(worker& w) noexcept;
  void wake_for(worker& target, worker* by, unsigned there, bool awaited) noexcept;

  scheduler_core& core_;
  const std::int64_t patience_, slice_; // ticks
};

} // namespace tern::detail
