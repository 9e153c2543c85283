// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/stealing.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <tern/base/clock.hpp>
#include <tern/base/topology.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

constexpr double force_after = 500e-6; // seconds that a worker which never sleeps waits for what others keep private

unsigned next_random(worker& w) noexcept { // xorshift (Marsaglia 2003)
  unsigned x = w.random;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return w.random = x;
}

} // namespace

// Runs the first and keeps the others where they can be stolen again.
void work_stealing::run_stolen(worker& w, unsigned n) {
  bool wanted = false;
  if (n > 1) w.deque.take_memory();
  for (unsigned i = 1; i < n; ++i) wanted = w.deque.push(w.stolen_tasklets[i]) || wanted;
  if (wanted && w.deque.wanted() && w.deque.publish()) core_.parking.notify();
  core_.parking.found_work(w);
  core_.runners.run(w, w.stolen_tasklets[0]);
}

bool work_stealing::steal_from(worker& w, worker& victim) {
  if (const unsigned n = victim.deque.steal(w.stolen_tasklets)) {
    event_counts::add(w.counts.steals);
    event_counts::add(w.counts.stolen, n);
    core_.observe(w, worker_event::steal, n);
    run_stolen(w, n);
    return true;
  }
  runnable* f = victim.queue.take_public(run_queue::soon);
  // A spawner that paused because its worker had so much to do, which it has no longer.
  if (!f && victim.queue.has_spawner() && victim.deque.size() <= split_deque::low_watermark)
    f = victim.queue.take_spawner();
  if (!f) {
    victim.queue.ask();
    return false;
  }
  core_.parking.found_work(w);
  core_.loop.run_fiber(w, f);
  return true;
}

bool work_stealing::steal(worker& w) {
  for (const auto& tier : w.victims) { // the nearest share caches with us
    const std::size_t n = tier.size(), first = n > 1 ? next_random(w) % n : 0;
    for (std::size_t i = 0; i < n; ++i)
      if (steal_from(w, *tier[first + i < n ? first + i : first + i - n])) return true;
  }
  return false;
}

bool work_stealing::steal_fiber(worker& w, unsigned kinds) {
  for (const auto& tier : w.victims)
    for (worker* victim : tier)
      if (runnable* f = victim->queue.take_public(kinds)) {
        core_.parking.found_work(w);
        core_.loop.run_fiber(w, f);
        return true;
      }
  return false;
}

// A yielded fiber belongs to its worker, which will come back to it, unless that is inside a long
// body: then it has not taken a turn since we looked last.
bool work_stealing::has_overdue_yielded(worker& w, const worker& other) const noexcept {
  if (!other.queue.has(run_queue::last)) return false;
  const unsigned now = other.turns.load(std::memory_order_relaxed);
  return std::exchange(w.seen_turns[static_cast<std::size_t>(other.index)], now) == now;
}

bool work_stealing::steal_yielded(worker& w) {
  if (steal_fiber(w, run_queue::last)) return true;
  for (const auto& tier : w.victims)
    for (worker* victim : tier)
      if (has_overdue_yielded(w, *victim)) {
        const std::uint32_t prepared = victim->queue.prepare_force();
        core_.barrier();
        if (!victim->queue.force(prepared, run_queue::last)) continue;
        core_.parking.notify(); // what sleepers had asked for has been answered: they will not be told by the owner
        if (runnable* f = victim->queue.take_public(run_queue::last)) {
          core_.parking.found_work(w);
          core_.loop.run_fiber(w, f);
          return true;
        }
      }
  return false;
}

// Fibers that a worker has woken or made and then not come to. Not at once: usually it waits a
// moment later, and then they need not go elsewhere, where all that they touch would have to
// follow.
bool work_stealing::force_fibers(worker& w) noexcept {
  constexpr int patience = 6; // looks
  worker* rich = nullptr;
  for (const auto& other : core_.workers)
    if (other.get() != &w && other->queue.has(run_queue::soon | run_queue::later)) rich = other.get();
  if (!rich) w.seen_private = 0;
  if (!rich || ++w.seen_private < patience) return false;
  w.seen_private = 0;
  const std::uint32_t prepared = rich->queue.prepare_force();
  core_.barrier();
  return rich->queue.force(prepared, run_queue::soon | run_queue::later);
}

// A worker that has fibers which only yield never goes to sleep, and one that is told to spin for
// long does so late: they too must not wait for an owner in a long body.
bool work_stealing::force_tasklets(worker& w) {
  bool any = false;
  for (const auto& other : core_.workers)
    any = any || (other.get() != &w && !other->deque.has_public() && other->deque.has_private());
  if (!any) {
    w.hidden_since = 0;
    return false;
  }
  const double now = steady_seconds();
  if (w.hidden_since == 0) w.hidden_since = now;
  if (now - w.hidden_since < force_after) return false;
  w.hidden_since = 0;
  for (std::size_t i = 0; i < core_.workers.size(); ++i)
    w.prepared[i] = core_.workers[i].get() == &w ? 0 : core_.workers[i]->deque.prepare_force();
  core_.barrier();
  for (std::size_t i = 0; i < core_.workers.size(); ++i)
    if (w.prepared[i] != 0 && core_.workers[i]->deque.force(w.prepared[i])) {
      event_counts::add(w.counts.forced);
      core_.parking.notify(); // what sleepers had asked for has been answered: they will not be told by the owner
      return steal_from(w, *core_.workers[i]);
    }
  return false;
}

void work_stealing::answer(worker& w) noexcept {
  w.queue.publish();
  core_.parking.notify(); // also if the only one stays private: a worker should be awake if it is not run soon
}

void work_stealing::share_slowly(worker& w) noexcept {
  if (core_.executor) return; // no simulated worker takes another's
  bool shared = w.deque.wanted() && w.deque.publish();
  if (w.queue.wanted() && w.queue.count() > 1) shared = w.queue.publish() || shared;
  if (shared) core_.parking.notify();
}

// Thieves try their neighbours first: the other hardware thread of the core, then the NUMA node,
// then all.
void work_stealing::plan_victims() {
  std::vector<int> core(core_.workers.size(), -1), numa(core_.workers.size(), -1);
  if (!core_.cfg.cpus.empty()) {
    const machine here = describe_machine();
    for (std::size_t i = 0; i < core_.workers.size() && i < core_.cfg.cpus.size(); ++i)
      for (std::size_t c = 0; c < here.allowed_cores.size() && !core_.cfg.cpus[i].empty(); ++c) {
        const auto& pus = here.allowed_cores[c].pus;
        if (std::find(pus.begin(), pus.end(), core_.cfg.cpus[i].front()) == pus.end()) continue;
        core[i] = core_.cfg.cpus[i].size() <= pus.size() ? static_cast<int>(c) : -1; // bound to a core, not to more
        numa[i] = here.allowed_cores[c].numa;
      }
  }
  for (auto& w : core_.workers) {
    const auto me = static_cast<std::size_t>(w->index);
    std::vector<std::vector<worker*>> tiers(3);
    for (std::size_t other = 0; other < core_.workers.size(); ++other) {
      if (other == me) continue;
      const bool same_core = core[me] >= 0 && core[me] == core[other];
      const bool same_numa = numa[me] >= 0 && numa[me] == numa[other];
      tiers[same_core ? 0 : same_numa ? 1 : 2].push_back(core_.workers[other].get());
    }
    std::erase_if(tiers, [](const auto& tier) { return tier.empty(); });
    w->victims = std::move(tiers);
  }
}

} // namespace tern::detail
