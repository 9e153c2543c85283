// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a worker does: it looks for work, in a fixed order, and sleeps when there is none.
///
/// Why no wake-up is lost. Whoever makes work visible does so first, then passes a full fence and reads `asleep` and
/// `searching` (`notify`): if somebody sleeps and nobody searches, it wakes one. Whoever goes to sleep (`park`) first
/// counts itself as asleep, then stops counting as searching, passes a barrier, and looks everywhere once more. So
/// either the one sees the other asleep, or the other sees the work (Dekker's argument, which needs sequential
/// consistency on both sides). Private tasklets, which their owner makes visible to nobody and without a fence, are
/// covered by the barrier of `park` being one for all threads, and by `want`: see split_deque.
/// Why not too many are woken. One that searches is enough: when it finds work and is the last to search, it wakes the
/// next if there is more to be had (`found_work`). Model: tests/models/parking.pml.
#include <tern/task/detail/core.hpp>

#include <algorithm>
#include <new>
#include <utility>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/detail/sanitizer.hpp>

namespace tern::detail {
namespace {

constexpr int most_in_a_row = 256;   // tasklets that a runner runs before others get a chance
constexpr unsigned fair_turn = 64;   // each so many turns what is seldom looked at comes first
constexpr int fibers_per_poll = 8;   // a busy worker 0 looks at its events between so many things
constexpr double poll_every = 50e-6; // seconds, between tasklets
// Worker 0 looks at its events so often even if nobody rings: it bounds the damage of a wake-up lost by the outside.
constexpr std::chrono::milliseconds longest_sleep{50};

unsigned next_random(worker& w) noexcept { // xorshift (Marsaglia 2003)
  unsigned x = w.random;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return w.random = x;
}

void to_idle_runners(fiber* f, void*) {
  worker* w = this_worker();
  f->next = w->idle_runners;
  w->idle_runners = f;
}

void to_spawners(fiber* f, void*) { this_worker()->box.push_spawner(f); }

} // namespace

// The slow halves of what user code has inlined ----------------------------------------------------------------------

void worker_base::attend() {
  if (deque.wanted() && deque.publish()) home->notify();
  auto* w = static_cast<worker*>(this);
  const unsigned waiting = deque.size();
  if (waiting < split_deque::crowded_at || !w->running) return;
  // Each paused fiber has pushed one more than it should: thousands of them could still fill the deque.
  if (waiting > split_deque::full_at)
    if (tasklet* t = pop()) {
      try {
        home->outside.push(t);
      } catch (const std::bad_alloc&) {
        unpop(t); // the slack must do
      }
    }
  event_counts::add(w->counts.pauses);
  leave(to_spawners, nullptr);
}

bool worker_base::somebody_idle() const noexcept {
  return home->asleep.load(std::memory_order_relaxed) > 0 || home->searching.load(std::memory_order_relaxed) > 0;
}

tasklet* worker_base::pop_slow() noexcept {
  bool published = false;
  // Whoever sleeps or searches has asked before, but somebody else may have answered since.
  tasklet* t = deque.pop_slow(somebody_idle(), published);
  if (published) home->notify();
  return t;
}

void worker_base::unpop(tasklet* t) noexcept {
  if (deque.push(t) && deque.wanted() && deque.publish()) home->notify();
}

// Running ------------------------------------------------------------------------------------------------------------

void scheduler_core::run_fiber(worker& w, fiber* f) {
  if (!f->memory.low) {
    try {
      prepare(*f, stacks);
      std::lock_guard hold(registry);
      ++begun;
    } catch (const error& e) {
      std::unique_lock hold(registry);
      // Those that have a stack will give it back, unless all of them wait for this one.
      if (begun == 0) {
        log_error(e.what());
        std::terminate();
      }
      hold.unlock();
      w.box.push_yielded(f);
      return;
    }
  }
  observe(w, worker_event::fiber_begin);
  enter(w, *f);
  observe(w, worker_event::fiber_end);
}

void scheduler_core::run_tasklet(worker& w, tasklet* t) {
  fiber* runner = w.idle_runners;
  if (runner) {
    w.idle_runners = runner->next;
  } else {
    try {
      runner = new_runner();
    } catch (const error& e) {
      std::unique_lock hold(registry);
      if (begun == 0) {
        log_error(e.what());
        std::terminate();
      }
      hold.unlock();
      w.unpop(t); // a fiber that ends gives its stack back
      return;
    }
  }
  w.handed = t;
  if (w.index == 0 && cfg.events) {
    // As many tasklets as fit between two looks at the events, by how long the last ones took.
    const int allowed = w.budget = tasklets_per_poll;
    const double start = steady_seconds();
    enter(w, *runner);
    const double took = steady_seconds() - start;
    if (took > poll_every)
      tasklets_per_poll = std::max(1, tasklets_per_poll / 2);
    else if (w.budget <= 0 && took < poll_every / 2)
      tasklets_per_poll = std::min(most_in_a_row, 2 * allowed);
    poll_in = 0;
  } else {
    w.budget = most_in_a_row;
    enter(w, *runner);
  }
}

// Tasklets that nobody waits for on this stack run here. A runner is an ordinary fiber: a tasklet that blocks suspends
// its runner, and the worker takes another one.
void scheduler_core::run_tasklets() {
  for (;;) {
    worker* w = this_worker();
    tasklet* t = std::exchange(w->handed, nullptr);
    while (t) {
      group_state* const group = t->group;
      w->running->group = group;
      observe(*w, worker_event::tasklets_begin);
      std::int64_t n = 0;
      bool go_on = true;
      do { // those of one group that lie together are counted together
        w = static_cast<worker*>(t->run(t));
        ++n;
        go_on = --w->budget > 0 && !w->box.has_ready() &&
                !(w->box.has_spawner() && w->deque.size() <= split_deque::relaxed_at);
        t = go_on ? w->pop() : nullptr;
      } while (t && t->group == group);
      observe(*w, worker_event::tasklets_end, static_cast<std::uint64_t>(n));
      w->running->group = nullptr;
      group->complete(n);            // may be the last: the group is gone
      if (t && w->box.has_ready()) { // the waiter, who has waited longest
        w->unpop(t);
        t = nullptr;
      }
    }
    leave(to_idle_runners, nullptr);
  }
}

// Looking for work ---------------------------------------------------------------------------------------------------

void scheduler_core::found_work(worker& w) noexcept {
  if (!w.searching) return;
  w.searching = false;
  // Others relied on us to look: if there is more than what we have found, somebody else must.
  if (searching.fetch_sub(1, std::memory_order_seq_cst) != 1 || asleep.load(std::memory_order_seq_cst) == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool more = !outside.empty();
  for (std::size_t i = 0; i < workers.size() && !more; ++i)
    more = workers[i]->deque.has_public() || workers[i]->box.has_ready();
  if (more) wake_one();
}

bool scheduler_core::poll(worker& w) {
  poll_in = fibers_per_poll;
  if (!cfg.events->poll()) return false;
  found_work(w);
  return true;
}

bool scheduler_core::take_outside(worker& w) {
  if (outside.empty()) return false;
  fiber* f = nullptr;
  const bool room = w.deque.size() < split_deque::crowded_at;
  const unsigned n = outside.take(f, w.loot, room ? split_deque::most_stolen : 1);
  if (!f && n == 0) return false;
  if (f) {
    found_work(w);
    run_fiber(w, f);
  } else {
    keep_loot(w, n);
  }
  return true;
}

bool scheduler_core::resume_spawner(worker& w) {
  if (!w.box.has_spawner() || w.deque.size() > split_deque::relaxed_at) return false;
  fiber* f = w.box.take_spawner();
  if (!f) return false;
  found_work(w);
  run_fiber(w, f);
  return true;
}

// Runs the first and keeps the others where they can be stolen again.
void scheduler_core::keep_loot(worker& w, unsigned n) {
  bool wanted = false;
  for (unsigned i = 1; i < n; ++i) wanted = w.deque.push(w.loot[i]) || wanted;
  if (wanted && w.deque.wanted() && w.deque.publish()) notify();
  found_work(w);
  run_tasklet(w, w.loot[0]);
}

bool scheduler_core::steal_from(worker& w, worker& victim) {
  if (const unsigned n = victim.deque.steal(w.loot)) {
    event_counts::add(w.counts.steals);
    event_counts::add(w.counts.stolen, n);
    observe(w, worker_event::steal, n);
    keep_loot(w, n);
    return true;
  }
  fiber* f = victim.box.take_ready();
  // A spawner that paused because its worker had so much to do, which it has no longer.
  if (!f && victim.box.has_spawner() && victim.deque.size() <= split_deque::relaxed_at) f = victim.box.take_spawner();
  if (!f) return false;
  found_work(w);
  run_fiber(w, f);
  return true;
}

bool scheduler_core::steal(worker& w) {
  for (const auto& tier : w.victims) { // the nearest share caches with us
    const std::size_t n = tier.size(), first = n > 1 ? next_random(w) % n : 0;
    for (std::size_t i = 0; i < n; ++i)
      if (steal_from(w, *tier[first + i < n ? first + i : first + i - n])) return true;
  }
  return false;
}

bool scheduler_core::steal_yielded(worker& w) {
  for (const auto& tier : w.victims)
    for (worker* victim : tier)
      if (fiber* f = victim->box.take_yielded()) {
        found_work(w);
        run_fiber(w, f);
        return true;
      }
  return false;
}

// What would starve if it were only looked at when there is nothing else.
bool scheduler_core::take_turn(worker& w) {
  if (fiber* f = w.box.take_yielded()) {
    found_work(w);
    run_fiber(w, f);
    return true;
  }
  if (take_outside(w)) return true;
  if (tasklet* t = w.pop()) {
    found_work(w);
    run_tasklet(w, t);
    return true;
  }
  return false;
}

bool scheduler_core::step(worker& w) {
  const bool has_events = w.index == 0 && cfg.events;
  if (has_events && --poll_in <= 0) poll(w);
  if (++w.turns % fair_turn == 0 && take_turn(w)) return true;
  if (fiber* f = w.box.take_ready()) {
    found_work(w);
    run_fiber(w, f);
    return true;
  }
  if (resume_spawner(w)) return true;
  if (tasklet* t = w.pop()) {
    found_work(w);
    run_tasklet(w, t);
    return true;
  }
  if (take_outside(w)) return true;
  if (has_events && poll(w)) return true;
  if (cfg.source && cfg.source->produce(w.index)) {
    found_work(w);
    return true;
  }
  if (steal(w)) return true;
  // Those that gave way come last, behind the events too: they may be waiting for just what these bring.
  if (fiber* f = w.box.take_yielded()) {
    found_work(w);
    run_fiber(w, f);
    return true;
  }
  return steal_yielded(w);
}

void scheduler_core::work(worker& w) {
  worker* const outer = this_worker(); // of a run that this one is nested in
  set_this_worker(&w);
  w.tsan_fiber = tsan::current_fiber();
  double until = 0;
  for (;;) {
    if (step(w)) continue;
    if (!w.searching) {
      w.searching = true;
      searching.fetch_add(1, std::memory_order_seq_cst);
      until = steady_seconds() + std::chrono::duration<double>(spin).count();
      continue; // what came before we counted as searching
    }
    if (!over.load(std::memory_order_relaxed) && steady_seconds() < until) {
      for (int i = 0; i < 8; ++i) relax();
      continue;
    }
    if (!park(w)) break;
    // Roused for work: it may take a moment to find. One that woke by itself only has a look.
    until = w.roused ? steady_seconds() + std::chrono::duration<double>(spin).count() : 0;
  }
  set_this_worker(outer);
}

// Sleeping and waking ------------------------------------------------------------------------------------------------

void scheduler_core::notify() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (asleep.load(std::memory_order_seq_cst) > 0 && searching.load(std::memory_order_seq_cst) == 0) wake_one();
}

void scheduler_core::wake_one() noexcept {
  worker* const self = this_worker();
  const std::size_t n = workers.size();
  const std::size_t first = self && self->home == this ? static_cast<std::size_t>(self->index) + 1 : 0;
  for (std::size_t i = 0; i < n; ++i) // a neighbour
    if (const std::size_t one = (first + i) % n; (one != 0 || !cfg.events) && wake(*workers[one])) {
      if (self && self->home == this) event_counts::add(self->counts.wakes);
      return;
    }
  if (cfg.events) wake(*workers[0]); // last of all: it has its events to look after
}

bool scheduler_core::wake(worker& w) noexcept {
  if (!w.sleep.rouse()) return false;
  searching.fetch_add(1, std::memory_order_seq_cst); // in its name
  if (w.index == 0 && cfg.events)
    cfg.events->wake();
  else
    w.sleep.wake_thread();
  return true;
}

void scheduler_core::wake_all() noexcept {
  for (auto& w : workers) wake(*w);
}

// After the barrier: everything that others can have made visible, and what only they can see.
bool scheduler_core::anything_to_do(worker& w) {
  if (over.load(std::memory_order_seq_cst) || !outside.empty()) return true;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    worker& other = *workers[i];
    if (other.box.has_ready() || other.box.has_yielded()) return true;
    if (other.box.has_spawner() && other.deque.size() <= split_deque::relaxed_at) return true;
    if (other.deque.has_public()) return true;
    if (w.prepared[i] != 0 && other.deque.has_private() && other.deque.force(w.prepared[i])) {
      event_counts::add(w.counts.forced);
      return true;
    }
  }
  return cfg.source && cfg.source->has_work();
}

bool scheduler_core::all_asleep() const noexcept {
  if (asleep.load(std::memory_order_seq_cst) != static_cast<int>(workers.size())) return false;
  return std::all_of(workers.begin(), workers.end(), [](const auto& w) { return w->sleep.is_drowsy(); });
}

bool scheduler_core::park(worker& w) {
  w.flush_returns();
  w.sleep.lie_down();
  asleep.fetch_add(1, std::memory_order_seq_cst);
  searching.fetch_sub(1, std::memory_order_seq_cst);
  w.searching = false;
  for (std::size_t i = 0; i < workers.size(); ++i)
    w.prepared[i] = workers[i].get() == &w ? 0 : workers[i]->deque.prepare_force();
  barrier();
  if (!anything_to_do(w)) {
    if (stopping.load(std::memory_order_seq_cst) && all_asleep()) {
      // The last one. All others have found nothing since and sleep, and only a worker makes work for workers now.
      over.store(true, std::memory_order_seq_cst);
      wake_all();
    } else {
      event_counts::add(w.counts.parks);
      observe(w, worker_event::park);
      if (w.index == 0 && cfg.events)
        cfg.events->wait(longest_sleep);
      else
        w.sleep.sleep();
      observe(w, worker_event::wake);
    }
  }
  w.roused = !w.sleep.stay_awake();
  if (!w.roused) searching.fetch_add(1, std::memory_order_seq_cst); // else whoever roused us has counted us
  asleep.fetch_sub(1, std::memory_order_seq_cst);
  w.searching = true;
  return !over.load(std::memory_order_seq_cst);
}

} // namespace tern::detail
