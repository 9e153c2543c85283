// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/timer_queue.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/wait/timed_function.hpp>

namespace tern::detail {

void set_timer(worker_head& where, timer& t) noexcept {
  auto& w = static_cast<worker&>(where);
  w.home->timers.set(w, t);
}

bool remove_timer(worker_head& where, timer& t) noexcept {
  auto& w = static_cast<worker&>(where);
  return w.home->timers.remove(w, t);
}

void timer_queue::set(worker& where, timer& t) noexcept {
  const std::int64_t deadline = t.deadline;
  armed.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard hold(where.timers.guard);
    if (!where.timers.wheel) where.timers.wheel = std::make_unique<timer_wheel>();
    where.timers.wheel->add(t);
    where.timers.next.store(where.timers.wheel->next(), std::memory_order_relaxed);
  }
  announce(deadline);
}

bool timer_queue::remove(worker& where, timer& t) noexcept {
  const std::lock_guard hold(where.timers.guard);
  if (!t.armed) return false;
  where.timers.wheel->remove(t);
  where.timers.next.store(where.timers.wheel->next(), std::memory_order_relaxed);
  armed.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

bool timer_queue::fire(worker& whose, std::int64_t time) noexcept {
  worker_timers& a = whose.timers;
  if (a.next.load(std::memory_order_relaxed) > time) return false;
  timer* functions = nullptr;
  int fired = 0;
  {
    std::lock_guard hold(a.guard);
    timer** last = &functions;
    for (timer* t = a.wheel->advance(time); t; ++fired) {
      timer* const next = t->next;
      if (t->calls) {
        *last = t;
        last = &t->next;
      } else {
        waiter::expire(*t); // under the guard: see waiter::limits::disarm
      }
      t = next;
    }
    *last = nullptr;
    a.next.store(a.wheel->next(), std::memory_order_relaxed);
  }
  while (functions) { // without the guard: they may set others
    timer* const next = functions->next;
    auto* const f = static_cast<timed_function*>(functions);
    f->call_(*f);
    functions = next;
  }
  armed.fetch_sub(fired, std::memory_order_relaxed);
  return fired > 0;
}

bool timer_queue::fire_all() noexcept {
  const std::int64_t time = core_.now();
  bool any = false;
  for (auto& w : core_.workers) any = fire(*w, time) || any;
  return any;
}

std::int64_t timer_queue::next_deadline() const noexcept {
  std::int64_t first = wait_limit::never;
  for (const auto& w : core_.workers) first = std::min(first, w->timers.next.load(std::memory_order_relaxed));
  return first;
}

void timer_queue::announce(std::int64_t deadline) noexcept {
  if (core_.executor) return;
  // With the same in `park`: either that sees the timer, or this sees that workers sleep and until
  // when.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (core_.parking.asleep.load(std::memory_order_seq_cst) > 0 &&
      core_.parking.searching.load(std::memory_order_seq_cst) <= 0 &&
      deadline < sleeps_until.load(std::memory_order_seq_cst))
    core_.parking.wake_one();
}

} // namespace tern::detail
