// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/worker_loop.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <mutex>
#include <utility>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/base/log.hpp>
#include <tern/task/boundary/diagnosis.hpp>
#include <tern/task/fiber/fiber_trace.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/worker/switching.hpp>
#include <tern/task/worker/worker_trace.hpp>

namespace tern::detail {
namespace {

constexpr unsigned fair_turn = 64;  // each so many turns what is seldom looked at comes first
constexpr int fibers_per_look = 8;  // at the timers
constexpr int looks_per_round = 16; // at those of all workers
constexpr int fibers_per_poll = 8;  // a busy worker 0 looks at its events between so many things
constexpr double long_body = 5e-6;  // seconds; after each thing that takes longer it looks at once

} // namespace

worker_loop::worker_loop(scheduler_core& core) noexcept
    : core_(core), long_body_ticks_(core.cfg.others_wait_for_events ? ticks_in(long_body)
                                                                    : std::numeric_limits<std::int64_t>::max()) {}

void worker_loop::run_fiber(worker& w, runnable* x) {
  fiber* f = x->is_fiber ? static_cast<fiber*>(x) : begin_pending(w, static_cast<pending_fiber*>(x));
  if (!f) return;
  if (core_.watched) [[unlikely]] {
    core_.tell(w, worker_event::fiber_begin, 0);
    if ((f->leave_flags & leave_flags::traced) != 0) trace_enters(*f);
  }
  w.entered.store(w.entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  enter(w, *f);
  core_.observe(w, worker_event::fiber_end);
}

fiber* worker_loop::begin_pending(worker& w, pending_fiber* p) {
  try {
    const unstarted_fiber s = core_.fibers.make(
        sizeof p->body, alignof(unique_function<void()>),
        {.name = p->name, .priority = priority{p->level}, .stack_bytes = p->stack_bytes, .worker = p->worker}, p->made);
    ::new (s.closure) unique_function<void()>(std::move(p->body));
    s.self->body = run_body<unique_function<void()>>;
    s.self->joiner.store(fiber::detached, std::memory_order_relaxed);
    s.self->causal = p->causal.detach();
    delete p;
    return s.self;
  } catch (const std::exception& e) {
    // Those that have a stack will give it back, unless all of them wait for this one.
    if (core_.fibers.no_stack_comes(
            p->stack_bytes == 0 ? std::uint8_t{0} : core_.fibers.stacks.class_of(p->stack_bytes), false)) {
      log_error(e.what());
      std::terminate();
    }
    core_.fibers.report_scarce(e);
    if (core_.executor)
      core_.executor->ready(core_, p);
    else if (p->worker >= 0)
      w.queue.push_bound(run_queue::yielded, p);
    else
      w.queue.push(run_queue::yielded, p);
    if (w.queue.wanted()) core_.stealing.answer(w); // sleeping workers do not know of it
    return nullptr;
  }
}

bool worker_loop::poll(worker& w) {
  poll_in = fibers_per_poll;
  const event_source::polled p = core_.cfg.events->poll();
  if (p == event_source::polled::nothing) return false;
  if (p == event_source::polled::something) {
    core_.parking.found_work(w);
    return true;
  }
  // A worker that is alone goes on searching after its polling fiber: no other relies on it, and to
  // count costs time.
  if (core_.workers.size() > 1) core_.parking.found_work(w);
  return core_.runners.run_events(w);
}

bool worker_loop::take_outside(worker& w) {
  if (core_.outside.empty()) return false;
  runnable* f = nullptr;
  const bool room = w.deque.size() < split_deque::high_watermark;
  const unsigned n = core_.outside.take(f, w.stolen_tasklets, room ? split_deque::most_stolen : 1);
  if (!f && n == 0) return false;
  if (f) {
    core_.parking.found_work(w);
    run_fiber(w, f);
  } else {
    core_.stealing.run_stolen(w, n);
  }
  return true;
}

bool worker_loop::resume_spawner(worker& w) {
  if (!w.queue.has_spawner() || w.deque.size() > split_deque::low_watermark) return false;
  fiber* f = w.queue.take_spawner();
  if (!f) return false;
  core_.parking.found_work(w);
  run_fiber(w, f);
  return true;
}

runnable* worker_loop::own_fiber(worker& w, unsigned kinds) noexcept {
  const bool bound_first = w.turns.load(std::memory_order_relaxed) % 2 == 0;
  runnable* x = bound_first ? w.queue.pop_bound(kinds) : nullptr;
  if (!x) x = w.queue.take_public(kinds); // older than what is private
  if (!x) x = w.queue.pop(kinds);
  if (!x && !bound_first) x = w.queue.pop_bound(kinds);
  // One that gave way alone was kept from others because it would go on at once. Now it does not.
  if (x && w.queue.wanted() && (w.queue.owes() || (x->worker >= 0 && w.queue.has(run_queue::all)))) [[unlikely]]
    core_.stealing.answer(w);
  return x;
}

// What would starve if it were only looked at when there is nothing else; another kind first each
// time.
bool worker_loop::take_turn(worker& w) {
  w.fair = false;
  if (w.deque.size() == 0 && core_.stealing.force_tasklets(w)) return true;
  // Each that can stand behind others that are always ready.
  constexpr unsigned lower = run_queue::later | run_queue::last,
                     behind[] = {run_queue::last, lower, 1u << run_queue::normal | lower};
  const unsigned first = ++w.fair_turns;
  constexpr unsigned kinds = 5;
  for (unsigned i = 0; i < kinds; ++i) {
    switch ((first + i) % kinds) {
    case 0:
      if (core_.activations.run(w, lower)) return true;
      if (runnable* f = own_fiber(w, behind[first / kinds % std::size(behind)])) {
        core_.parking.found_work(w);
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
      if (core_.cfg.source && core_.cfg.source->produce(w.index)) {
        core_.parking.found_work(w);
        return true;
      }
      break;
    default:
      if (tasklet* t = w.pop()) {
        core_.parking.found_work(w);
        core_.runners.run(w, t);
        return true;
      }
      break;
    }
  }
  return false;
}

bool worker_loop::step(worker& w) {
  const bool polls = w.polls;
  if (fiber* const f = w.after_poll) { // no queue holds it, so nothing may come between
    poll(w);
    w.after_poll = nullptr;
    run_fiber(w, f);
    return true;
  }
  // What arrived during a long body has waited as long, and other workers may have nothing else.
  const std::int64_t last_step = std::exchange(w.last_tick, ticks());
  int budget = w.full_switch_budget;
  if (polls) {
    const bool was_long = w.last_tick - last_step > long_body_ticks_;
    if (--poll_in <= 0 || w.fair || was_long) poll(w);
    budget = std::min(was_long ? 1 : poll_in, budget);
  }
  if (core_.timers.any()) [[unlikely]] { // then look often
    budget = std::min(budget, fibers_per_look);
    if (--w.timers_in <= 0) {
      w.timers_in = looks_per_round;
      core_.timers.fire_all(); // others may be in long bodies
    } else {
      core_.timers.fire(w, core_.now());
    }
  }
  w.switch_budget = budget;
  const unsigned turn = w.turns.load(std::memory_order_relaxed) + 1;
  w.turns.store(turn, std::memory_order_relaxed);
  if ((w.fair || turn % fair_turn == 0) && take_turn(w)) return true;
  // The fiber that was to go on next when the budget was used up; now and then the others have
  // precedence.
  if (fiber* f = std::exchange(w.next_hint, nullptr); f && turn % 8 != 0 && w.queue.unlink(f)) {
    core_.parking.found_work(w);
    run_fiber(w, f);
    return true;
  }
  // In turns: each may always be ready.
  if (turn % 2 != 0 && core_.activations.run(w, run_queue::soon)) return true;
  if (runnable* f = own_fiber(w, run_queue::soon)) {
    core_.parking.found_work(w);
    run_fiber(w, f);
    return true;
  }
  if (resume_spawner(w)) return true;
  if (turn % 4 != 0 && core_.activations.run(w, run_queue::soon)) return true;
  if (tasklet* t = w.pop()) {
    core_.parking.found_work(w);
    core_.runners.run(w, t);
    return true;
  }
  if (core_.activations.run(w, run_queue::soon)) return true;
  if (take_outside(w)) return true;
  if (polls && poll(w)) return true;
  if (core_.cfg.source && core_.cfg.source->produce(w.index)) {
    core_.parking.found_work(w);
    return true;
  }
  if (core_.timers.any() && core_.timers.fire_all()) return true;
  if (core_.stealing.steal(w) || core_.activations.steal(w)) return true;
  if (core_.activations.run(w, run_queue::later)) return true;
  // Those that gave way come last, behind the events too: they may be waiting for just what these
  // bring.
  if (runnable* f = own_fiber(w, run_queue::later | run_queue::last)) {
    core_.parking.found_work(w);
    run_fiber(w, f);
    return true;
  }
  return core_.stealing.steal_fiber(w, run_queue::later) || core_.stealing.steal_yielded(w);
}

// To look at others' queues all the time would slow them down: each look takes a line out of their
// cache. Events are looked for all the time: a message that comes now is what all wait for.
bool worker_loop::spin_for_work(worker& w, unsigned call, int looks) {
  const bool polls = core_.has_events(w);
  for (int i = 0; i < looks; ++i) {
    if (core_.parking.notifications.load(std::memory_order_relaxed) != call || w.queue.has_bound(run_queue::all) ||
        w.has_activations() || !core_.outside.empty())
      return false;
    if (!polls)
      relax();
    else if (poll(w) || w.has_ready()) // what arrived may have woken a fiber and be nothing else
      return true;
  }
  return false;
}

void worker_loop::work(worker& w) {
  worker* const outer = this_worker(); // of a run that this one is nested in
  enter_thread(w);
  trace_begins(w, outer);
  const overflow_watch watch;
  double until = 0;
  bool rested = false; // since it last found something
  for (;;) {
    const unsigned call = core_.parking.notifications.load(std::memory_order_acquire);
    if (step(w)) {
      rested = false;
      until = 0;
      continue;
    }
    // Often the next fiber comes at once. Counting as searching and back takes two turns at a line
    // that all share.
    if (!w.searching && !std::exchange(rested, true) && core_.spin.count() > 0) {
      if (spin_for_work(w, call, 24)) rested = false;
      continue;
    }
    if (!w.searching) {
      w.searching = true;
      core_.parking.searching.fetch_add(1, std::memory_order_seq_cst);
      until = 0;
      continue; // what came before we counted as searching
    }
    if (!core_.over.load(std::memory_order_relaxed)) {
      const double now = steady_seconds();
      if (until == 0) until = now + std::chrono::duration<double>(core_.spin).count(); // since it last found something
      // Rest is known when all have lain down: no worker delays that. While another works there is
      // no rest.
      if (now < until &&
          (core_.quiescence.waiting.load(std::memory_order_relaxed) == 0 || !core_.parking.all_hungry())) {
        if (!core_.stealing.force_fibers(w) && spin_for_work(w, call, 64)) until = 0;
        continue;
      }
    }
    if (!core_.parking.park(w)) break;
    // Roused for work: it may take a moment to find. One that woke by itself only has a look.
    until = w.unparked ? 0 : -1;
  }
  set_this_worker(outer);
  trace_ends(outer);
}

void worker_loop::poll_apart() {
  poller_thread.store(static_cast<int>(gettid()), std::memory_order_relaxed);
  double until = 0;
  while (!core_.over.load(std::memory_order_seq_cst)) {
    const double now = steady_seconds();
    if (core_.cfg.events->poll() != event_source::polled::nothing)
      until = now + std::chrono::duration<double>(core_.spin).count();
    else if (now < until)
      relax();
    else
      poller_sleep();
  }
}

// A thread that holds `freeze` and sees that it sleeps knows that it has taken nothing that it has
// not passed on.
void worker_loop::poller_sleep() {
  poller_sleeps.store(true, std::memory_order_seq_cst);
  core_.cfg.events->wait(worker_parking::longest_sleep);
  const std::lock_guard pass(core_.parking.freeze);
  poller_sleeps.store(false, std::memory_order_relaxed);
}

} // namespace tern::detail
