// SPDX-License-Identifier: Apache-2.0
/// \file
/// What lower rooms call: the slow halves of what spawning and waiting for tasklets inline into
/// user code (worker_base), and where a running fiber may let others run although it does not wait.
#include <tern/base/clock.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/wait/wait_list.hpp>
#include <tern/task/worker/switching.hpp>

namespace tern::detail {
namespace {

constexpr double slice = 50e-6;     // seconds for which tasklets run before others get a chance
constexpr int most_in_a_row = 4096; // tasklets between two looks at the clock

void make_ready(fiber* f, void*) { f->home->ready(f); }

void resume_after_poll(fiber* f, void*) {
  worker* w = this_worker();
  if (w->after_poll)
    f->home->ready(f); // another one gave way while the events were looked at
  else
    w->after_poll = f;
}

void to_spawners(fiber* f, void*) {
  worker* w = this_worker();
  if (f->worker >= 0 && !w->home->executor) // others may not take it; in a simulation no worker takes another's
    w->queue.push_bound(run_queue::low, f);
  else
    w->queue.push_spawner(f);
}

} // namespace

void worker_base::push_slow() {
  if (deque.wanted() && deque.publish()) home->parking.notify();
  auto* w = static_cast<worker*>(this);
  const unsigned waiting = deque.size();
  if (waiting < split_deque::high_watermark || !w->running) return;
  // Each paused fiber has pushed one more than it should: thousands of them could still fill the
  // deque.
  if (waiting > split_deque::hard_limit)
    if (tasklet* t = pop()) home->outside.push(t);
  event_counts::add(w->counts.pauses);
  leave(to_spawners, nullptr);
}

bool worker_base::renew_budget() noexcept {
  auto* w = static_cast<worker*>(this);
  if (home->executor) { // real time must not decide
    tasklet_budget = 1;
    return true;
  }
  const double now = steady_seconds(), took = now - w->slice_began;
  // As many tasklets between two looks at the clock as take about half a slice.
  if (took < slice / 4 && w->full_tasklet_budget < most_in_a_row) w->full_tasklet_budget *= 2;
  if (took > slice && w->full_tasklet_budget > 1) w->full_tasklet_budget /= 2;
  tasklet_budget = w->full_tasklet_budget;
  if (took < slice / 2) return false;
  w->slice_began = now;
  return w->fair = true;
}

worker_base* worker_base::yield_to_others() noexcept {
  auto* w = static_cast<worker*>(this);
  if (home->executor || w->has_fibers() || !home->outside.empty())
    leave_to(nullptr, make_ready, nullptr);
  else if (home->has_events(*w))
    leave_to(nullptr, resume_after_poll, nullptr);
  return this_worker_base();
}

bool worker_base::any_worker_idle() const noexcept {
  return home->parking.asleep.load(std::memory_order_relaxed) > 0 ||
         home->parking.searching.load(std::memory_order_relaxed) > 0;
}

tasklet* worker_base::pop_slow() noexcept {
  bool published = false;
  // A worker that sleeps or searches has asked before, but another may have answered since.
  tasklet* t = deque.pop_slow(any_worker_idle(), published);
  if (published) home->parking.notify();
  return t;
}

void worker_base::unpop(tasklet* t) noexcept {
  if (deque.push(t) && deque.wanted() && deque.publish()) home->parking.notify();
}

void fiber_yielded(fiber* f, void*) { f->home->yielded(f); }

void schedule_point() noexcept {
  const worker* const w = this_worker();
  if (w && w->home->executor && w->running && w->home->executor->preempt()) leave_to(nullptr, fiber_yielded, nullptr);
}

void poll_briefly(bool (*over)(const void*) noexcept, const void* what) noexcept {
  const worker* const w = this_worker();
  if (w && w->polls && w->running && !w->poll_runner && !w->home->executor)
    w->home->cfg.events->poll_briefly(over, what);
}

} // namespace tern::detail
