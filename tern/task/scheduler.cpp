// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler.hpp>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/task/detail/core.hpp>
#include <tern/task/detail/sanitizer.hpp>

namespace tern {
namespace detail {
namespace {

void make_yielded(fiber* f, void*) { f->home->yielded(f); }

} // namespace

scheduler_core::scheduler_core(scheduler::settings s)
    : cfg(std::move(s)), barrier(asymmetric_barrier::available(cfg.membarrier)), stacks(cfg.stack_bytes),
      outside_pool(this, -1, barrier.usable()) {
  for (int i = 0; i < cfg.workers; ++i) workers.push_back(std::make_unique<worker>(this, i, barrier.usable()));
  for (auto& w : workers) {
    w->prepared.resize(workers.size());
    w->seen_turns.resize(workers.size());
    w->random = 2463534242u + 7919u * static_cast<unsigned>(w->index);
  }
  spin = cfg.spin;
  if (cfg.spin.count() < 0) spin = std::chrono::microseconds(cfg.workers > 1 && cfg.workers <= usable_cpus() ? 50 : 0);
}

scheduler_core::~scheduler_core() {
  // acquire: pairs with the release of the last visitor. It is a few instructions from its end.
  while (visitors.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  for (fiber* f : spare) delete f;
  // Their closures may own promises that others of them wait for: waking needs all of them alive.
  for (fiber* f = newest; f; f = f->older) f->body.reset();
  // Stuck fibers, whose stacks are given up without unwinding, as `run` promises; and runners, which never end.
  for (fiber* all : {newest, runners})
    while (all) {
      fiber* f = all;
      all = f->older;
      tsan::destroy_fiber(f->memory.tsan_fiber);
      delete f;
    }
}

fiber* scheduler_core::new_fiber() {
  auto f = std::make_unique<fiber>();
  f->home = this;
  return f.release();
}

fiber* scheduler_core::new_runner() {
  std::unique_ptr<fiber> f(new_fiber());
  f->body = [this] { run_tasklets(); };
  prepare(*f, stacks);
  std::lock_guard hold(registry);
  f->older = runners;
  if (runners) runners->newer = f.get();
  return runners = f.release();
}

void scheduler_core::share_runner(fiber* f) noexcept {
  std::lock_guard hold(registry);
  f->next = shared_runners;
  shared_runners = f;
  has_shared_runners.store(true, std::memory_order_relaxed);
}

// It is at rest in its loop, which holds nothing.
void scheduler_core::give_up_runner(fiber* f) noexcept {
  std::lock_guard hold(registry);
  (f->newer ? f->newer->older : runners) = f->older;
  if (f->older) f->older->newer = f->newer;
  asan::forget(f->memory.low, f->memory.size);
  tsan::destroy_fiber(std::exchange(f->memory.tsan_fiber, nullptr)); // its record of calls would be wrong
  stacks.give(f->memory);
  delete f;
}

void scheduler_core::spawn(unique_function<void()> body, std::string name) {
  fiber* f = nullptr;
  {
    std::lock_guard hold(registry);
    if (!spare.empty()) {
      f = spare.back();
      spare.pop_back();
    } else {
      const std::size_t all = live.load(std::memory_order_relaxed) + 1;
      if (spare.capacity() < all) spare.reserve(2 * all); // so that `finished` need not allocate
      f = new_fiber();
    }
    f->body = std::move(body);
    f->name = std::move(name);
    f->exceptions = {};
    f->fake_stack = nullptr;
    f->memory = {}; // the stack comes with the first run: thousands of fibers may queue, few are begun at once
    f->newer = nullptr;
    f->older = newest;
    if (newest) newest->newer = f;
    newest = f;
    live.fetch_add(1, std::memory_order_relaxed); // only ever changed under the lock
  }
  ready(f);
}

void scheduler_core::ready(fiber* f) {
  if (worker* w = this_worker(); w && w->home == this) {
    w->box.push_ready(f);
    notify();
    return;
  }
  const visit here(*this);
  outside.push(f);
  notify();
}

void scheduler_core::yielded(fiber* f) {
  // Alone, it would go on here at once: no reason to wake anybody.
  if (this_worker()->box.push_yielded(f) > 1) notify();
}

void scheduler_core::finished(fiber* f) noexcept {
  std::lock_guard hold(registry);
  stacks.give(f->memory);
  f->memory = {};
  --begun;
  if (f->newer)
    f->newer->older = f->older;
  else
    newest = f->older;
  if (f->older) f->older->newer = f->newer;
  live.fetch_sub(1, std::memory_order_relaxed);
  spare.push_back(f);
}

// Thieves try their neighbours first: the other hardware thread of the core, then the NUMA node, then all.
void scheduler_core::plan_victims() {
  std::vector<int> core(workers.size(), -1), numa(workers.size(), -1);
  if (!cfg.cpus.empty()) {
    const machine here = describe_machine();
    for (std::size_t i = 0; i < workers.size() && i < cfg.cpus.size(); ++i)
      for (std::size_t c = 0; c < here.allowed_cores.size() && !cfg.cpus[i].empty(); ++c) {
        const auto& pus = here.allowed_cores[c].pus;
        if (std::find(pus.begin(), pus.end(), cfg.cpus[i].front()) == pus.end()) continue;
        core[i] = cfg.cpus[i].size() <= pus.size() ? static_cast<int>(c) : -1; // bound to a core, not to more
        numa[i] = here.allowed_cores[c].numa;
      }
  }
  for (auto& w : workers) {
    const auto me = static_cast<std::size_t>(w->index);
    std::vector<std::vector<worker*>> tiers(3);
    for (std::size_t other = 0; other < workers.size(); ++other) {
      if (other == me) continue;
      const bool same_core = core[me] >= 0 && core[me] == core[other];
      const bool same_numa = numa[me] >= 0 && numa[me] == numa[other];
      tiers[same_core ? 0 : same_numa ? 1 : 2].push_back(workers[other].get());
    }
    std::erase_if(tiers, [](const auto& tier) { return tier.empty(); });
    w->victims = std::move(tiers);
  }
}

std::size_t scheduler_core::run(unique_function<void()> main) {
  {
    std::lock_guard hold(registry);
    if (std::exchange(started, true))
      throw error(errc::invalid_state, "scheduler::run was called twice", "make a new scheduler for another run");
  }
  plan_victims();
  spawn(
      [this, body = std::move(main)]() mutable {
        try {
          body();
        } catch (...) {
          main_failed = std::current_exception();
        }
        body.reset(); // what it captured may wait when it is destroyed
        stopping.store(true, std::memory_order_seq_cst);
      },
      "main");
  std::vector<std::thread> threads;
  const auto dress = [this](int index) {
    const auto i = static_cast<std::size_t>(index);
    name_this_thread(cfg.name + " w" + std::to_string(index));
    if (i < cfg.cpus.size() && !cfg.cpus[i].empty()) bind_this_thread(cfg.cpus[i]);
  };
  try {
    for (int i = 1; i < cfg.workers; ++i)
      threads.emplace_back([this, i, dress] {
        try {
          dress(i);
        } catch (const std::exception& e) { // a worker that is not bound is slower, not wrong
          log_warning(std::string("worker ") + std::to_string(i) + " runs unbound: " + e.what());
        }
        work(*workers[static_cast<std::size_t>(i)]);
      });
  } catch (const std::system_error& e) {
    over.store(true, std::memory_order_seq_cst);
    wake_all();
    const std::size_t begun_threads = threads.size();
    for (auto& t : threads) t.join();
    throw error(errc::system,
                "only " + std::to_string(begun_threads + 1) + " of " + std::to_string(cfg.workers) +
                    " workers could be started: " + e.what(),
                "use fewer workers, or raise the limit on processes (ulimit -u)");
  }
  std::vector<int> unbound; // the calling thread is only lent: it gets its CPUs back
  if (!cfg.cpus.empty() && !cfg.cpus[0].empty()) {
    try {
      unbound = allowed_cpus();
      bind_this_thread(cfg.cpus[0]);
    } catch (const std::exception& e) {
      log_warning(std::string("worker 0 runs unbound: ") + e.what());
    }
  }
  work(*workers[0]);
  for (auto& t : threads) t.join();
  if (!unbound.empty()) bind_this_thread(unbound);
  const std::size_t stuck = report_stuck();
  if (main_failed) std::rethrow_exception(main_failed);
  return stuck;
}

std::size_t scheduler_core::report_stuck() {
  std::vector<std::string> names;
  for (fiber* f = newest; f; f = f->older) names.push_back(f->name.empty() ? "(unnamed)" : f->name);
  for (fiber* f = runners; f; f = f->older)
    if (f->group)
      names.push_back(std::string("tasklet of the group made at ") + f->group->made.file_name() + ":" +
                      std::to_string(f->group->made.line()));
  if (names.empty()) return 0;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i) text += (i ? ", " : "") + names[i];
  log_warning(std::to_string(names.size()) + " fibers still wait at the end and are given up: " + text +
              (names.size() > 8 ? ", …" : ""));
  return names.size();
}

} // namespace detail

scheduler::scheduler(settings s) {
  if (s.workers < 1)
    throw error(errc::invalid_argument, "a scheduler needs at least 1 worker, not " + std::to_string(s.workers),
                "set --tern-workers to 1 or more");
  core_ = std::make_unique<detail::scheduler_core>(std::move(s));
  core_->owner = this;
}
scheduler::~scheduler() = default;

std::size_t scheduler::run(unique_function<void()> main) { return core_->run(std::move(main)); }
void scheduler::spawn(unique_function<void()> body, std::string name) {
  core_->spawn(std::move(body), std::move(name));
}
void scheduler::notify() noexcept {
  const detail::scheduler_core::visit here(*core_);
  core_->notify();
}
int scheduler::workers() const noexcept { return core_->cfg.workers; }
void* scheduler::context() const noexcept { return core_->cfg.context; }
std::size_t scheduler::live_fibers() const noexcept { return core_->live.load(std::memory_order_relaxed); }

scheduler_counters scheduler::counters() const noexcept {
  scheduler_counters sum;
  for (const auto& w : core_->workers) {
    const auto& c = w->counts;
    sum.steals += c.steals.load(std::memory_order_relaxed);
    sum.stolen += c.stolen.load(std::memory_order_relaxed);
    sum.forced += c.forced.load(std::memory_order_relaxed);
    sum.parks += c.parks.load(std::memory_order_relaxed);
    sum.wakes += c.wakes.load(std::memory_order_relaxed);
    sum.pauses += c.pauses.load(std::memory_order_relaxed);
  }
  return sum;
}

scheduler* scheduler::current() noexcept {
  detail::worker* w = detail::this_worker();
  return w ? w->home->owner : nullptr;
}
int scheduler::current_worker() noexcept {
  detail::worker* w = detail::this_worker();
  return w ? w->index : -1;
}
bool scheduler::in_fiber() noexcept {
  detail::worker* w = detail::this_worker();
  return w && w->running;
}

void this_fiber::yield() {
  if (scheduler::in_fiber())
    detail::leave(detail::make_yielded, nullptr);
  else
    std::this_thread::yield();
}

std::string this_fiber::name() {
  detail::worker* w = detail::this_worker();
  return w && w->running ? w->running->name : std::string{};
}

} // namespace tern
