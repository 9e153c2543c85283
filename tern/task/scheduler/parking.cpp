// SPDX-License-Identifier: Apache-2.0
/// \file
/// How workers fall asleep and are woken.
///
/// Why no wake-up is lost. Whoever makes work visible does so first, then passes a full fence and reads `asleep` and
/// `searching` (`notify`): if somebody sleeps and nobody searches, it wakes one. Whoever goes to sleep (`park`) first
/// counts itself as asleep, then stops counting as searching, passes a barrier, and looks everywhere once more. So
/// either the one sees the other asleep, or the other sees the work (Dekker's argument, which needs sequential
/// consistency on both sides). Private tasklets, which their owner makes visible to nobody and without a fence, are
/// covered by the barrier of `park` being one for all threads, and by `want`: see split_deque.
/// Why not too many are woken. One that searches is enough: when it finds work and is the last to search, it wakes the
/// next (`found_work`). Model: tests/models/parking.pml.
#include <tern/task/scheduler/scheduler_core.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/task/sim/simulated_executor.hpp>

namespace tern::detail {
namespace {

// Worker 0 looks at its events so often even if nobody rings: it bounds the damage of a wake-up lost by the outside.
constexpr std::chrono::milliseconds longest_sleep{50};
// All sleep: who among them is the last wakes once more to see whether they wait for each other.
constexpr std::chrono::microseconds deadlock_patience{100'000};
// When a fiber has yielded on a worker that may or may not be in a long body by now.
constexpr std::chrono::microseconds look_again{500};

} // namespace

void scheduler_core::notify() noexcept {
  if (engine) return engine->offers(*this);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (searching.load(std::memory_order_seq_cst) > 0)
    calls.fetch_add(1, std::memory_order_release);
  else if (asleep.load(std::memory_order_seq_cst) > 0)
    wake_one();
}

void scheduler_core::wake_one() noexcept {
  worker* const self = this_worker();
  const std::size_t n = workers.size();
  const std::size_t first = self && self->home == this ? static_cast<std::size_t>(self->index) + 1 : 0;
  for (std::size_t i = 0; i < n; ++i) // a neighbour
    if (const std::size_t one = (first + i) % n; !has_events(*workers[one]) && wake(*workers[one])) {
      if (self && self->home == this) event_counts::add(self->counts.wakes);
      return;
    }
  if (has_events(*workers[0])) wake(*workers[0]); // last of all: it has its events to look after
}

bool scheduler_core::wake(worker& w) noexcept {
  if (!w.sleep.rouse()) return false;
  searching.fetch_add(1, std::memory_order_seq_cst); // in its name
  if (has_events(w))
    cfg.events->wake();
  else
    w.sleep.wake_thread();
  return true;
}

void scheduler_core::wake_all() noexcept {
  for (auto& w : workers) wake(*w);
  if (cfg.poll_apart) cfg.events->wake();
}

void scheduler_core::poll_apart() {
  poller_thread.store(static_cast<int>(gettid()), std::memory_order_relaxed);
  double until = 0;
  while (!over.load(std::memory_order_seq_cst)) {
    const double now = steady_seconds();
    if (cfg.events->poll() != event_source::polled::nothing)
      until = now + std::chrono::duration<double>(spin).count();
    else if (now < until)
      relax();
    else
      rest_of_poller();
  }
}

// Whoever holds `freeze` and sees that it rests knows that it has taken nothing that it has not passed on.
void scheduler_core::rest_of_poller() {
  poller_rests.store(true, std::memory_order_seq_cst);
  cfg.events->wait(longest_sleep);
  const std::lock_guard pass(freeze);
  poller_rests.store(false, std::memory_order_relaxed);
}

// After the barrier: everything that others can have made visible, and what only they can see. Each worker's deque
// before its boxes: an owner that goes from what it puts into a box into a long body has changed its deque in between.
bool scheduler_core::anything_to_do(worker& w, bool& perhaps) {
  perhaps = false;
  if (over.load(std::memory_order_seq_cst) || !outside.empty()) return true;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    worker& other = *workers[i];
    if (other.deque.has_public()) return true;
    if (&other != &w) {
      // Something was public when we asked, and the owner has taken it back without knowing that we want it: ask again.
      if (w.prepared[i] == 0) return true;
      if (other.deque.has_private() && other.deque.force(w.prepared[i])) {
        event_counts::add(w.counts.forced);
        return true;
      }
    }
    if (other.box.has_public(fiber_box::all)) return true;
    if (other.box.has_spawner() && other.deque.size() <= split_deque::relaxed_at) return true;
    if (&other == &w) {
      if (w.box.has(fiber_box::all) || w.box.has_bound(fiber_box::all)) return true;
      continue;
    }
    constexpr unsigned ready = fiber_box::soon | fiber_box::later;
    if (other.box.has(ready) && other.box.force(w.prepared_boxes[i], ready)) return true;
    if (has_stranded_yielded(w, other) && other.box.force(w.prepared_boxes[i], fiber_box::last)) return true;
    perhaps = perhaps || other.box.has(fiber_box::all); // its owner will come back to it, or not: one look cannot tell
  }
  return cfg.source && cfg.source->has_work();
}

bool scheduler_core::all_asleep() const noexcept {
  if (asleep.load(std::memory_order_seq_cst) != static_cast<int>(workers.size())) return false;
  return std::all_of(workers.begin(), workers.end(), [](const auto& w) { return w->sleep.is_drowsy(); });
}

bool scheduler_core::nothing_ready() const noexcept {
  if (!outside.empty() || (cfg.source && cfg.source->has_work())) return false;
  // seq_cst: whoever has begun to wait for such a thread has been seen by those that are asleep now. That it is over a
  // fiber says, which then sleeps in its turn; or the thread itself, which wakes somebody.
  if (working_outside.load(std::memory_order_seq_cst) > 0) return false;
  return std::none_of(workers.begin(), workers.end(), [](const auto& w) {
    return w->box.has(fiber_box::all) || w->box.has_public(fiber_box::all) || w->box.has_bound(fiber_box::all) ||
           w->box.has_spawner() || w->deque.has_public() || w->deque.has_private();
  });
}

// As of `end_if_done`. Those who wait for rest are woken by a worker that is counted as asleep, which leaves a moment
// in which they stand nowhere; but while all sleep they are woken at once, so they are not what is waited for.
bool scheduler_core::stands_still() const noexcept {
  return !over.load(std::memory_order_seq_cst) && !stopping.load(std::memory_order_seq_cst) && all_asleep() &&
         (!cfg.poll_apart || poller_rests.load(std::memory_order_seq_cst)) &&
         visitors.load(std::memory_order_seq_cst) == 0 && awaits_rest.load(std::memory_order_seq_cst) == 0 &&
         next_alarm() == wait_limit::never && nothing_ready();
}

// Main has ended, all sleep, and none of them would find anything. Whoever has lain down may not have looked yet; but
// nobody gets up while we hold `freeze`, so what we see is what there is.
bool scheduler_core::end_if_done() noexcept {
  const std::lock_guard hold(freeze);
  if (!stopping.load(std::memory_order_seq_cst) || !all_asleep() || next_alarm() != wait_limit::never ||
      !nothing_ready())
    return false;
  over.store(true, std::memory_order_seq_cst);
  return true;
}

scheduler_core::hold_open::hold_open(scheduler_core& c) noexcept : core_(c) {
  const std::lock_guard hold(c.freeze); // nobody ends the run between these two
  late_ = c.over.load(std::memory_order_seq_cst);
  if (!late_) c.working_outside.fetch_add(1, std::memory_order_seq_cst);
}
// All may have lain down because of it alone: somebody has to look whether that is the end.
scheduler_core::hold_open::~hold_open() {
  if (late_) return;
  core_.working_outside.fetch_sub(1, std::memory_order_seq_cst);
  core_.notify();
}

bool scheduler_core::park(worker& w) {
  w.flush_returns();
  if (w.pool_most < 2 && w.pool) w.give_stacks();
  w.sleep.lie_down();
  asleep.fetch_add(1, std::memory_order_seq_cst);
  searching.fetch_sub(1, std::memory_order_seq_cst);
  w.searching = false;
  for (std::size_t i = 0; i < workers.size(); ++i)
    if (workers[i].get() != &w) {
      w.prepared[i] = workers[i]->deque.prepare_force();
      w.prepared_boxes[i] = workers[i]->box.prepare_force();
    }
  barrier();
  bool perhaps = false;
  if (!anything_to_do(w, perhaps)) {
    const std::int64_t alarm = next_alarm();
    if (awaits_rest.load(std::memory_order_seq_cst) > 0 && tell_of_rest()) {
      // It has something to do again.
    } else if (stopping.load(std::memory_order_seq_cst) && end_if_done()) {
      wake_all();
    } else {
      event_counts::add(w.counts.parks);
      observe(w, worker_event::park);
      std::chrono::microseconds at_most = perhaps ? look_again : longest_sleep;
      // Once for each time that all fall asleep after something has run.
      const bool last = all_asleep() && entered() != looked_at.load(std::memory_order_relaxed);
      if (last) at_most = std::min(at_most, deadlock_patience);
      bool limited = perhaps || last || has_events(w);
      if (alarm != wait_limit::never) {
        // Others that set an earlier one later look at this, after they have set it.
        std::int64_t before = sleeps_until.load(std::memory_order_seq_cst);
        while (alarm < before && !sleeps_until.compare_exchange_weak(before, alarm, std::memory_order_seq_cst)) {
        }
        const std::chrono::microseconds left(std::max<std::int64_t>(0, (alarm - now() + 999) / 1000));
        if (!limited || left < at_most) at_most = left;
        limited = true;
      }
      if (has_events(w))
        cfg.events->wait(at_most);
      else if (!limited || at_most.count() > 0)
        w.sleep.sleep(limited ? at_most : std::chrono::microseconds::zero());
      // Perhaps others still sleep until then; they need not be the only ones who know.
      if (alarm != wait_limit::never) sleeps_until.store(wait_limit::never, std::memory_order_seq_cst);
      observe(w, worker_event::wake);
      if (last) look_for_deadlock();
    }
  }
  {
    const std::lock_guard pass(freeze);
    w.roused = !w.sleep.stay_awake();
    if (!w.roused) searching.fetch_add(1, std::memory_order_seq_cst); // else whoever roused us has counted us
    asleep.fetch_sub(1, std::memory_order_seq_cst);
  }
  w.searching = true;
  return !over.load(std::memory_order_seq_cst);
}

} // namespace tern::detail
