// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a worker does: it looks for work, in a fixed order, and sleeps when there is none (parking.cpp).
#include <tern/task/scheduler/scheduler_core.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/report/tracing.hpp>
#include <tern/task/scheduler/registry.hpp>
#include <tern/task/sim/simulated_executor.hpp>

namespace tern::detail {
namespace {

constexpr double slice = 50e-6;        // seconds for which tasklets run before others get a chance
constexpr int most_in_a_row = 4096;    // tasklets between two looks at the clock
constexpr unsigned fair_turn = 64;     // each so many turns what is seldom looked at comes first
constexpr int fibers_per_look = 8;     // at the timers
constexpr int looks_per_round = 16;    // at those of all workers
constexpr int fibers_per_poll = 8;     // a busy worker 0 looks at its events between so many things
constexpr int most_idle_runners = 16;  // of one worker
constexpr double force_after = 500e-6; // seconds that a worker which never sleeps waits for what others keep private

unsigned next_random(worker& w) noexcept { // xorshift (Marsaglia 2003)
  unsigned x = w.random;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return w.random = x;
}

void to_idle_runners(fiber* f, void*) {
  worker* w = this_worker();
  if (w->idle_runner_count >= most_idle_runners) { // it began on another worker, which would make a new one each time
    w->home->share_runner(f);
    return;
  }
  ++w->idle_runner_count;
  f->next = w->idle_runners;
  w->idle_runners = f;
}

void make_ready(fiber* f, void*) { f->home->ready(f); }
void to_come_back(fiber* f, void*) {
  worker* w = this_worker();
  if (w->comes_back)
    f->home->ready(f); // another one gave way while the events were looked at
  else
    w->comes_back = f;
}

void to_spawners(fiber* f, void*) {
  worker* w = this_worker();
  if (f->worker >= 0 && !w->home->engine) // others may not take it; in a simulation nobody takes another's
    w->box.push_bound(fiber_box::low, f);
  else
    w->box.push_spawner(f);
}

} // namespace

// The slow halves of what user code has inlined ----------------------------------------------------------------------

void worker_base::attend() {
  if (deque.wanted() && deque.publish()) home->notify();
  auto* w = static_cast<worker*>(this);
  const unsigned waiting = deque.size();
  if (waiting < split_deque::crowded_at || !w->running) return;
  // Each paused fiber has pushed one more than it should: thousands of them could still fill the deque.
  if (waiting > split_deque::full_at)
    if (tasklet* t = pop()) home->outside.push(t);
  event_counts::add(w->counts.pauses);
  leave(to_spawners, nullptr);
}

bool worker_base::catch_breath() noexcept {
  auto* w = static_cast<worker*>(this);
  if (home->engine) { // real time must not decide
    breath = 1;
    return true;
  }
  const double now = steady_seconds(), took = now - w->slice_began;
  // As many tasklets between two looks at the clock as take about half a slice.
  if (took < slice / 4 && w->breath_length < most_in_a_row) w->breath_length *= 2;
  if (took > slice && w->breath_length > 1) w->breath_length /= 2;
  breath = w->breath_length;
  if (took < slice / 2) return false;
  w->slice_began = now;
  return w->fair = true;
}

worker_base* worker_base::give_way() noexcept {
  auto* w = static_cast<worker*>(this);
  if (home->engine || w->has_fibers() || !home->outside.empty())
    leave_to(nullptr, make_ready, nullptr);
  else if (home->has_events(*w))
    leave_to(nullptr, to_come_back, nullptr);
  return this_worker_base();
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

void scheduler_core::run_fiber(worker& w, runnable* x) {
  fiber* f = x->is_fiber ? static_cast<fiber*>(x) : begin(w, static_cast<pending_fiber*>(x));
  if (!f) return;
  if (watched) [[unlikely]] {
    tell(w, worker_event::fiber_begin, 0);
    if ((f->attention & attention::traced) != 0) trace_enters(*f);
  }
  w.entered.store(w.entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  enter(w, *f);
  observe(w, worker_event::fiber_end);
}

// A free one that another worker keeps counts: that worker will give it back, or run what waits for it.
bool scheduler_core::no_stack_comes(std::uint8_t stack_class, bool tasklets_end) {
  bool none = true;
  stacks.each([&](const fiber& f) {
    if (f.id.load(std::memory_order_relaxed) == 0)
      none = none && f.stack_class != stack_class;
    else if (f.home == this || engine) // simulated schedulers share their stacks
      none = none && f.runner.load(std::memory_order_relaxed) &&
             !(tasklets_end && f.group.load(std::memory_order_relaxed));
  });
  return none;
}

fiber* scheduler_core::begin(worker& w, pending_fiber* p) {
  try {
    const seed s = sow(
        sizeof p->body, alignof(unique_function<void()>),
        {.name = p->name, .priority = priority{p->level}, .stack_bytes = p->stack_bytes, .worker = p->worker}, p->made);
    ::new (s.closure) unique_function<void()>(std::move(p->body));
    s.self->body = run_body<unique_function<void()>>;
    s.self->joiner.store(fiber::detached, std::memory_order_relaxed);
    s.self->caused = p->caused.release();
    delete p;
    return s.self;
  } catch (const std::exception& e) {
    // Those that have a stack will give it back, unless all of them wait for this one.
    if (no_stack_comes(p->stack_bytes == 0 ? std::uint8_t{0} : stacks.class_of(p->stack_bytes), false)) {
      log_error(e.what());
      std::terminate();
    }
    stacks_are_scarce(e);
    if (engine)
      engine->ready(*this, p);
    else if (p->worker >= 0)
      w.box.push_bound(fiber_box::yielded, p);
    else
      w.box.push(fiber_box::yielded, p);
    if (w.box.wanted()) answer(w); // whoever sleeps does not know of it
    return nullptr;
  }
}

fiber* scheduler_core::idle_runner(worker& w) noexcept {
  if (fiber* f = w.idle_runners) {
    w.idle_runners = static_cast<fiber*>(f->next);
    --w.idle_runner_count;
    return f;
  }
  if (!has_shared_runners.load(std::memory_order_relaxed)) return nullptr;
  std::lock_guard hold(registry);
  fiber* f = shared_runners;
  if (f) shared_runners = static_cast<fiber*>(f->next);
  has_shared_runners.store(shared_runners != nullptr, std::memory_order_relaxed);
  return f;
}

fiber* scheduler_core::any_runner(worker& w) {
  if (fiber* idle = idle_runner(w)) return idle;
  try {
    return new_runner();
  } catch (const std::exception& e) {
    if (no_stack_comes(0, true)) {
      log_error(e.what());
      std::terminate();
    }
    stacks_are_scarce(e);
    return nullptr;
  }
}

void scheduler_core::run_tasklet(worker& w, tasklet* t) {
  fiber* const runner = any_runner(w);
  if (!runner) {
    w.unpop(t); // a fiber that ends gives its stack back
    return;
  }
  w.handed = t;
  enter(w, *runner);
}

// Tasklets that nobody waits for on this stack run here. A runner is an ordinary fiber: a tasklet that blocks suspends
// its runner, and the worker takes another one.
void scheduler_core::run_for_others() {
  for (;;) {
    worker* w = this_worker();
    if (w->errands == w->running)
      cfg.events->in_fiber();
    else
      run_handed(w, std::exchange(w->handed, nullptr));
    leave_to(nullptr, to_idle_runners, nullptr);
  }
}

void scheduler_core::run_handed(worker* w, tasklet* t) {
  while (t) {
    group_state* const group = t->group;
    w->running->group.store(group, std::memory_order_relaxed);
    if (group->caused) [[unlikely]]
      set_this_cause(group->caused);
    observe(*w, worker_event::tasklets_begin);
    std::int64_t n = 0;
    bool go_on = true;
    do { // those of one group that lie together are counted together
      w = static_cast<worker*>(t->run(t));
      ++n;
      go_on = !w->out_of_breath() && !w->has_ready() &&
              !(w->box.has_spawner() && w->deque.size() <= split_deque::relaxed_at);
      t = go_on ? w->pop() : nullptr;
    } while (t && t->group == group);
    observe(*w, worker_event::tasklets_end, static_cast<std::uint64_t>(n));
    w->running->group.store(nullptr, std::memory_order_relaxed);
    if (w->caused) [[unlikely]]
      set_this_cause(nullptr);
    group->complete(n);        // may be the last: the group is gone
    if (t && w->has_ready()) { // the waiter, who has waited longest
      w->unpop(t);
      t = nullptr;
    }
  }
}

// Looking for work ---------------------------------------------------------------------------------------------------

void scheduler_core::found_work(worker& w) noexcept {
  if (!w.searching) return;
  w.searching = false;
  // Others relied on us to look, and may have private tasklets that we cannot see: somebody else must go on looking.
  // The count may lag behind by one who has been roused and is not counted yet, so "nobody" may also read as less than
  // none.
  if (searching.fetch_sub(1, std::memory_order_seq_cst) > 1) return;
  if (asleep.load(std::memory_order_seq_cst) > 0) wake_one();
}

void attend_events(bool (*over)(const void*) noexcept, const void* what) noexcept {
  const worker* const w = this_worker();
  if (w && w->polls && w->running && !w->errands && !w->home->engine) w->home->cfg.events->attend(over, what);
}

bool scheduler_core::poll(worker& w) {
  poll_in = fibers_per_poll;
  const event_source::polled p = cfg.events->poll();
  if (p == event_source::polled::nothing) return false;
  if (p == event_source::polled::something) {
    found_work(w);
    return true;
  }
  // One that is alone goes on searching after its errands: nobody relies on it, and to count costs time.
  if (workers.size() > 1) found_work(w);
  return run_errands(w);
}

bool scheduler_core::take_outside(worker& w) {
  if (outside.empty()) return false;
  runnable* f = nullptr;
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
  runnable* f = victim.box.take_public(fiber_box::soon);
  // A spawner that paused because its worker had so much to do, which it has no longer.
  if (!f && victim.box.has_spawner() && victim.deque.size() <= split_deque::relaxed_at) f = victim.box.take_spawner();
  if (!f) {
    victim.box.ask();
    return false;
  }
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

bool scheduler_core::steal_fiber(worker& w, unsigned kinds) {
  for (const auto& tier : w.victims)
    for (worker* victim : tier)
      if (runnable* f = victim->box.take_public(kinds)) {
        found_work(w);
        run_fiber(w, f);
        return true;
      }
  return false;
}

// A yielded fiber belongs to its worker, which will come back to it, unless that is inside a long body: then it has not
// taken a turn since we looked last.
bool scheduler_core::has_stranded_yielded(worker& w, const worker& other) const noexcept {
  if (!other.box.has(fiber_box::last)) return false;
  const unsigned now = other.turns.load(std::memory_order_relaxed);
  return std::exchange(w.seen_turns[static_cast<std::size_t>(other.index)], now) == now;
}

bool scheduler_core::steal_yielded(worker& w) {
  if (steal_fiber(w, fiber_box::last)) return true;
  for (const auto& tier : w.victims)
    for (worker* victim : tier)
      if (has_stranded_yielded(w, *victim)) {
        const std::uint32_t prepared = victim->box.prepare_force();
        barrier();
        if (!victim->box.force(prepared, fiber_box::last)) continue;
        notify(); // what sleepers had asked for has been answered: they will not be told by the owner
        if (runnable* f = victim->box.take_public(fiber_box::last)) {
          found_work(w);
          run_fiber(w, f);
          return true;
        }
      }
  return false;
}

// Fibers that a worker has woken or made and then not come to. Not at once: usually it waits a moment later, and then
// they need not go elsewhere, where all that they touch would have to follow.
bool scheduler_core::force_fibers(worker& w) noexcept {
  constexpr int patience = 6; // looks
  worker* rich = nullptr;
  for (const auto& other : workers)
    if (other.get() != &w && other->box.has(fiber_box::soon | fiber_box::later)) rich = other.get();
  if (!rich) w.seen_private = 0;
  if (!rich || ++w.seen_private < patience) return false;
  w.seen_private = 0;
  const std::uint32_t prepared = rich->box.prepare_force();
  barrier();
  return rich->box.force(prepared, fiber_box::soon | fiber_box::later);
}

void scheduler_core::answer(worker& w) noexcept {
  w.box.publish();
  notify(); // also if the only one stays private: somebody should be there if it is not run soon
}

runnable* scheduler_core::own_fiber(worker& w, unsigned kinds) noexcept {
  const bool bound_first = w.turns.load(std::memory_order_relaxed) % 2 == 0;
  runnable* x = bound_first ? w.box.pop_bound(kinds) : nullptr;
  if (!x) x = w.box.take_public(kinds); // older than what is private
  if (!x) x = w.box.pop(kinds);
  if (!x && !bound_first) x = w.box.pop_bound(kinds);
  // One that gave way alone was kept from others because it would go on at once. Now it does not.
  if (x && x->worker >= 0 && w.box.wanted() && w.box.has(fiber_box::all)) answer(w);
  return x;
}

// What would starve if it were only looked at when there is nothing else; another kind first each time.
bool scheduler_core::take_turn(worker& w) {
  w.fair = false;
  if (w.deque.size() == 0 && force_some(w)) return true;
  // Each that can stand behind others that are always ready.
  constexpr unsigned lower = fiber_box::later | fiber_box::last,
                     behind[] = {fiber_box::last, lower, 1u << fiber_box::normal | lower};
  const unsigned first = ++w.fair_turns;
  constexpr unsigned kinds = 5;
  for (unsigned i = 0; i < kinds; ++i) {
    switch ((first + i) % kinds) {
    case 0:
      if (runnable* f = own_fiber(w, behind[first / kinds % std::size(behind)])) {
        found_work(w);
        run_fiber(w, f);
        return true;
      }
      break;
    case 1:
      if (take_outside(w)) return true;
      break;
    case 2:
      if (resume_spawner(w)) return true;
      break;
    case 3:
      if (cfg.source && cfg.source->produce(w.index)) {
        found_work(w);
        return true;
      }
      break;
    default:
      if (tasklet* t = w.pop()) {
        found_work(w);
        run_tasklet(w, t);
        return true;
      }
      break;
    }
  }
  return false;
}

// A worker that has fibers which only yield never goes to sleep, and one that is told to spin for long does so late:
// they too must not wait for an owner in a long body.
bool scheduler_core::force_some(worker& w) {
  bool any = false;
  for (const auto& other : workers)
    any = any || (other.get() != &w && !other->deque.has_public() && other->deque.has_private());
  if (!any) {
    w.hidden_since = 0;
    return false;
  }
  const double now = steady_seconds();
  if (w.hidden_since == 0) w.hidden_since = now;
  if (now - w.hidden_since < force_after) return false;
  w.hidden_since = 0;
  for (std::size_t i = 0; i < workers.size(); ++i)
    w.prepared[i] = workers[i].get() == &w ? 0 : workers[i]->deque.prepare_force();
  barrier();
  for (std::size_t i = 0; i < workers.size(); ++i)
    if (w.prepared[i] != 0 && workers[i]->deque.force(w.prepared[i])) {
      event_counts::add(w.counts.forced);
      notify(); // what sleepers had asked for has been answered: they will not be told by the owner
      return steal_from(w, *workers[i]);
    }
  return false;
}

bool scheduler_core::step(worker& w) {
  const bool polls = has_events(w);
  if (fiber* const f = w.comes_back) { // nobody else knows of it, so nothing may come between
    poll(w);
    w.comes_back = nullptr;
    run_fiber(w, f);
    return true;
  }
  if (polls && (--poll_in <= 0 || w.fair)) poll(w);
  w.looked_around = ticks();
  w.budget = polls ? std::min(poll_in, w.full_budget) : w.full_budget;
  if (timers.load(std::memory_order_relaxed) > 0) { // then look often
    w.budget = std::min(w.budget, fibers_per_look);
    if (--w.timers_in <= 0) {
      w.timers_in = looks_per_round;
      ring_all(); // others may be in long bodies
    } else {
      ring(w, now());
    }
  }
  const unsigned turn = w.turns.load(std::memory_order_relaxed) + 1;
  w.turns.store(turn, std::memory_order_relaxed);
  if ((w.fair || turn % fair_turn == 0) && take_turn(w)) return true;
  // Whoever was to go on next when the budget was used up; now and then the others have precedence.
  if (fiber* f = std::exchange(w.hint, nullptr); f && turn % 8 != 0 && w.box.unlink(f)) {
    found_work(w);
    run_fiber(w, f);
    return true;
  }
  if (runnable* f = own_fiber(w, fiber_box::soon)) {
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
  if (polls && poll(w)) return true;
  if (cfg.source && cfg.source->produce(w.index)) {
    found_work(w);
    return true;
  }
  if (timers.load(std::memory_order_relaxed) > 0 && ring_all()) return true;
  if (steal(w)) return true;
  // Those that gave way come last, behind the events too: they may be waiting for just what these bring.
  if (runnable* f = own_fiber(w, fiber_box::later | fiber_box::last)) {
    found_work(w);
    run_fiber(w, f);
    return true;
  }
  return steal_fiber(w, fiber_box::later) || steal_yielded(w);
}

// To look at others' queues all the time would slow them down: each look takes a line out of their cache. Events are
// looked for all the time: a message that comes now is what everybody waits for.
bool scheduler_core::linger(worker& w, unsigned call, int looks) {
  const bool polls = has_events(w);
  for (int i = 0; i < looks; ++i) {
    if (calls.load(std::memory_order_relaxed) != call || w.box.has_bound(fiber_box::all) || !outside.empty())
      return false;
    if (!polls)
      relax();
    else if (poll(w))
      return true;
  }
  return false;
}

void scheduler_core::work(worker& w) {
  worker* const outer = this_worker(); // of a run that this one is nested in
  start_thread(w);
  trace_begins(w, outer);
  const overflow_watch watch;
  double until = 0;
  bool rested = false; // since it last found something
  for (;;) {
    const unsigned call = calls.load(std::memory_order_acquire);
    if (step(w)) {
      rested = false;
      until = 0;
      continue;
    }
    // Often the next fiber comes at once. Counting as searching and back takes two turns at a line that all share.
    if (!w.searching && !std::exchange(rested, true) && spin.count() > 0) {
      if (linger(w, call, 24)) rested = false;
      continue;
    }
    if (!w.searching) {
      w.searching = true;
      searching.fetch_add(1, std::memory_order_seq_cst);
      until = 0;
      continue; // what came before we counted as searching
    }
    if (!over.load(std::memory_order_relaxed)) {
      const double now = steady_seconds();
      if (until == 0) until = now + std::chrono::duration<double>(spin).count(); // since it last found something
      // Rest is known when all have lain down.
      if (now < until && awaits_rest.load(std::memory_order_relaxed) == 0) {
        if (!force_fibers(w) && linger(w, call, 64)) until = 0;
        continue;
      }
    }
    if (!park(w)) break;
    // Roused for work: it may take a moment to find. One that woke by itself only has a look.
    until = w.roused ? 0 : -1;
  }
  set_this_worker(outer);
  trace_ends(outer);
}

} // namespace tern::detail
