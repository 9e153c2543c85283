// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// When a rank is idle, and whether its job still accepts messages. Internal.

#include <atomic>
#include <cstdint>

#include <tern/net/termination/message_counters.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::detail {
struct scheduler_core;
}

namespace tern::net {

/// May messages be sent that count for the end of the job? All ranks change the state together,
/// when no message is in flight and no handler runs.
enum class shutdown_state : std::uint8_t {
  open,     ///< every message is accepted
  deciding, ///< new sends wait until all ranks know whether any rank has sent since the last count
  closed    ///< no message is accepted any more
};

/// A rank's part of the end of its job. Requires: `begin` before any other member. Guarantees: a
/// message that was counted while the state was open is handled before the state becomes closed on
/// any rank; every other sender sees a state that is not open. Threads: any, unless a member says
/// otherwise.
class job_shutdown {
public:
  explicit job_shutdown(message_counters& counters) noexcept : counters_(counters) {}
  job_shutdown(const job_shutdown&) = delete;
  job_shutdown& operator=(const job_shutdown&) = delete;
  /// \param polls_apart a thread that runs no fibers polls for messages; else worker 0 does.
  /// \param alone the job has no other rank.
  void begin(tern::detail::scheduler_core& core, bool polls_apart, bool alone) noexcept;

  bool is_open() const noexcept { return state_.load(std::memory_order_relaxed) == shutdown_state::open; }
  bool is_closed() const noexcept { return state_.load(std::memory_order_relaxed) == shutdown_state::closed; }
  /// Must the sender of a message that counts take it back and call `wait_until_open`? \pre the
  /// message was counted.
  bool refuses_sender() const noexcept {
    order_with_barrier();
    if (state_.load(std::memory_order_relaxed) == shutdown_state::open) [[likely]]
      return false;
    return state_.load() == shutdown_state::closed || may_wait();
  }
  /// Waits while the ranks decide. \throws error(invalid_state) if the job has closed.
  void wait_until_open();
  /// Wakes all that wait for the state, unless it is `deciding`.
  void set(shutdown_state state) noexcept;
  /// After this, a sender that was not counted before sees the state. It waits for no fiber.
  void pass_barrier() noexcept;

  /// To be called after something has been counted as done.
  void notify_if_idle() noexcept {
    // Either this sees the fiber that waits, or that fiber, which passes a barrier for all threads,
    // sees the count.
    order_with_barrier();
    if (idle_waiters_.load(std::memory_order_relaxed) > 0) [[unlikely]]
      notify_idle();
  }
  /// Is nothing under way here that has arrived? With one rank, all that was sent arrives here:
  /// then also nothing that has not.
  bool is_idle() const noexcept {
    if (!alone_) return counters_.active() == 0;
    const std::uint64_t ended = counters_.ended(); // in this order: see message_counters
    return counters_.begun() == ended;
  }
  /// In a fiber: returns when `idle()` is true. \param idle is called under a lock and must not
  /// wait. It can become true only before a call of `notify_if_idle`.
  template <class Idle> void wait_until_idle(Idle&& idle) {
    if (idle()) return; // to wait takes a barrier for all threads, which costs more than all the rest
    begin_waiting();
    for (;;) {
      guard_.lock();
      if (idle()) break;
      wait_for_idle();
    }
    guard_.unlock();
    idle_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// Counts what is no message as one that was sent, has arrived and is under way. A later `done`
  /// ends it.
  void count_pending() noexcept;
  /// Takes one `count_pending` back.
  void uncount_pending() noexcept;
  /// One message, or one `count_pending`, is done.
  void done() noexcept;
  /// May the calling fiber wait for the ranks' decision? The runtime's own handlers cannot, and
  /// need not: when they run, a message was in flight, and sends resume.
  bool may_wait() const noexcept;
  /// The polling context runs one of the runtime's own handlers, which never waits. Polling context
  /// only.
  bool set_internal(bool runs) noexcept {
    const bool before = in_internal_;
    in_internal_ = runs;
    return before;
  }

private:
  // Orders what was written before against what is read after, for two threads of which one passes
  // the scheduler's barrier between its own write and read: one of the two sees what the other has
  // written.
  void order_with_barrier() const noexcept {
    if (light_barrier_)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void notify_idle() noexcept;
  void begin_waiting() noexcept;
  void wait_for_idle(); // gives the guard back

  message_counters& counters_;
  tern::detail::scheduler_core* core_ = nullptr;
  bool light_barrier_ = false; // of the scheduler's, for all threads: it costs those nothing that do not wait
  bool polls_apart_ = false, alone_ = false;
  bool in_internal_ = false;
  // Not a tern::mutex: the polling context, which must not wait for a fiber, tells of the end of
  // work too.
  tern::detail::spin_lock guard_;
  tern::detail::waiter_list idle_list_, sender_list_; // under the guard
  std::atomic<int> idle_waiters_{0};
  std::atomic<shutdown_state> state_{shutdown_state::open};
};

/// As long as one lives, the job does not close, as if a message were in flight.
class shutdown_guard {
public:
  /// Waits while the ranks decide. \throws error(invalid_state) if the job has closed.
  explicit shutdown_guard(job_shutdown& of);
  ~shutdown_guard() { of_.done(); }
  shutdown_guard(const shutdown_guard&) = delete;
  shutdown_guard& operator=(const shutdown_guard&) = delete;

private:
  job_shutdown& of_;
};

} // namespace tern::net
