// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a worker gets work from others: takes what is public, asks for more, and forces an
/// owner that does not answer.

#include <tern/task/worker/worker.hpp>

namespace tern::detail {

class work_stealing {
public:
  explicit work_stealing(scheduler_core& core) noexcept : core_(core) {}
  /// In which order each worker tries the others. Once, before the workers start.
  void plan_victims();
  /// Takes something, nearest worker first, and runs it.
  /// \return whether there was anything.
  bool steal(worker& w);
  bool steal_fiber(worker& w, unsigned kinds);
  bool steal_yielded(worker& w);
  /// Runs the first of `n` stolen tasklets and keeps the others where they can be stolen again.
  void run_stolen(worker& w, unsigned n);
  /// Publishes what a worker keeps private that does not come by: a worker in a long body.
  bool force_tasklets(worker& w);
  bool force_fibers(worker& w) noexcept;
  bool has_overdue_yielded(worker& w, const worker& other) const noexcept;
  /// Others want what this worker has.
  void answer(worker& w) noexcept;
  /// Between two functions that a worker runs in a row without a push or a pop, at which it would
  /// answer: if others have asked for work, half of what it keeps private is theirs. By the worker.
  void share(worker& w) noexcept {
    if ((w.deque.wanted() && w.deque.size() > 0) || (w.queue.wanted() && w.queue.count() > 1)) [[unlikely]]
      share_slowly(w);
  }

private:
  void share_slowly(worker& w) noexcept;
  bool steal_from(worker& w, worker& victim);

  scheduler_core& core_;
};

} // namespace tern::detail
