// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sim.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <sys/resource.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/detail/core.hpp>
#include <tern/task/detail/engine.hpp>
#include <tern/task/fiber.hpp>

namespace tern::sim {

using tern::detail::fiber;
using tern::detail::runnable;
using tern::detail::scheduler_core;
using tern::detail::split_deque;
using tern::detail::tasklet;
using tern::detail::worker;

namespace detail {
namespace {

constexpr std::int64_t never = tern::detail::wait_limit::never;
constexpr double notable = 20e-6; // seconds; whoever has blocked was away for longer
constexpr std::size_t most_surprises = 100;

engine* here() noexcept {
  const worker* w = tern::detail::this_worker();
  return w ? w->home->engine : nullptr;
}

} // namespace

std::uint64_t engine::random() noexcept { // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

bool engine::preempt() noexcept { return static_cast<double>(random() >> 11) * 0x1p-53 < cfg_.preempt; }

void engine::charge(std::int64_t ns) noexcept { now_ = ns < never - now_ ? now_ + ns : never - 1; }

void engine::note(what kind, std::uint64_t worker, std::uint64_t n) noexcept {
  ++events_;
  for (const std::uint64_t word : {static_cast<std::uint64_t>(kind), worker, n, static_cast<std::uint64_t>(now_)}) {
    hash_ ^= word; // FNV-1a, a word at a time
    hash_ *= 1099511628211u;
  }
}

void engine::ready(scheduler_core& core, runnable* x) { entries_.push_back({x, &core, now_}); }

void engine::drop(const scheduler_core& core) noexcept {
  std::erase_if(entries_, [&](const entry& e) {
    if (e.core == &core && !e.x->is_fiber) delete static_cast<tern::detail::pending_fiber*>(e.x);
    return e.core == &core;
  });
}

bool engine::may_run(const entry& e, const worker& w) const noexcept {
  return e.core == core_ && (e.x->worker < 0 || e.x->worker == w.index);
}

bool engine::any_tasklets() const {
  return std::any_of(core_->workers.begin(), core_->workers.end(), [](const auto& w) { return w->deque.size() > 0; });
}

// When `w` can do something, at the earliest.
std::int64_t engine::earliest(const worker& w) const {
  const std::int64_t clock = clocks_[static_cast<std::size_t>(w.index)];
  if (any_tasklets() || !core_->outside.empty() || w.box.has_spawner()) return clock;
  std::int64_t first = never;
  for (const entry& e : entries_)
    if (may_run(e, w)) first = std::min(first, std::max(clock, e.at));
  return first;
}

// What `w` can do now.
void engine::collect(worker& w) {
  choices_.clear();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const entry& e = entries_[i];
    if (e.at <= now_ && may_run(e, w)) choices_.push_back({what::fiber, i});
  }
  for (std::size_t i = 0; i < core_->workers.size(); ++i)
    if (core_->workers[i]->deque.size() > 0)
      choices_.push_back({i == static_cast<std::size_t>(w.index) ? what::tasklet : what::loot, i});
  if (w.box.has_spawner()) choices_.push_back({what::spawner, 0});
}

void engine::run_fiber(worker& w, runnable* x) {
  fiber* f = x->is_fiber ? static_cast<fiber*>(x) : core_->begin(w, static_cast<tern::detail::pending_fiber*>(x));
  if (!f) return;
  note(what::fiber, at_work_, f->id.load(std::memory_order_relaxed));
  if (cfg_.watch_blocking) running_ = "fiber " + f->called();
  core_->run_fiber(w, f);
}

void engine::act(worker& w, const choice& c) {
  const double began = cfg_.watch_blocking ? steady_seconds() : 0;
  switch (c.kind) {
  case what::fiber: {
    runnable* x = entries_[c.which].x;
    entries_[c.which] = entries_.back();
    entries_.pop_back();
    run_fiber(w, x);
    break;
  }
  case what::tasklet:
    if (tasklet* t = w.pop()) {
      note(what::tasklet, at_work_, 0);
      running_ = "a tasklet";
      core_->run_tasklet(w, t);
    }
    break;
  case what::loot: {
    worker& victim = *core_->workers[c.which];
    if (const std::uint64_t prepared = victim.deque.prepare_force()) victim.deque.force(prepared);
    if (const unsigned n = victim.deque.steal(w.loot)) {
      note(what::loot, at_work_, c.which * 1000 + n);
      tern::detail::event_counts::add(w.counts.steals);
      tern::detail::event_counts::add(w.counts.stolen, n);
      core_->observe(w, worker_event::steal, n);
      running_ = "a stolen tasklet";
      core_->keep_loot(w, n);
    }
    break;
  }
  default:
    if (fiber* f = w.box.take_spawner()) run_fiber(w, f);
    break;
  }
  if (cfg_.watch_blocking) watch(began);
}

long engine::blocked_so_far() noexcept {
  rusage used{};
  return getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nvcsw : 0;
}

// Blocking shows as a switch that the thread asked the system for.
void engine::watch(double began) {
  if (steady_seconds() - began < notable) return;
  const long now = blocked_so_far();
  if (now > blocked_ && announced == 0)
    surprise(running_ + " made a system call that blocked: the others could not run meanwhile, and no virtual time was "
                        "charged; announce it with sim::outside_world, or wait with Tern's own means");
  blocked_ = now;
}

void engine::overlook() noexcept { blocked_ = blocked_so_far(); }

void engine::surprise(std::string text) {
  if (surprises_.size() >= most_surprises) return;
  text = "simulation with seed " + std::to_string(cfg_.seed) + ", " + std::to_string(1e-9 * static_cast<double>(now_)) +
         " s: " + text;
  log_warning(text);
  surprises_.push_back(std::move(text));
}

void engine::expect_free() const {
  if (core_)
    throw error(errc::invalid_state, "a simulation runs one scheduler at a time",
                "make another simulation, or run this scheduler after the other");
}

void engine::run(scheduler_core& core) {
  core_ = &core;
  clocks_.assign(core.workers.size(), latest_);
  now_ = latest_;
  blocked_ = blocked_so_far();
  worker* const outer = tern::detail::this_worker();
  const auto step = std::max<std::int64_t>(1, std::llround(cfg_.step_seconds * 1e9));
  for (auto& w : core.workers) core.start_thread(*w);
  for (;;) {
    if (core.cfg.events) {
      tern::detail::set_this_worker(core.workers[0].get());
      if (core.cfg.events->poll()) note(what::poll, 0, 0);
    }
    // Who can begin first, or hardly later: real workers are not that exact, and whoever is woken should sometimes go
    // on where its waker ran.
    starts_.clear();
    for (const auto& w : core.workers) starts_.push_back(earliest(*w));
    const std::int64_t first = *std::min_element(starts_.begin(), starts_.end());
    const std::int64_t alarm = core.next_alarm();
    if (alarm != never && alarm <= first) {
      now_ = alarm;
      tern::detail::set_this_worker(core.workers[0].get());
      if (core.ring_all()) note(what::alarm, 0, 0);
      continue;
    }
    if (first == never) break;
    const std::int64_t latest = std::min(first < never - 2 * step ? first + 2 * step : first, alarm);
    std::size_t who = 0, candidates = 0;
    for (std::size_t i = 0; i < starts_.size(); ++i)
      if (starts_[i] <= latest && random() % ++candidates == 0) who = i;
    worker& w = *core.workers[who];
    tern::detail::set_this_worker(&w);
    at_work_ = who;
    now_ = starts_[who];
    w.budget = 0;
    w.looked_around = now_;
    if (!core.outside.empty()) {
      runnable* f = nullptr;
      tasklet* some[split_deque::most_stolen];
      const unsigned n = core.outside.take(f, some, split_deque::most_stolen);
      if (f) ready(core, f);
      for (unsigned i = 0; i < n; ++i) w.push(some[i]);
    }
    collect(w);
    if (!choices_.empty()) act(w, choices_[random() % choices_.size()]);
    now_ += step / 2 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(step)); // 1 step on average
    clocks_[who] = now_;
    latest_ = std::max(latest_, now_);
  }
  tern::detail::set_this_worker(outer);
  core_ = nullptr;
}

} // namespace detail

simulation::simulation(settings s) {
  if (!(s.preempt >= 0 && s.preempt < 1))
    throw error(errc::invalid_argument, "sim::settings::preempt must be at least 0 and less than 1");
  if (!(s.step_seconds > 0 && s.step_seconds < 1))
    throw error(errc::invalid_argument, "sim::settings::step_seconds must be more than 0 and less than 1");
  engine_ = std::make_unique<detail::engine>(s);
}
simulation::~simulation() = default;

std::uint64_t simulation::seed() const noexcept { return engine_->cfg().seed; }
double simulation::seconds() const noexcept { return 1e-9 * static_cast<double>(engine_->latest()); }
std::uint64_t simulation::trace_hash() const noexcept { return engine_->hash(); }
std::uint64_t simulation::events() const noexcept { return engine_->events(); }
const std::vector<std::string>& simulation::surprises() const noexcept { return engine_->surprises(); }
std::uint64_t simulation::random() noexcept { return engine_->random(); }

bool active() noexcept { return detail::here() != nullptr; }

void charge(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9))
    throw error(errc::invalid_argument, "sim::charge was given " + std::to_string(seconds) + " seconds",
                "a time of work is at least 0 and finite");
  auto* e = detail::here();
  if (!e) return;
  e->charge(std::llround(seconds * 1e9));
  if (scheduler::in_fiber()) this_fiber::yield(); // whose clock is behind comes first
}

outside_world::outside_world() noexcept {
  if (auto* e = detail::here()) ++e->announced;
}
outside_world::~outside_world() {
  if (auto* e = detail::here(); e && --e->announced == 0) e->overlook();
}

} // namespace tern::sim
