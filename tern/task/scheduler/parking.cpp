// SPDX-License-Identifier: Apache-2.0
/// \file
/// How workers fall asleep and are woken.
///
/// Why no wake-up is lost. A thread that makes work visible does so first, then passes a full fence
/// and reads `asleep` and `searching` (`notify`). If a worker sleeps and none searches, it wakes
/// one. A worker that goes to sleep (`park`) first counts itself as asleep, then stops counting as
/// searching, passes a barrier, and looks everywhere once more. So the one sees the other asleep,
/// or the other sees the work (Dekker's argument, which needs sequential consistency on both
/// sides). Private tasklets are made visible to no other worker and without a fence. The barrier of
/// `park` covers them, as it is one for all threads, and `want` does: see split_deque.
///
/// Why not too many are woken. One that searches is enough. When it finds work and is the last to
/// search, it wakes the next (`found_work`). Model: tests/models/parking.pml.
#include <tern/task/scheduler/parking.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>

#include <tern/base/log.hpp>
#include <tern/task/boundary/diagnosis.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

// All sleep: the last of them wakes once more to see whether their fibers wait for each other.
constexpr std::chrono::microseconds deadlock_patience{100'000};
// When a fiber has yielded on a worker that may or may not be in a long body by now.
constexpr std::chrono::microseconds look_again{500};

} // namespace

void worker_parking::notify() noexcept {
  if (core_.executor) return core_.executor->source_offers(core_);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (searching.load(std::memory_order_seq_cst) > 0)
    notifications.fetch_add(1, std::memory_order_release);
  else if (asleep.load(std::memory_order_seq_cst) > 0)
    wake_one();
}

void worker_parking::stop_searching(worker& w) noexcept {
  w.searching = false;
  // Others relied on us to look, and may have private tasklets that we cannot see: another worker
  // must go on looking. The count may lag behind by one that has been unparked and is not counted
  // yet, so "none" may also read as less than none.
  if (searching.fetch_sub(1, std::memory_order_seq_cst) > 1) return;
  if (asleep.load(std::memory_order_seq_cst) > 0) wake_one();
}

int worker_parking::workers() const noexcept { return static_cast<int>(core_.workers.size()); }

void worker_parking::wake_one() noexcept {
  worker* const self = this_worker();
  const std::size_t n = core_.workers.size();
  const std::size_t first = self && self->home == &core_ ? static_cast<std::size_t>(self->index) + 1 : 0;
  for (std::size_t i = 0; i < n; ++i) // a neighbour
    if (const std::size_t one = (first + i) % n; !core_.has_events(*core_.workers[one]) && wake(*core_.workers[one])) {
      if (self && self->home == &core_) event_counts::add(self->counts.wakes);
      return;
    }
  if (core_.has_events(*core_.workers[0])) wake(*core_.workers[0]); // last of all: it has its events to look after
}

bool worker_parking::wake(worker& w) noexcept {
  if (!w.spot.unpark()) return false;
  searching.fetch_add(1, std::memory_order_seq_cst); // in its name
  if (core_.has_events(w))
    core_.cfg.events->wake();
  else
    w.spot.wake_thread();
  return true;
}

void worker_parking::wake_all() noexcept {
  for (auto& w : core_.workers) wake(*w);
  if (core_.cfg.poll_apart) core_.cfg.events->wake();
}

// After the barrier: everything that others can have made visible, and what only they can see. Each
// worker's deque before its boxes: an owner that goes from what it puts into a box into a long body
// has changed its deque in between.
bool worker_parking::anything_to_do(worker& w, bool& perhaps) {
  perhaps = false;
  if (core_.over.load(std::memory_order_seq_cst) || !core_.outside.empty()) return true;
  for (std::size_t i = 0; i < core_.workers.size(); ++i) {
    worker& other = *core_.workers[i];
    if (other.deque.has_public()) return true;
    if (&other != &w) {
      // Something was public when we asked, and the owner has taken it back without knowing that we
      // want it: ask again.
      if (w.prepared[i] == 0) return true;
      if (other.deque.has_private() && other.deque.force(w.prepared[i])) {
        event_counts::add(w.counts.forced);
        return true;
      }
    }
    if (other.queue.has_public(run_queue::all)) return true;
    if (other.queue.has_spawner() && other.deque.size() <= split_deque::low_watermark) return true;
    if (&other == &w) {
      if (w.queue.has(run_queue::all) || w.queue.has_bound(run_queue::all) || w.has_activations()) return true;
      continue;
    }
    const unsigned activations = other.activations.count(); // the last one only if its owner does not come to it
    if (activations > 1) return true;
    perhaps = perhaps || activations > 0 || other.inbox.any();
    constexpr unsigned ready = run_queue::soon | run_queue::later;
    if (other.queue.has(ready) && other.queue.force(w.prepared_queues[i], ready)) return true;
    if (core_.stealing.has_overdue_yielded(w, other) && other.queue.force(w.prepared_queues[i], run_queue::last))
      return true;
    perhaps =
        perhaps || other.queue.has(run_queue::all); // its owner will come back to it, or not: one look cannot tell
  }
  return core_.cfg.source && core_.cfg.source->has_work();
}

bool worker_parking::all_asleep() const noexcept {
  if (asleep.load(std::memory_order_seq_cst) != static_cast<int>(core_.workers.size())) return false;
  return std::all_of(core_.workers.begin(), core_.workers.end(), [](const auto& w) { return w->spot.is_parked(); });
}

bool worker_parking::nothing_ready() const noexcept {
  if (!core_.outside.empty() || (core_.cfg.source && core_.cfg.source->has_work())) return false;
  // seq_cst: a fiber that has begun to wait for such a thread has been seen by the workers that are
  // asleep now. That it is over a fiber says, which then sleeps in its turn; or the thread itself,
  // which wakes a worker.
  if (working_outside.load(std::memory_order_seq_cst) > 0) return false;
  return std::none_of(core_.workers.begin(), core_.workers.end(), [](const auto& w) {
    return w->queue.has(run_queue::all) || w->queue.has_public(run_queue::all) || w->queue.has_bound(run_queue::all) ||
           w->queue.has_spawner() || w->has_activations() || w->deque.has_public() || w->deque.has_private();
  });
}

// As of `end_if_done`. Fibers that wait for quiescence are woken by a worker that is counted as
// asleep, which leaves a moment in which they stand nowhere; but while all sleep they are woken at
// once, so they are not what is waited for.
bool worker_parking::stands_still() const noexcept {
  return !core_.over.load(std::memory_order_seq_cst) && !core_.stopping.load(std::memory_order_seq_cst) &&
         all_asleep() && (!core_.cfg.poll_apart || core_.loop.poller_sleeps.load(std::memory_order_seq_cst)) &&
         visitors.load(std::memory_order_seq_cst) == 0 &&
         core_.quiescence.waiting.load(std::memory_order_seq_cst) == 0 &&
         core_.timers.next_deadline() == wait_limit::never && nothing_ready();
}

// Main has ended, all sleep, and none of them would find anything. A worker that has parked may not
// have looked yet; but none resumes while we hold `freeze`, so what we see is what there is.
bool worker_parking::end_if_done() noexcept {
  const std::lock_guard hold(freeze);
  if (!core_.stopping.load(std::memory_order_seq_cst) || !all_asleep() ||
      core_.timers.next_deadline() != wait_limit::never || !nothing_ready())
    return false;
  core_.over.store(true, std::memory_order_seq_cst);
  return true;
}

bool worker_parking::park(worker& w) {
  w.flush_returns();
  if (w.pool_most < 2 && w.pool) core_.fibers.give_stacks(w);
  w.spot.prepare_park();
  asleep.fetch_add(1, std::memory_order_seq_cst);
  searching.fetch_sub(1, std::memory_order_seq_cst);
  w.searching = false;
  for (std::size_t i = 0; i < core_.workers.size(); ++i)
    if (core_.workers[i].get() != &w) {
      w.prepared[i] = core_.workers[i]->deque.prepare_force();
      w.prepared_queues[i] = core_.workers[i]->queue.prepare_force();
    }
  core_.barrier();
  bool perhaps = false;
  if (!anything_to_do(w, perhaps)) {
    const std::int64_t alarm = core_.timers.next_deadline();
    if (core_.quiescence.waiting.load(std::memory_order_seq_cst) > 0 && core_.quiescence.announce()) {
      // It has something to do again.
    } else if (core_.stopping.load(std::memory_order_seq_cst) && end_if_done()) {
      wake_all();
    } else {
      event_counts::add(w.counts.parks);
      core_.observe(w, worker_event::park);
      std::chrono::microseconds at_most = perhaps ? look_again : longest_sleep;
      // Once for each time that all fall asleep after something has run.
      const bool last = all_asleep() && entered() != deadlock_checked_at.load(std::memory_order_relaxed);
      if (last) at_most = std::min(at_most, deadlock_patience);
      bool limited = perhaps || last || core_.has_events(w);
      if (alarm != wait_limit::never) {
        // Others that set an earlier one later look at this, after they have set it.
        std::int64_t before = core_.timers.sleeps_until.load(std::memory_order_seq_cst);
        while (alarm < before &&
               !core_.timers.sleeps_until.compare_exchange_weak(before, alarm, std::memory_order_seq_cst)) {
        }
        const std::chrono::microseconds left(std::max<std::int64_t>(0, (alarm - core_.now() + 999) / 1000));
        if (!limited || left < at_most) at_most = left;
        limited = true;
      }
      if (core_.has_events(w))
        core_.cfg.events->wait(at_most);
      else if (!limited || at_most.count() > 0)
        w.spot.park(limited ? at_most : std::chrono::microseconds::zero());
      // Perhaps others still sleep until then; they need not be the only ones that know.
      if (alarm != wait_limit::never) core_.timers.sleeps_until.store(wait_limit::never, std::memory_order_seq_cst);
      core_.observe(w, worker_event::wake);
      if (last) check_deadlock();
    }
  }
  {
    const std::lock_guard pass(freeze);
    w.unparked = !w.spot.cancel_park();
    if (!w.unparked)
      searching.fetch_add(1, std::memory_order_seq_cst); // else the worker that unparked us has counted us
    asleep.fetch_sub(1, std::memory_order_seq_cst);
  }
  w.searching = true;
  return !core_.over.load(std::memory_order_seq_cst);
}

std::uint64_t worker_parking::entered() const noexcept {
  std::uint64_t all = 1;
  for (const auto& w : core_.workers) all += w->entered.load(std::memory_order_relaxed);
  return all;
}

void worker_parking::check_deadlock() noexcept {
  const std::lock_guard hold(freeze);
  if (asleep.load(std::memory_order_seq_cst) != static_cast<int>(core_.workers.size())) return;
  const std::uint64_t now = entered();
  if (deadlock_checked_at.exchange(now, std::memory_order_relaxed) == now) return;
  core_.deadlock = find_deadlock(core_);
  if (core_.deadlock.empty()) return;
  log_error(core_.deadlock);
  core_.over.store(true, std::memory_order_seq_cst);
  wake_all();
}

} // namespace tern::detail
