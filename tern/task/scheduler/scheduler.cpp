// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/prctl.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/task/boundary/diagnosis.hpp>
#include <tern/task/boundary/registry.hpp>
#include <tern/task/fiber/fiber_trace.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/trace/record/events.hpp>
#include <tern/trace/trace.hpp>

namespace tern {
namespace detail {
namespace {

constexpr int steps_in_a_row = 64; // fibers that are entered one from another before their worker looks around

/// A thread that sleeps for some microseconds, as fibers want to, is woken by Linux up to 50 us
/// late unless it asks for better (measured for 20 us: 84 us, with this 35).
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
      executor(cfg.simulation ? &executor_of(*cfg.simulation) : nullptr), fibers(*this, cfg.stack_bytes, cfg.guard) {
  for (int i = 0; i < cfg.workers; ++i) {
    workers.push_back(std::make_unique<worker>(this, i, barrier.usable()));
    workers.back()->context = cfg.context;
    workers.back()->trace_rank = cfg.trace_rank;
    if (executor) workers.back()->virtual_clock = executor->clock();
  }
  for (auto& w : workers) {
    w->prepared.resize(workers.size());
    w->prepared_queues.resize(workers.size());
    w->seen_turns.resize(workers.size());
    w->turns_then.resize(workers.size());
    w->handing = std::vector<std::atomic<handed_ring*>>(workers.size());
    // An observer sees each switch; in a simulation chance decides.
    w->polls = has_events(*w);
    w->full_switch_budget = executor || cfg.observer ? 0 : steps_in_a_row;
    w->random = 2463534242u + 7919u * static_cast<unsigned>(w->index);
  }
  register_core(*this);
  if (executor)
    executor->attach(*this);
  else
    for (auto& w : workers) {
      w->deque.reserve();
      w->timers.wheel = std::make_unique<timer_wheel>();
      w->timers.wheel->reserve();
    }
  spin = cfg.spin;
  if (cfg.spin.count() < 0) spin = std::chrono::microseconds(cfg.workers > 1 && cfg.workers <= usable_cpus() ? 50 : 0);
}

scheduler_core::~scheduler_core() {
  // acquire: pairs with the release of the last visitor. It is a few instructions from its end.
  while (parking.visitors.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  scheduler_extension* left = nullptr;
  {
    const std::lock_guard hold(schedulers_lock); // no dump looks at it any more
    left = extension.take();
  }
  if (left) left->ends();
  if (executor) executor->give_up_all(); // what waits in one of its schedulers may wait for something in another
  fibers.give_up();
  if (executor) fibers.return_simulated();
  // What never began.
  tasklet* none[1];
  const auto drop = [](runnable* x) {
    if (x && !x->is_fiber) delete static_cast<pending_fiber*>(x);
    return x != nullptr;
  };
  for (auto& w : workers)
    while (drop(w->queue.pop(run_queue::all)) || drop(w->queue.pop_bound(run_queue::all)) ||
           drop(w->queue.take_public(run_queue::all))) {
    }
  for (runnable* x = nullptr; outside.take(x, none, 1) > 0 || x; x = nullptr) drop(x);
  if (executor) executor->detach(*this);
  unregister_core(*this);
}

void scheduler_core::ready_elsewhere(runnable* x) noexcept {
  if (executor) {
    executor->ready(*this, x);
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
    parking.notify();
  }
}

void scheduler_core::ready_bound(runnable* x, const worker* by) noexcept {
  worker& target = *workers[static_cast<std::size_t>(x->worker)];
  if (&target == by) {
    target.queue.push_bound(x->level, x);
    return;
  }
  target.queue.send_bound(x->level, x);
  std::atomic_thread_fence(std::memory_order_seq_cst); // as in `notify`, for one sleeper
  if (target.spot.is_parked()) parking.wake(target);
}

void scheduler_core::yielded(fiber* f) noexcept {
  if (executor) {
    executor->ready(*this, f);
    return;
  }
  worker* w = this_worker();
  if (f->worker >= 0) [[unlikely]] {
    w->queue.push_bound(run_queue::yielded, f);
    return;
  }
  w->queue.push(run_queue::yielded, f);
  // Alone, it would go on here at once: no reason to wake a worker.
  if (w->queue.wanted() && w->queue.count() > 1) [[unlikely]]
    stealing.answer(*w);
}

void scheduler_core::begin_run(unique_function<void()> main, const std::source_location& made) {
  if (started.exchange(true, std::memory_order_acq_rel))
    throw error(errc::invalid_state, "scheduler::run was called twice", "make a new scheduler for another run");
  stealing.plan_victims();
  main_made = made;
  fibers.spawn(
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
  if (executor) {
    executor->expect_free();
    begin_run(std::move(main), made);
    scheduler_core* const alone[] = {this};
    executor->run(alone);
    return conclude();
  }
  begin_run(std::move(main), made);
  std::vector<std::thread> threads;
  const auto set_up_thread = [this](int index) {
    const auto i = static_cast<std::size_t>(index);
    name_this_thread(cfg.name + " w" + std::to_string(index));
    if (i < cfg.cpus.size() && !cfg.cpus[i].empty()) bind_this_thread(cfg.cpus[i]);
  };
  try {
    for (int i = cfg.poll_apart ? 0 : 1; i < cfg.workers; ++i)
      threads.emplace_back([this, i, set_up_thread] {
        const punctual sleeps;
        try {
          set_up_thread(i);
        } catch (const std::exception& e) { // a worker that is not bound is slower, not wrong
          log_warning(std::string("worker ") + std::to_string(i) + " runs unbound: " + e.what());
        }
        loop.work(*workers[static_cast<std::size_t>(i)]);
      });
  } catch (const std::system_error& e) {
    over.store(true, std::memory_order_seq_cst);
    parking.wake_all();
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
      loop.poll_apart();
    else
      loop.work(*workers[0]);
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
  if (const std::string circle = find_deadlock(*this); !circle.empty())
    throw error(errc::deadlock, circle,
                executor ? "seed " + std::to_string(executor->seed()) + " shows it again"
                         : "take locks in the same order everywhere");
  if (executor && !stopping.load(std::memory_order_relaxed))
    throw error(errc::deadlock, "main waits and nothing can run:" + describe_fibers(*this),
                "seed " + std::to_string(executor->seed()) + " shows it again");
  const std::size_t stuck = report_stuck();
  if (main_failed) std::rethrow_exception(main_failed);
  return stuck;
}

std::size_t scheduler_core::report_stuck() {
  std::vector<std::string> names;
  fibers.each_left([&](const fiber& f) {
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

std::int64_t scheduler_core::now() const noexcept {
  return executor ? executor->now() : std::chrono::steady_clock::now().time_since_epoch().count();
}

double scheduler_core::waited_seconds(const fiber& f) const noexcept {
  return seconds_since(f.waits_since.load(std::memory_order_relaxed));
}

double scheduler_core::seconds_since(std::int64_t since) const noexcept {
  return executor ? 1e-9 * static_cast<double>(executor->now() - since) : seconds_since_raw(since);
}

scheduler_core::hold_open::hold_open(scheduler_core& c) noexcept : core_(c) {
  const std::lock_guard hold(c.parking.freeze); // no worker ends the run between these two
  late_ = c.over.load(std::memory_order_seq_cst);
  if (!late_) c.parking.working_outside.fetch_add(1, std::memory_order_seq_cst);
}
// All may have parked because of it alone: a worker has to check whether that is the end.
scheduler_core::hold_open::~hold_open() {
  if (late_) return;
  core_.parking.working_outside.fetch_sub(1, std::memory_order_seq_cst);
  core_.parking.notify();
}

void scheduler_core::tell(const worker& w, worker_event e, std::uint64_t n) const noexcept {
  if (cfg.observer) cfg.observer->event(w.index, e, n);
  if (!trace::on()) return;
  fiber* const f = w.running;
  switch (e) {
  case worker_event::tasklets_begin: // in a runner, which may have been entered just now
    if (!f || (f->leave_flags & leave_flags::traced) == 0) break;
    if ((f->leave_flags & leave_flags::inside) == 0) trace_enters(*f);
    if (trace::detail::tasklets_begin()) f->leave_flags |= leave_flags::batch;
    break;
  case worker_event::tasklets_end:
    if (!f || (f->leave_flags & leave_flags::batch) == 0) break;
    f->leave_flags &= static_cast<std::uint8_t>(~leave_flags::batch);
    trace::detail::tasklets_end(n);
    break;
  case worker_event::steal:
    trace::detail::steals(n);
    break;
  case worker_event::park:
    trace::detail::parks();
    break;
  case worker_event::wake:
    trace::detail::wakes();
    break;
  case worker_event::fiber_begin: // see trace_enters and trace_leaves
  case worker_event::fiber_end:
    break;
  }
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
  core_->fibers.spawn(std::move(body), options, made);
}
void scheduler::notify() noexcept {
  const detail::scheduler_core::visit here(*core_);
  core_->parking.notify();
}
int scheduler::workers() const noexcept { return core_->cfg.workers; }
void* scheduler::context() const noexcept { return core_->cfg.context; }
std::size_t scheduler::live_fibers() const noexcept { return core_->fibers.live(); }
stack_report scheduler::stacks() const {
  auto& pool = core_->fibers.stacks;
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
  }
  sum.fibers = core_->fibers.started();
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
