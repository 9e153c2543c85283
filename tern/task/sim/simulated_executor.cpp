// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sim/simulated_executor.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <sys/resource.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/fiber/ticks.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sim/member_state.hpp>
#include <tern/task/worker/switching.hpp>
#include <tern/task/worker/worker_trace.hpp>
#include <tern/trace/trace.hpp>

namespace tern::sim::detail {

using tern::detail::event_counts;
using tern::detail::pending_fiber;
using tern::detail::runnable;
using tern::detail::scheduler_core;
using tern::detail::split_deque;
using tern::detail::worker;

namespace {

constexpr double notable = 20e-6; // seconds; a fiber that has blocked was away for longer
constexpr std::size_t most_surprises = 100;
constexpr std::size_t few = 16; // entries that are looked at one by one
constexpr int fair_turn = 64;   // as on a real worker: each so many turns what is asked last comes first

long blocked_so_far() noexcept {
  rusage used{};
  return getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nvcsw : 0;
}

} // namespace

// When `w` can do something, at the earliest.
std::int64_t member_state::earliest(const worker& w) const noexcept {
  const auto i = static_cast<std::size_t>(w.index);
  const std::int64_t clock = std::max(of(i).clock, held_until);
  std::int64_t soonest = i < bound.size() && !bound[i].empty() ? bound[i].top().at : never;
  if (i == 0) soonest = std::min(soonest, events_due);
  if (!only_polls(w)) {
    if (w.deque.size() > 0 || !core.outside.empty() || w.queue.has_spawner()) return clock;
    if (!any.empty()) soonest = std::min(soonest, any.top().at);
    soonest = std::min(soonest, offered);
    for (std::size_t k = 0; k < core.workers.size(); ++k)
      if (core.workers[k]->deque.size() > 0) {
        const std::int64_t since = of(k).pushed;
        soonest = std::min(soonest, since == never ? clock : since);
      }
  }
  return soonest == never ? never : std::max(clock, soonest);
}

struct simulated_executor::pool {
  pool(std::size_t b, stack_guard g) : bytes(b), guard(g), stacks(nullptr, b, g) {}
  const std::size_t bytes;
  const stack_guard guard;
  tern::detail::stack_pool stacks;
};

simulated_executor::simulated_executor(const settings& s)
    : cfg_(s), step_(std::max<std::int64_t>(1, std::llround(s.step_seconds * 1e9))),
      preempt_below_(s.preempt >= 1  ? ~std::uint64_t{0}
                     : s.preempt > 0 ? static_cast<std::uint64_t>(s.preempt * 0x1p64)
                                     : 0),
      random_(s.seed), thread_(pthread_self()), notable_(tern::detail::ticks_in(notable)) {}
simulated_executor::~simulated_executor() = default;

tern::detail::stack_pool& simulated_executor::stacks(std::size_t bytes, stack_guard guard) {
  for (const auto& p : stacks_)
    if (p->bytes == bytes && p->guard == guard) return p->stacks;
  return stacks_.emplace_back(std::make_unique<pool>(bytes, guard))->stacks;
}

bool simulated_executor::on_this_thread() const noexcept { return pthread_equal(pthread_self(), thread_) != 0; }

std::uint64_t simulated_executor::random() noexcept { // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Without a division; not quite even, which does not show for n far below 2^32 (Lemire 2019).
std::uint64_t simulated_executor::random_below(std::uint64_t n) noexcept {
  if (n > std::uint64_t{1} << 32) return random() % n;
  return (random() >> 32) * n >> 32;
}

bool simulated_executor::preempt() noexcept { return random() < preempt_below_; }

void simulated_executor::charge(std::int64_t ns) noexcept {
  const std::uint64_t slower = current_ ? current_->slower : 1024;
  if (slower != 1024) {
    const double longer = static_cast<double>(ns) * (static_cast<double>(slower) / 1024);
    ns = longer < 9e18 ? static_cast<std::int64_t>(longer) : never;
  }
  now_ = ns < never - now_ ? now_ + ns : never - 1;
  if (at_work_) at_work_->last_tick = now_; // for those that note since when they wait
}

// Members
// ---------------------------------------------------------------------------------------------------------------

void simulated_executor::attach(scheduler_core& core) {
  members_.push_back(std::make_unique<member_state>(core));
  core.member = members_.back().get();
  core.member->number = members_.size() - 1;
}

bool simulated_executor::any_twice(std::span<scheduler_core* const> cores) noexcept {
  bool twice = false;
  for (scheduler_core* c : cores) twice = std::exchange(c->member->listed, true) || twice;
  for (scheduler_core* c : cores) c->member->listed = false;
  return twice;
}

void simulated_executor::give_up_all() noexcept {
  if (!std::exchange(has_run_, false)) return;
  for (const auto& l : members_)
    if (l && l->core.concluded) l->core.fibers.give_up();
}

void simulated_executor::detach(scheduler_core& core) noexcept {
  member_state* const l = std::exchange(core.member, nullptr);
  if (!l) return;
  const auto drop = [](const entry& e) {
    if (!e.x->is_fiber) delete static_cast<pending_fiber*>(e.x);
    return true;
  };
  l->any.erase_if(drop);
  for (auto& b : l->bound) b.erase_if(drop);
  turns_.erase_if([&](const turn& t) { return t.whose == l; });
  // The last mostly goes first: then nothing moves, and numbers, which are part of the hash, stay
  // small.
  const std::size_t n = l->number;
  members_[n].reset();
  while (!members_.empty() && !members_.back()) members_.pop_back();
}

bool simulated_executor::stands(const turn& t) noexcept {
  return t.whose->key != never && t.is(t.whose->key, t.whose->chance);
}

void simulated_executor::plan_at(member_state& l, std::int64_t at) noexcept {
  if (l.dead || !l.active) at = never;
  if (at != never) at = std::max(at, l.held_until);
  if (at == l.key) return;
  l.key = at;
  // The former turn stays where it is and counts no longer: see `run`.
  if (at == never) return;
  if (turns_.size() > 4 * members_.size() + 64) turns_.erase_if([](const turn& t) { return !stands(t); });
  turns_.push({at, l.chance = random(), l});
}

void simulated_executor::plan(member_state& l) noexcept {
  l.next_timer = l.core.timers.next_deadline();
  std::int64_t first = l.next_timer;
  for (const auto& w : l.core.workers) first = std::min(first, l.earliest(*w));
  plan_at(l, first);
}

void simulated_executor::ready(scheduler_core& core, runnable* x) {
  member_state& l = *core.member;
  // Not before it left its stack: its waker may run on a worker whose clock is behind.
  std::int64_t at = now_;
  if (x->is_fiber)
    if (const auto* f = static_cast<const tern::detail::fiber*>(x);
        f->waits.load(std::memory_order_relaxed) != tern::detail::wait_kind::none)
      at = std::max(at, f->waits_since.load(std::memory_order_relaxed));
  const entry e{at, l.entries++, x};
  if (x->worker >= 0) {
    if (l.bound.empty()) l.bound.resize(core.workers.size());
    l.bound[static_cast<std::size_t>(x->worker)].push(e);
  } else {
    l.any.push(e);
  }
  if (&l != current_) plan(l); // else when its turn is over
}

void simulated_executor::schedule(std::int64_t at, event& e) {
  if (at >= due::most) // they could no longer be told apart
    throw error(errc::invalid_state, "virtual time has come to its end, 18 years after the beginning",
                "charge and sleep less");
  planned_.push({std::max(at, now_), random(), e});
}

void simulated_executor::notify_events(scheduler_core& core, std::int64_t at) noexcept {
  member_state& l = *core.member;
  if (at >= l.events_due) return;
  l.events_due = at;
  // Nothing else has changed.
  if (&l != current_ && at < l.key) plan_at(l, std::min(l.key, std::max(at, l.first.clock)));
}

void simulated_executor::source_offers(scheduler_core& core) noexcept {
  member_state& l = *core.member;
  if (l.offered != never || !l.source_has_work()) return;
  l.offered = now_;
  if (&l != current_) plan(l);
}

void simulated_executor::hold(scheduler_core& core, std::int64_t until) noexcept {
  core.member->held_until = std::max(core.member->held_until, until);
  if (core.member != current_) plan(*core.member);
}

void simulated_executor::kill(scheduler_core& core) noexcept {
  core.member->dead = true;
  if (core.member != current_) plan(*core.member);
}

void simulated_executor::slow(scheduler_core& core, double factor) noexcept {
  core.member->slower = static_cast<std::uint64_t>(std::clamp(factor, 1.0, 1e9) * 1024);
}

// What a worker does --------------------------------------------------------------------------------------------------

void simulated_executor::poll_events(member_state& l, worker& w) {
  note(poll, l.number, 0);
  l.events_due = never;
  runs(nullptr, "the handling of messages");
  const auto polled = w.home->cfg.events->poll();
  static_cast<void>(polled); // polling_fiber are not simulated: see net::node
}

// What `w` can do now.
void simulated_executor::collect(member_state& l, worker& w) {
  choices_.clear();
  const auto me = static_cast<std::size_t>(w.index);
  const auto add = [&](const tern::detail::indexed_heap<entry>& from, std::size_t base) {
    if (from.size() <= few) {
      for (std::size_t i = 0; i < from.size(); ++i)
        if (from[i].at <= now_) choices_.push_back({fiber, base + i});
      return;
    }
    // Many: some of them by chance, and the oldest in any case.
    if (from.top().at <= now_) choices_.push_back({fiber, base});
    for (std::size_t i = 0; i < few; ++i)
      if (const std::size_t one = random_below(from.size()); from[one].at <= now_)
        choices_.push_back({fiber, base + one});
  };
  if (!l.only_polls(w)) add(l.any, 0);
  if (me < l.bound.size()) add(l.bound[me], l.any.size());
  if (l.only_polls(w)) return;
  for (std::size_t i = 0; i < l.core.workers.size(); ++i)
    if (l.core.workers[i]->deque.size() > 0) choices_.push_back({i == me ? tasklet : stolen, i});
  // As on a real worker: it would only add more.
  if (w.queue.has_spawner() && w.deque.size() <= split_deque::low_watermark) choices_.push_back({spawner, 0});
}

bool simulated_executor::ask_source(member_state& l, worker& w) {
  if (l.only_polls(w) || !l.source_has_work()) return false;
  l.turns_without_source = 0;
  note(source, l.number << 16 | static_cast<std::uint64_t>(w.index), 0);
  runs(nullptr, "a work source");
  return l.core.cfg.source->produce(w.index);
}

// What there is for others since this worker's turn began.
void simulated_executor::look_after(member_state& l, std::size_t who, std::int64_t began) noexcept {
  for (std::size_t k = 0; k < l.core.workers.size(); ++k) {
    std::int64_t& pushed = l.of(k).pushed;
    if (l.core.workers[k]->deque.size() == 0)
      pushed = never;
    else if (pushed == never)
      pushed = k == who ? began : now_;
  }
  if (!l.source_has_work())
    l.offered = never;
  else if (l.offered == never)
    l.offered = began;
}

void simulated_executor::runs(const tern::detail::fiber* f, const char* otherwise) noexcept {
  if (!cfg_.watch_blocking) return;
  running_id_ = f ? f->id.load(std::memory_order_relaxed) : 0;
  if (f) {
    std::memcpy(running_name_, f->name, sizeof running_name_);
  } else {
    std::strncpy(running_name_, otherwise, sizeof running_name_ - 1);
  }
}

void simulated_executor::run_fiber(member_state& l, worker& w, runnable* x) {
  tern::detail::fiber* f =
      x->is_fiber ? static_cast<tern::detail::fiber*>(x) : l.core.loop.begin_pending(w, static_cast<pending_fiber*>(x));
  if (!f) return;
  note(fiber, l.number << 16 | static_cast<std::uint64_t>(w.index), f->id.load(std::memory_order_relaxed));
  runs(f, "");
  l.core.loop.run_fiber(w, f);
}

void simulated_executor::act(member_state& l, worker& w, const choice& c) {
  scheduler_core& core = l.core;
  const std::uint64_t who = l.number << 16 | static_cast<std::uint64_t>(w.index);
  switch (c.kind) {
  case fiber: {
    const std::size_t shared = l.any.size();
    run_fiber(l, w,
              c.which < shared ? l.any.take(c.which).x
                               : l.bound[static_cast<std::size_t>(w.index)].take(c.which - shared).x);
    break;
  }
  case tasklet:
    if (tern::detail::tasklet* t = w.pop()) {
      note(tasklet, who, 0);
      runs(nullptr, "a tasklet");
      core.runners.run(w, t);
    }
    break;
  case stolen: {
    worker& victim = *core.workers[c.which];
    if (const std::uint64_t prepared = victim.deque.prepare_force()) victim.deque.force(prepared);
    if (const unsigned n = victim.deque.steal(w.stolen_tasklets)) {
      note(stolen, who, c.which * 1000 + n);
      event_counts::add(w.counts.steals);
      event_counts::add(w.counts.stolen, n);
      core.observe(w, worker_event::steal, n);
      runs(nullptr, "a stolen tasklet");
      core.stealing.run_stolen(w, n);
    }
    break;
  }
  default:
    if (tern::detail::fiber* f = w.queue.take_spawner()) run_fiber(l, w, f);
    break;
  }
}

void simulated_executor::take_outside(member_state& l, worker& w) {
  if (l.core.outside.empty() || w.deque.size() > split_deque::high_watermark) return;
  runnable* f = nullptr;
  tern::detail::tasklet* some[split_deque::most_stolen];
  const unsigned n = l.core.outside.take(f, some, split_deque::most_stolen);
  if (f) ready(l.core, f);
  for (unsigned i = 0; i < n; ++i) w.push(some[i]);
}

// Blocking shows as a switch that the thread asked the system for.
void simulated_executor::watch() {
  const std::int64_t ticks = tern::detail::raw_ticks();
  if (ticks - std::exchange(watched_, ticks) < notable_) return;
  const long now = blocked_so_far();
  if (now > blocked_ && announced == 0) {
    std::string who = running_name_;
    if (running_id_) who = "fiber " + std::to_string(running_id_) + (who.empty() ? "" : " '" + who + "'");
    surprise(who + " made a system call that blocked: the others could not run meanwhile, and no virtual time was "
                   "charged; announce it with sim::outside_world, or wait with Tern's own means");
  }
  blocked_ = now;
}

void simulated_executor::overlook() noexcept { blocked_ = blocked_so_far(); }

void simulated_executor::surprise(std::string text) {
  if (surprises_.size() >= most_surprises) return;
  text = "simulation with seed " + std::to_string(cfg_.seed) + ", " + std::to_string(1e-9 * static_cast<double>(now_)) +
         " s: " + text;
  log_warning(text);
  surprises_.push_back(std::move(text));
}

void simulated_executor::expect_free() const {
  if (running_)
    throw error(errc::invalid_state, "a simulation runs one scheduler at a time, or several together",
                "give them to simulation::run together, make another simulation, or run this one after the other");
}

// One step on average.
void simulated_executor::take_time() noexcept {
  const std::int64_t used = step_ / 2 + static_cast<std::int64_t>(random_below(static_cast<std::uint64_t>(step_)));
  charge(std::max<std::int64_t>(1, used));
}

void simulated_executor::announce_quiescence(member_state& l) noexcept {
  if (l.core.quiescence.waiting.load(std::memory_order_relaxed) > 0 && l.quiescent())
    tern::detail::waiter_list::wake_all(l.core.quiescence.take(l.core.timers.next_deadline() != never));
}

// One worker of the member_state does one thing, or a few.
void simulated_executor::step(member_state& l) {
  scheduler_core& core = l.core;
  current_ = &l;
  std::size_t who = 0;
  std::int64_t first = std::exchange(l.key, never);
  starts_.clear();
  if (core.workers.size() > 1) {
    first = never;
    for (const auto& w : core.workers) {
      starts_.push_back(l.earliest(*w));
      first = std::min(first, starts_.back());
    }
  }
  if (l.next_timer != never && l.next_timer <= first) {
    now_ = std::max(l.next_timer, l.held_until);
    tern::detail::set_this_worker(core.workers[0].get());
    if (traced_) [[unlikely]]
      tern::detail::trace_as(core.workers[0].get());
    if (core.timers.fire_all()) note(alarm, l.number, 0);
    announce_quiescence(l);
    current_ = nullptr;
    plan(l);
    return;
  }
  // The workers that can begin first, or hardly later: real ones are not that exact, and a fiber
  // that is woken should sometimes go on where its waker ran.
  const std::int64_t last = std::min(first < never - 2 * step_ ? first + 2 * step_ : first, l.next_timer);
  std::uint64_t candidates = 0;
  for (std::size_t i = 0; i < starts_.size(); ++i)
    if (starts_[i] <= last && random_below(++candidates) == 0) who = i;
  worker& w = *core.workers[who];
  tern::detail::set_this_worker(&w);
  if (traced_) [[unlikely]]
    tern::detail::trace_as(&w);
  now_ = starts_.empty() ? first : starts_[who];
  w.switch_budget = 0;
  w.last_tick = now_;
  at_work_ = &w;
  take_outside(l, w);
  // Mostly what the network brings comes first, as on a real worker; now and then not.
  const bool poll_first = who == 0 && l.events_due <= now_ && (l.any.empty() || random() % 8 != 0);
  if (poll_first) poll_events(l, w);
  // Others that are always ready must not keep it from its turn for ever.
  bool source_first = !l.only_polls(w) && l.source_has_work() && ++l.turns_without_source > fair_turn;
  for (;;) {
    if (std::exchange(source_first, false) && ask_source(l, w)) {
      // A fiber of it runs next, or later.
    } else if (!l.only_polls(w) && l.any.size() == 1 && l.any.top().at <= now_ && l.bound.empty() &&
               !w.queue.has_spawner() && !l.any_tasklets()) {
      run_fiber(l, w, l.any.pop().x); // mostly there is no choice
    } else {
      collect(l, w);
      if (!choices_.empty())
        act(l, w, choices_[random_below(choices_.size())]);
      else if (!poll_first && who == 0 && l.events_due <= now_)
        poll_events(l, w);
      else
        ask_source(l, w);
    }
    if (cfg_.watch_blocking) watch();
    take_time();
    // A scheduler that has more to do mostly goes on as long as no other can notice: all that it
    // touches is at hand now, and with a thousand others it will not be when its turn comes again.
    if (now_ - first >= ahead_ || core.workers.size() > 1 || l.any.empty() || l.any.top().at > now_ || l.dead ||
        l.held_until > now_ || core.timers.next_deadline() <= now_ || random() % 16 == 0)
      break;
  }
  at_work_ = nullptr;
  l.of(who).clock = now_;
  look_after(l, who, starts_.empty() ? first : starts_[who]);
  latest_ = std::max(latest_, now_);
  announce_quiescence(l);
  current_ = nullptr;
  plan(l);
}

void simulated_executor::run(std::span<scheduler_core* const> cores) {
  expect_free();
  running_ = true;
  now_ = latest_;
  blocked_ = blocked_so_far();
  watched_ = tern::detail::raw_ticks();
  traced_ = trace::on();
  worker* const outer = tern::detail::this_worker();
  worker* first = nullptr;
  for (scheduler_core* core : cores) {
    member_state& l = *core->member;
    l.active = true;
    l.first.clock = latest_;
    for (auto& other : l.others) other.clock = latest_;
    for (auto& w : core->workers) {
      if (!first) {
        tern::detail::enter_thread(*w);
        tern::detail::trace_begins(*w, outer);
        first = w.get();
      } else { // it is the same thread
        w->exceptions = first->exceptions;
        w->error_number = first->error_number;
        w->root.tsan_fiber = first->root.tsan_fiber;
        w->root.low = first->root.low;
        w->root.size = first->root.size;
        w->track = tern::detail::new_track(*w);
      }
    }
    plan(l);
  }
  for (;;) {
    const std::int64_t next = planned_.empty() ? never : planned_.top().at();
    if (!turns_.empty() && turns_.top().at() < next) {
      const turn t = turns_.pop();
      member_state& l = *t.whose;
      if (stands(t)) step(l); // else it was planned anew since
    } else if (next != never) {
      now_ = next;
      planned_.pop().what->happen();
    } else {
      break;
    }
  }
  for (scheduler_core* core : cores) {
    core->member->active = false;
    plan(*core->member);
  }
  tern::detail::set_this_worker(outer);
  tern::detail::trace_ends(outer);
  running_ = false;
  has_run_ = true;
}

} // namespace tern::sim::detail
