// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/quiescence.hpp>

#include <mutex>

#include <tern/base/error.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern {

void scheduler::quiesce(bool timers) {
  if (current() != this || !in_fiber())
    throw error(errc::invalid_state, "scheduler::quiesce called outside the fibers of this scheduler",
                "call it in a fiber that runs in it");
  core_->quiescence.wait(timers);
}

namespace detail {

void quiescence_waiters::wait(bool of_timers) {
  schedule_point();
  guard_.lock();
  waiter self({wait_kind::quiescence, nullptr});
  (of_timers ? for_timers_ : for_fibers_).push(self);
  waiting.fetch_add(1, std::memory_order_seq_cst);
  self.wait(guard_);
  waiting.fetch_sub(1, std::memory_order_relaxed);
}

waiter* quiescence_waiters::take(bool timers_set) noexcept {
  const std::lock_guard hold(guard_);
  waiter* all = for_fibers_.take();
  if (timers_set) return all;
  waiter** end = &all;
  while (*end) end = &(*end)->next;
  *end = for_timers_.take();
  return all;
}

bool quiescence_waiters::announce() noexcept {
  waiter* all = nullptr;
  {
    const std::lock_guard hold(core_.parking.freeze);
    if (core_.parking.all_asleep() && core_.parking.nothing_ready())
      all = take(core_.timers.next_deadline() != wait_limit::never);
  }
  waiter_list::wake_all(all);
  return all != nullptr;
}

} // namespace detail
} // namespace tern
