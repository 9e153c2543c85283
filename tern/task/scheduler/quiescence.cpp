// SPDX-License-Identifier: Apache-2.0
/// \file
/// Waiting until nothing goes on. Whoever waits for it counts itself (`awaits_rest`) before it leaves its worker, which
/// lies down later if it finds nothing else. Workers look when they lie down, and the last one that does sees all
/// asleep, and the count, as both change with sequential consistency. Nobody can get up while it holds `freeze`
/// (parking.cpp), so what it sees is what there is.
#include <mutex>

#include <tern/base/error.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern {

void scheduler::rest(bool timers) {
  if (current() != this || !in_fiber())
    throw error(errc::invalid_state, "scheduler::rest called outside the fibers of this scheduler",
                "call it in a fiber that runs in it");
  core_->rest(timers);
}

namespace detail {

void scheduler_core::rest(bool of_timers) {
  schedule_point();
  rest_guard.lock();
  waiter self({wait_kind::rest, nullptr});
  (of_timers ? for_timers : for_fibers).push(self);
  awaits_rest.fetch_add(1, std::memory_order_seq_cst);
  self.wait(rest_guard);
  awaits_rest.fetch_sub(1, std::memory_order_relaxed);
}

waiter* scheduler_core::who_waits_for_rest(bool timers_set) noexcept {
  const std::lock_guard hold(rest_guard);
  waiter* all = for_fibers.take();
  if (timers_set) return all;
  waiter** end = &all;
  while (*end) end = &(*end)->next;
  *end = for_timers.take();
  return all;
}

bool scheduler_core::tell_of_rest() noexcept {
  waiter* all = nullptr;
  {
    const std::lock_guard hold(freeze);
    if (all_asleep() && nothing_ready()) all = who_waits_for_rest(next_alarm() != wait_limit::never);
  }
  waiter_list::wake_all(all);
  return all != nullptr;
}

} // namespace detail
} // namespace tern
