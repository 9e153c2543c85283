// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/activations.hpp>

#include <utility>

#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

constexpr double steal_after = 2e-6;   // seconds for which a worker that has nothing leaves others' alone
constexpr double series_length = 5e-6; // after which a worker looks at everything else
constexpr int most_in_series = 16;

} // namespace

activations::activations(scheduler_core& core) noexcept
    : core_(core), patience_(ticks_in(steal_after)), slice_(ticks_in(series_length)) {}

void activations::ready(activation& a, int near, bool awaited) noexcept {
  worker* const self = this_worker();
  worker* target = core_.workers[static_cast<std::size_t>(near)].get();
  if (!self || self->home != &core_) [[unlikely]] {
    const scheduler_core::visit here(core_);
    return wake_for(*target, nullptr, target->activations.push(&a), false);
  }
  if (target != self && target->spot.is_parked()) target = self; // nothing is in its caches any more
  wake_for(*target, self, target->activations.push(&a), awaited);
}

// Either this sees a worker that parks, or that worker, which passes a barrier for all threads when
// it is counted as asleep, sees what was pushed: see parking.cpp.
void activations::wake_for(worker& target, worker* by, unsigned there, bool awaited) noexcept {
  core_.order_with_barrier();
  if (&target != by && target.spot.is_parked()) {
    core_.parking.wake(target);
    return;
  }
  if (core_.parking.asleep.load(std::memory_order_relaxed) == 0 ||
      core_.parking.searching.load(std::memory_order_relaxed) > 0)
    return; // one that searches comes by, and wakes another when it has found something
  if (awaited && there == 1 && &target == by) return;
  core_.parking.notify();
}

bool activations::hand(worker& self, handed& x, int to, std::uint32_t& upto) noexcept {
  // One that sleeps would have to be woken for it, or for other work that it might take.
  if (core_.parking.asleep.load(std::memory_order_relaxed) > 0) return false;
  worker& target = *core_.workers[static_cast<std::size_t>(to)];
  auto& mine = self.handing[static_cast<std::size_t>(to)];
  handed_ring* ring = mine.load(std::memory_order_relaxed);
  if (!ring) [[unlikely]] {
    ring = target.inbox.add();
    if (!ring) return false;
    mine.store(ring, std::memory_order_release); // see `settle_fiber`
  }
  if (!ring->push(x)) return false;
  upto = ring->written();
  if (self.running) self.running->handed_by = static_cast<std::uint16_t>(self.index + 1);
  core_.order_with_barrier(); // as in `wake_for`
  if (target.spot.is_parked()) [[unlikely]]
    core_.parking.wake(target);
  return true;
}

void activations::settle(worker& self, int to, std::uint32_t upto) noexcept {
  handed_ring* const ring = self.handing[static_cast<std::size_t>(to)].load(std::memory_order_relaxed);
  if (ring && !ring->has_passed(upto)) ring->take_all([](handed& x) { x.take(x); });
}

// The fiber may run on another worker by now.
void activations::settle_fiber(fiber& of) noexcept {
  const worker& by = *of.home->workers[std::exchange(of.handed_by, std::uint16_t{0}) - std::size_t{1}];
  for (const auto& each : by.handing)
    if (handed_ring* const ring = each.load(std::memory_order_acquire); ring && ring->any())
      ring->take_all([](handed& x) { x.take(x); });
}

void activations::settle_all() noexcept {
  for (const auto& w : core_.workers) take_in(*w);
}

// What has been handed to a worker that is in a long body.
void activations::take_for_others(worker& w) noexcept {
  const std::int64_t now = ticks();
  if (now - w.looked_at_others < 2 * patience_) return;
  w.looked_at_others = now;
  for (const auto& other : core_.workers) {
    if (other.get() == &w || !other->inbox.any()) continue;
    const unsigned turn = other->turns.load(std::memory_order_relaxed);
    if (std::exchange(w.turns_then[static_cast<std::size_t>(other->index)], turn) == turn) take_in(*other);
  }
}

bool activations::begin(worker& w, activation* a) {
  fiber* const runner = core_.runners.any(w);
  if (!runner) { // a fiber that ends gives its stack back
    w.activations.push(a);
    return false;
  }
  core_.parking.found_work(w);
  w.rich_since = 0;
  w.activation = a;
  w.activation_runner = runner;
  w.switch_budget = 1; // a body that waits leaves the fiber for the worker, which hands the rest on
  w.entered.store(w.entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  core_.observe(w, worker_event::fiber_begin);
  enter(w, *runner);
  core_.observe(w, worker_event::fiber_end);
  if (w.activation_runner) { // it waits; perhaps it goes on elsewhere already
    w.activation_runner = nullptr;
    activation& rest = *std::exchange(w.activation, nullptr);
    rest.left(rest);
  }
  return true;
}

void activations::run_in_fiber(worker* w) {
  const std::int64_t begun = w->last_tick;
  for (int n = 1;; ++n) {
    activation& a = *w->activation;
    a.run(a); // it may be gone afterwards
    w = this_worker();
    if (!w || w->activation_runner != w->running) return; // it has waited, or was given up
    w->activation = nullptr;
    w->turns.store(w->turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); // see `steal`
    if (n == most_in_series || w->has_ready_fiber() || ticks() - begun > slice_) break;
    if (w->inbox.any()) take_in(*w);
    w->activation = w->activations.pop(run_queue::soon);
    if (!w->activation) break;
  }
  w->activation_runner = nullptr;
}

void activations::give_up() noexcept {
  worker* const w = this_worker();
  if (!w || !w->running || w->activation_runner != w->running) return;
  w->activation_runner = nullptr;
  activation& rest = *std::exchange(w->activation, nullptr);
  rest.left(rest);
}

bool activations::steal(worker& w) {
  worker* rich = nullptr;
  unsigned most = 0;
  for (const auto& other : core_.workers)
    if (const unsigned n = other.get() == &w ? 0 : other->activations.count(); n > most) {
      rich = other.get();
      most = n;
    }
  if (!rich) {
    w.rich_since = 0;
    take_for_others(w);
    return false;
  }
  const std::int64_t now = ticks();
  const unsigned turn = rich->turns.load(std::memory_order_relaxed);
  if (w.rich_since == 0 || (most == 1 && w.rich_turn != turn)) {
    w.rich_since = now;
    w.rich_turn = turn;
    return false;
  }
  if (now - w.rich_since < patience_) return false;
  activation* const a = rich->activations.give_half(w.activations);
  if (!a) return false;
  event_counts::add(w.counts.steals);
  event_counts::add(w.counts.stolen, w.activations.count() + 1);
  core_.observe(w, worker_event::steal, w.activations.count() + 1);
  return begin(w, a);
}

} // namespace tern::detail
