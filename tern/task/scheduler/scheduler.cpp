// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/prctl.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/task/fiber/locals.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/report/tracing.hpp>
#include <tern/task/scheduler/registry.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sim/simulated_executor.hpp>
#include <tern/trace/trace.hpp>

namespace tern {
namespace detail {
namespace {

constexpr int steps_in_a_row = 64; // fibers that are entered one from another before their worker looks around

/// A thread that sleeps for some microseconds, as fibers want to, is woken by Linux up to 50 us late unless it asks for
/// better (measured for 20 us: 84 us, with this 35).
class punctual {
public:
  punctual() noexcept : before_(::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
    constexpr unsigned long nanoseconds = 1000;
    ::prctl(PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0); // a wish: where it is refused, sleeps are longer
  }
  ~punctual() {
    if (before_ > 0) ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_), 0, 0, 0);
  }
  punctual(const punctual&) = delete;
  punctual& operator=(const punctual&) = delete;

private:
  const int before_;
};

} // namespace

scheduler_core::scheduler_core(scheduler::settings s)
    : cfg(std::move(s)), watched(cfg.observer || trace::on()), barrier(asymmetric_barrier::available(cfg.membarrier)),
      engine(cfg.simulation ? &cfg.simulation->inside() : nullptr),
      own_stacks(engine ? nullptr : std::make_unique<stack_pool>(this, cfg.stack_bytes, cfg.guard)),
      stacks(engine ? engine->stacks(cfg.stack_bytes, cfg.guard) : *own_stacks) {
  for (int i = 0; i < cfg.workers; ++i) {
    workers.push_back(std::make_unique<worker>(this, i, barrier.usable()));
    workers.back()->context = cfg.context;
  }
  for (auto& w : workers) {
    w->prepared.resize(workers.size());
    w->prepared_boxes.resize(workers.size());
    w->seen_turns.resize(workers.size());
    // An observer sees each switch; in a simulation chance decides.
    w->polls = has_events(*w);
    w->full_budget = engine || cfg.observer ? 0 : steps_in_a_row;
    w->random = 2463534242u + 7919u * static_cast<unsigned>(w->index);
  }
  register_core(*this);
  if (engine)
    engine->attach(*this);
  else
    for (auto& w : workers) w->alarms.wheel = std::make_unique<timer_wheel>();
  spin = cfg.spin;
  if (cfg.spin.count() < 0) spin = std::chrono::microseconds(cfg.workers > 1 && cfg.workers <= usable_cpus() ? 50 : 0);
}

scheduler_core::~scheduler_core() {
  // acquire: pairs with the release of the last visitor. It is a few instructions from its end.
  while (visitors.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  if (scheduler_extension* const x = detach_extension(*this)) x->ends();
  if (engine) engine->give_up_all(); // what waits in one of its schedulers may wait for something in another
  give_up();
  for (auto* f = simulated; engine && f; f = simulated) { // the stacks are not ours
    f->heap_closure = false;
    f->runner.store(false, std::memory_order_relaxed);
    asan::forget(f->low, f->size);
    recycle(f);
  }
  // What never began.
  tasklet* none[1];
  const auto drop = [](runnable* x) {
    if (x && !x->is_fiber) delete static_cast<pending_fiber*>(x);
    return x != nullptr;
  };
  for (auto& w : workers)
    while (drop(w->box.pop(fiber_box::all)) || drop(w->box.pop_bound(fiber_box::all)) ||
           drop(w->box.take_public(fiber_box::all))) {
    }
  for (runnable* x = nullptr; outside.take(x, none, 1) > 0 || x; x = nullptr) drop(x);
  if (engine) engine->detach(*this);
  unregister_core(*this);
}

void scheduler_core::give_up() noexcept {
  // Closures may own promises that other fibers wait for: waking needs all of them alive.
  std::vector<fiber*> stuck;
  each_fiber([&](fiber& f) { stuck.push_back(&f); });
  std::erase_if(stuck, [](const fiber* f) { return f->joiner.load(std::memory_order_relaxed) == fiber::done; });
  // They may own each other's handles, which would wait for them.
  for (fiber* f : stuck) f->joiner.store(fiber::done, std::memory_order_relaxed);
  for (fiber* f : stuck) // their stacks are given up without unwinding, as `run` promises; runners never end
    if (f->body) f->body(f->closure, nullptr);
  for (fiber* f : stuck) {
    if (f->caused) std::exchange(f->caused, nullptr)->let_go();
    if (f->locals) destroy_locals(*f);
    if (f->heap_closure) ::operator delete(f->closure);
  }
}

std::uint8_t scheduler_core::checked(const fiber_options& options, const std::source_location& made) const {
  if (options.worker < -1 || options.worker >= cfg.workers)
    throw error(errc::invalid_argument,
                "a fiber was to run on worker " + std::to_string(options.worker) + ", but there are " +
                    std::to_string(cfg.workers),
                "give a worker from 0 to " + std::to_string(cfg.workers - 1) + ", or -1 for any", made);
  return options.stack_bytes == 0 ? std::uint8_t{0} : stacks.class_of(options.stack_bytes);
}

seed scheduler_core::sow(std::size_t bytes, std::size_t alignment, const fiber_options& options,
                         const std::source_location& made) {
  worker* w = this_worker();
  if (w && w->home != this) w = nullptr;
  const bool usual = options.worker == -1 && options.stack_bytes == 0;
  const std::uint8_t stack_class = usual ? std::uint8_t{0} : checked(options, made);
  fiber* f = engine ? take_simulated(stack_class) : take_stack(w, stack_class);
  f->body = nullptr;
  f->joiner.store(fiber::alone, std::memory_order_relaxed);
  f->level = static_cast<std::uint8_t>(options.priority);
  f->worker = static_cast<std::int16_t>(options.worker);
  f->exceptions = {};
  f->caused = nullptr;
  f->error_number = 0;
  f->fake_stack = nullptr;
  f->made = made;
  f->name[0] = 0;
  if (!options.name.empty()) {
    const std::size_t n = std::min(options.name.size(), sizeof f->name - 1);
    std::memcpy(f->name, options.name.data(), n);
    f->name[n] = 0;
    tsan::name_fiber(f->tsan_fiber, f->name);
  }
  std::byte* top = f->top();
  if (bytes > f->size / 8 || alignment > alignof(fiber)) { // large ones would eat up the stack
    f->closure = nullptr;
    void* p = nullptr;
    if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) p = ::operator new(bytes, std::nothrow);
    if (!p) {
      recycle(f);
      if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
        throw error(errc::unsupported, "a fiber's body is aligned to " + std::to_string(alignment) + " bytes",
                    "keep what needs such an alignment on the heap", made);
      throw std::bad_alloc();
    }
    f->closure = p;
    f->heap_closure = true;
  } else {
    top -= (bytes + alignof(fiber) - 1) / alignof(fiber) * alignof(fiber);
    f->closure = top;
  }
  prepare(*f, top);
  f->id.store(new_id(w), std::memory_order_relaxed);
  return {f, f->closure};
}

// Runners that have nothing to do give theirs up when there is no memory.
fiber* scheduler_core::take_stack(worker* w, std::uint8_t stack_class) {
  for (;;) {
    try {
      if (w && stack_class == 0 && w->pool) {
        fiber* f = w->pool;
        w->pool = static_cast<fiber*>(f->next);
        --w->pool_count;
        return f;
      }
      return stacks.take(stack_class);
    } catch (const error&) {
      fiber* idle = w && stack_class == 0 ? idle_runner(*w) : nullptr;
      if (!idle) throw;
      // It is at rest in its loop, which holds nothing.
      asan::forget(idle->low, idle->size);
      tsan::destroy_fiber(idle->tsan_fiber); // its record of calls would be wrong
      idle->tsan_fiber = tsan::create_fiber();
      idle->runner.store(false, std::memory_order_relaxed);
      trace_forgets(*idle);
      recycle(idle);
    }
  }
}

// Thousands of schedulers take turns on one thread: what the last one has used is warm for the next.
fiber* scheduler_core::take_simulated(std::uint8_t stack_class) {
  fiber* f = stack_class == 0 ? stacks.take_here() : stacks.take(stack_class);
  f->home = this;
  trace_forgets(*f); // it may not have ended
  f->older = simulated;
  f->newer = nullptr;
  if (simulated) simulated->newer = f;
  simulated = f;
  return f;
}

bool scheduler_core::keeps_list() const noexcept { return engine && engine->on_this_thread(); }

void scheduler_core::recycle(fiber* f) noexcept {
  f->id.store(0, std::memory_order_relaxed);
  if (engine) [[unlikely]] {
    (f->newer ? f->newer->older : simulated) = f->older;
    if (f->older) f->older->newer = f->newer;
    f->next = nullptr;
    f->stack_class == 0 ? stacks.give_here(f) : stacks.give(f);
    return;
  }
  worker* w = this_worker();
  if (!w || w->home != this || f->stack_class != 0) {
    f->next = nullptr;
    stacks.give(f);
    return;
  }
  f->next = w->pool;
  w->pool = f;
  const unsigned most = w->pool_most;
  if (++w->pool_count < most) return;
  // The coldest half is for others; all of it if stacks are scarce.
  if (most < 2) {
    w->give_stacks();
    return;
  }
  fiber* last = w->pool;
  for (unsigned i = 1; i < most / 2; ++i) last = static_cast<fiber*>(last->next);
  auto* rest = static_cast<fiber*>(last->next);
  last->next = nullptr;
  w->pool_count = most / 2;
  stacks.give(rest);
}

void worker::give_stacks() noexcept {
  home->stacks.give(std::exchange(pool, nullptr));
  pool_count = 0;
}

void scheduler_core::stacks_are_scarce(const std::exception& why) {
  std::unique_lock hold(registry);
  const bool first = !std::exchange(short_of_stacks, true);
  hold.unlock();
  if (!first) return;
  log_warning(std::string("fibers must wait for a stack until another one ends: ") + why.what());
  // From now on nobody keeps any; those that sleep give back what they have when they lie down again.
  for (auto& w : workers) w->pool_most = 1;
  if (!engine) wake_all();
}

void scheduler_core::launch(fiber* f, fiber_body body) noexcept {
  f->body = body;
  worker* w = this_worker();
  if (w && w->home == this) {
    w->born.store(w->born.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    f->caused = w->caused;
    if (f->caused) [[unlikely]]
      f->caused->hold();
  } else {
    born_outside.fetch_add(1, std::memory_order_relaxed);
    f->caused = nullptr; // those of one rank mean nothing to another
  }
  ready(f);
}

fiber* scheduler_core::new_runner() {
  auto loop = [this] { run_for_others(); };
  const seed s = sow(sizeof loop, alignof(decltype(loop)), {.name = runner_name}, std::source_location::current());
  ::new (s.closure) decltype(loop)(loop);
  s.self->body = run_body<decltype(loop)>;
  s.self->runner.store(true, std::memory_order_relaxed);
  s.self->joiner.store(fiber::detached, std::memory_order_relaxed);
  return s.self;
}

void scheduler_core::share_runner(fiber* f) noexcept {
  std::lock_guard hold(registry);
  f->next = shared_runners;
  shared_runners = f;
  has_shared_runners.store(true, std::memory_order_relaxed);
}

void scheduler_core::spawn(unique_function<void()> body, const fiber_options& options,
                           const std::source_location& made) {
  worker* w = this_worker();
  if (w && w->home == this && may_grow()) {
    try {
      const seed s = sow(sizeof body, alignof(unique_function<void()>), options, made);
      ::new (s.closure) unique_function<void()>(std::move(body));
      s.self->joiner.store(fiber::detached, std::memory_order_relaxed);
      launch(s.self, run_body<unique_function<void()>>);
      return;
    } catch (const error& e) {
      if (e.code() != errc::out_of_memory) throw; // it waits for a stack
    }
  }
  (void)checked(options, made);
  auto p = std::make_unique<pending_fiber>();
  p->body = std::move(body);
  p->name = options.name;
  p->made = made;
  p->level = static_cast<std::uint8_t>(options.priority);
  p->worker = static_cast<std::int16_t>(options.worker);
  p->stack_bytes = options.stack_bytes;
  if (w && w->home == this) {
    w->born.store(w->born.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    p->caused = held_cause(w->caused);
  } else {
    born_outside.fetch_add(1, std::memory_order_relaxed);
  }
  ready(p.release());
}

void scheduler_core::ready_elsewhere(runnable* x) noexcept {
  if (engine) {
    engine->ready(*this, x);
    return;
  }
  const worker* w = this_worker();
  if (w && w->home == this) {
    ready_bound(x, w);
    return;
  }
  const visit here(*this);
  if (x->worker >= 0) {
    ready_bound(x, nullptr);
  } else {
    outside.push(x);
    notify();
  }
}

void scheduler_core::ready_bound(runnable* x, const worker* by) noexcept {
  worker& target = *workers[static_cast<std::size_t>(x->worker)];
  if (&target == by) {
    target.box.push_bound(x->level, x);
    return;
  }
  target.box.send_bound(x->level, x);
  std::atomic_thread_fence(std::memory_order_seq_cst); // as in `notify`, for one sleeper
  if (target.sleep.is_drowsy()) wake(target);
}

void scheduler_core::yielded(fiber* f) noexcept {
  if (engine) {
    engine->ready(*this, f);
    return;
  }
  worker* w = this_worker();
  if (f->worker >= 0) [[unlikely]] {
    w->box.push_bound(fiber_box::yielded, f);
    return;
  }
  w->box.push(fiber_box::yielded, f);
  // Alone, it would go on here at once: no reason to wake anybody.
  if (w->box.wanted() && w->box.count() > 1) [[unlikely]]
    answer(*w);
}

std::size_t scheduler_core::live_fibers() const noexcept {
  std::uint64_t born = born_outside.load(std::memory_order_relaxed), died = 0;
  for (const auto& w : workers) died += w->died.load(std::memory_order_relaxed);
  for (const auto& w : workers) born += w->born.load(std::memory_order_relaxed);
  return born > died ? born - died : 0;
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

void scheduler_core::begin_run(unique_function<void()> main, const std::source_location& made) {
  {
    std::lock_guard hold(registry);
    if (std::exchange(started, true))
      throw error(errc::invalid_state, "scheduler::run was called twice", "make a new scheduler for another run");
  }
  plan_victims();
  main_made = made;
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
      {.name = "main"}, made);
}

std::size_t scheduler_core::run(unique_function<void()> main, const std::source_location& made) {
  if (engine) {
    engine->expect_free();
    begin_run(std::move(main), made);
    scheduler_core* const alone[] = {this};
    engine->run(alone);
    return conclude();
  }
  begin_run(std::move(main), made);
  std::vector<std::thread> threads;
  const auto dress = [this](int index) {
    const auto i = static_cast<std::size_t>(index);
    name_this_thread(cfg.name + " w" + std::to_string(index));
    if (i < cfg.cpus.size() && !cfg.cpus[i].empty()) bind_this_thread(cfg.cpus[i]);
  };
  try {
    for (int i = cfg.poll_apart ? 0 : 1; i < cfg.workers; ++i)
      threads.emplace_back([this, i, dress] {
        const punctual sleeps;
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
                "only " + std::to_string(begun_threads + (cfg.poll_apart ? 0 : 1)) + " of " +
                    std::to_string(cfg.workers) + " workers could be started: " + e.what(),
                "use fewer workers, or raise the limit on processes (ulimit -u)");
  }
  std::vector<int> unbound; // the calling thread is only lent: it gets its CPUs back
  if (!cfg.poll_apart && !cfg.cpus.empty() && !cfg.cpus[0].empty()) {
    try {
      unbound = allowed_cpus();
      bind_this_thread(cfg.cpus[0]);
    } catch (const std::exception& e) {
      log_warning(std::string("worker 0 runs unbound: ") + e.what());
    }
  }
  {
    const punctual sleeps;
    if (cfg.poll_apart)
      poll_apart();
    else
      work(*workers[0]);
  }
  for (auto& t : threads) t.join();
  if (!unbound.empty()) bind_this_thread(unbound);
  return conclude();
}

std::size_t scheduler_core::conclude() {
  concluded = true;
  over.store(true, std::memory_order_seq_cst); // also if a simulation has come to its end
  if (const std::string text = dropped.text(); !text.empty()) log_warning(text);
  if (!deadlock.empty()) throw error(errc::deadlock, deadlock, "take locks in the same order everywhere");
  if (const std::string circle = find_deadlock(); !circle.empty())
    throw error(errc::deadlock, circle,
                engine ? "seed " + std::to_string(cfg.simulation->seed()) + " shows it again"
                       : "take locks in the same order everywhere");
  if (engine && !stopping.load(std::memory_order_relaxed))
    throw error(errc::deadlock, "main waits and nothing can run:" + describe_fibers(*this),
                "seed " + std::to_string(cfg.simulation->seed()) + " shows it again");
  const std::size_t stuck = report_stuck();
  if (main_failed) std::rethrow_exception(main_failed);
  return stuck;
}

std::size_t scheduler_core::report_stuck() {
  std::vector<std::string> names;
  each_left([&](const fiber& f) {
    if (!f.runner.load(std::memory_order_relaxed)) {
      names.push_back(f.name[0] ? std::string(f.name) : "(unnamed)");
    } else {
      const std::source_location& made = f.group.load(std::memory_order_relaxed)->made;
      names.push_back(std::string("tasklet of the group made at ") + made.file_name() + ":" +
                      std::to_string(made.line()));
    }
  });
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
  if (s.stack_bytes > detail::stack_pool::most_bytes)
    throw error(errc::invalid_argument, "fibers cannot have stacks of " + std::to_string(s.stack_bytes) + " bytes",
                "at most 2^36 bytes; put large data on the heap");
  core_ = std::make_unique<detail::scheduler_core>(std::move(s));
  core_->owner = this;
}
scheduler::~scheduler() = default;

std::size_t scheduler::run(unique_function<void()> main, std::source_location made) {
  return core_->run(std::move(main), made);
}
void scheduler::spawn(unique_function<void()> body, const fiber_options& options, std::source_location made) {
  core_->spawn(std::move(body), options, made);
}
void scheduler::notify() noexcept {
  const detail::scheduler_core::visit here(*core_);
  core_->notify();
}
int scheduler::workers() const noexcept { return core_->cfg.workers; }
void* scheduler::context() const noexcept { return core_->cfg.context; }
std::size_t scheduler::live_fibers() const noexcept { return core_->live_fibers(); }
stack_report scheduler::stacks() const {
  auto& pool = core_->stacks;
  return {pool.made(), pool.usable_bytes(), pool.deepest(), pool.guard()};
}

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
    sum.fibers += w->born.load(std::memory_order_relaxed);
  }
  sum.fibers += core_->born_outside.load(std::memory_order_relaxed);
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

} // namespace tern
