// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Work of layers above that is ready on a worker and may move to another. Internal.

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/wait/wait_list.hpp>
#include <tern/task/worker/run_queue.hpp>

namespace tern::detail {

/// Something of a layer above that is to run in a pooled fiber, and belongs near what it touches:
/// the mailbox of an object, for one. It is queued once at a time, and lives until it has run.
/// Its source is the mailbox of actor systems (CAF: Charousset et al., "Revisiting actor
/// programming in C++", 2016), where what is scheduled is the actor and not its messages.
struct activation : runnable {
  /// In a fiber of the scheduler. It may wait; see `activation_fiber`. It ends nothing by throwing.
  using function = void (*)(activation&) noexcept;
  activation(function runs, function is_left) noexcept : run(runs), left(is_left) { is_fiber = false; }
  const function run;
  /// The fiber that runs it has waited, or gives it up: what is left is for another fiber. Called
  /// once for each `run` at most, on a worker, which must not wait.
  const function left;
};

/// What is ready on one worker. Any thread may call all of it.
///
/// Contract: what is pushed is taken exactly once; of one priority the oldest first. The count is
/// stored before the lock is given back: a thread that passes a fence after `push`, and a worker
/// that passes a barrier before it looks at `count`, cannot both miss the other.
class activation_queue {
public:
  /// \return how many there are now.
  unsigned push(activation* a) noexcept {
    const std::lock_guard hold(lock_);
    queues_[a->level].push(a);
    return count_now(1);
  }
  /// The first of the most urgent of `kinds` (run_queue); null: none.
  activation* pop(unsigned kinds) noexcept {
    if (!any(kinds)) return nullptr;
    const std::lock_guard hold(lock_);
    return take(kinds);
  }
  /// Moves half of them, one at least, to another queue: the oldest, which have waited longest.
  /// \return the first of them, which is in neither queue; null: there were none.
  activation* give_half(activation_queue& to) noexcept;
  /// A guess, as the next.
  unsigned count() const noexcept { return count_.load(std::memory_order_acquire); }
  bool any(unsigned kinds) const noexcept { return (mask_.load(std::memory_order_acquire) & kinds) != 0; }

private:
  activation* take(unsigned kinds) noexcept;
  unsigned count_now(int more) noexcept {
    const unsigned n = count_.load(std::memory_order_relaxed) + static_cast<unsigned>(more);
    unsigned mask = 0;
    for (int kind = 0; kind < kinds_here; ++kind) mask |= queues_[kind].empty() ? 0u : 1u << kind;
    mask_.store(mask, std::memory_order_release);
    count_.store(n, std::memory_order_release);
    return n;
  }
  static constexpr int kinds_here = run_queue::low + 1;

  alignas(64) spin_lock lock_; // a few instructions at a time
  std::atomic<unsigned> mask_{0}, count_{0};
  runnable_queue queues_[kinds_here];
};

} // namespace tern::detail
