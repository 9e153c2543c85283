// SPDX-License-Identifier: Apache-2.0
#include <tern/net/termination/shutdown.hpp>

#include <tern/base/error.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/net/termination/worker_number.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::net {

void job_shutdown::begin(tern::detail::scheduler_core& core, bool polls_apart, bool alone) noexcept {
  core_ = &core;
  alone_ = alone;
  light_barrier_ = core.barrier.usable();
  polls_apart_ = polls_apart;
}

void job_shutdown::pass_barrier() noexcept { core_->barrier(); }

void job_shutdown::notify_idle() noexcept {
  // Of two that were the last, on two workers, one at least sees what both have counted.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!is_idle()) return;
  guard_.lock();
  auto* all = idle_list_.take();
  guard_.unlock();
  tern::detail::waiter_list::wake_all(all);
}

void job_shutdown::begin_waiting() noexcept {
  idle_waiters_.fetch_add(1, std::memory_order_seq_cst);
  pass_barrier(); // see notify_if_idle
}

void job_shutdown::wait_for_idle() {
  tern::detail::waiter self({tern::detail::wait_kind::other, this});
  idle_list_.push(self);
  self.wait(guard_);
}

void job_shutdown::set(shutdown_state state) noexcept {
  guard_.lock();
  state_.store(state, std::memory_order_seq_cst);
  auto* const all = state == shutdown_state::deciding ? nullptr : sender_list_.take();
  guard_.unlock();
  tern::detail::waiter_list::wake_all(all);
}

bool job_shutdown::may_wait() const noexcept {
  if (!scheduler::in_fiber() || detail::releasing()) return false;
  const bool polls = !polls_apart_ && detail::worker_number(core_) == 0; // a thread that polls apart runs no fibers
  return !(polls && in_internal_);                                       // which is that thread's
}

void job_shutdown::wait_until_open() {
  guard_.lock();
  while (state_.load(std::memory_order_relaxed) == shutdown_state::deciding) {
    tern::detail::waiter self({tern::detail::wait_kind::other, this});
    sender_list_.push(self);
    self.wait(guard_);
    guard_.lock();
  }
  const bool closed = is_closed();
  guard_.unlock();
  if (closed)
    throw error(errc::invalid_state, "a message was sent after the job had ended",
                "all main functions have returned and all that was sent has been handled: what is to be done before, "
                "the main function must wait for, or a handler do");
}

void job_shutdown::count_pending() noexcept {
  const int worker = detail::worker_number(core_);
  counters_.add(worker, message_counters::sent);
  counters_.add(worker, message_counters::received);
  counters_.add(worker, message_counters::again);
}

void job_shutdown::uncount_pending() noexcept {
  constexpr std::uint64_t one_less = ~std::uint64_t{0};
  const int worker = detail::worker_number(core_);
  counters_.add(worker, message_counters::sent, one_less);
  counters_.add(worker, message_counters::received, one_less);
  counters_.add(worker, message_counters::again, one_less);
}

void job_shutdown::done() noexcept {
  counters_.add(detail::worker_number(core_), message_counters::done);
  notify_if_idle();
}

// Counted first, as a sender counts its message: then either the rank that decides sees the count,
// or this sees the state.
shutdown_guard::shutdown_guard(job_shutdown& of) : of_(of) {
  for (;;) {
    of.count_pending();
    if (!of.refuses_sender()) return;
    of.uncount_pending();
    of.wait_until_open();
  }
}

} // namespace tern::net
