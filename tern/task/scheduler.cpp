// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler.hpp>

#include <algorithm>
#include <utility>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/task/detail/core.hpp>
#include <tern/task/detail/sanitizer.hpp>

namespace tern {
namespace detail {
namespace {

// How often a busy worker 0 looks at its source: between two fibers, but not between every two.
constexpr unsigned fibers_per_poll = 8;
// Nobody needs waking this often; it bounds the damage if an outside wake-up were ever lost.
constexpr std::chrono::milliseconds longest_sleep{50};

void make_yielded(fiber* f, void*) { f->home->yielded(f); }

} // namespace

scheduler_core::scheduler_core(scheduler::settings s)
    : cfg(std::move(s)), stacks(cfg.stack_bytes), workers(static_cast<std::size_t>(cfg.workers)) {
  for (int i = 0; i < cfg.workers; ++i) {
    workers[static_cast<std::size_t>(i)].home = this;
    workers[static_cast<std::size_t>(i)].index = i;
  }
}

scheduler_core::~scheduler_core() {
  for (fiber* f : spare) delete f;
  // Their closures may own promises that others of them wait for: waking needs all of them alive.
  for (fiber* f = newest; f; f = f->older) f->body.reset();
  while (newest) { // stuck fibers: their stacks are given up without unwinding, as `run` promises
    fiber* f = newest;
    newest = f->older;
    tsan::destroy_fiber(f->memory.tsan_fiber);
    delete f;
  }
}

void scheduler_core::spawn(unique_function<void()> body, std::string name) {
  std::unique_lock hold(lock);
  std::unique_ptr<fiber> f;
  if (spare.empty()) {
    f = std::make_unique<fiber>();
    const std::size_t all = live.load(std::memory_order_relaxed) + 1;
    if (spare.capacity() < all) spare.reserve(2 * all); // so that `finished` need not allocate
    f->home = this;
  } else {
    f.reset(spare.back());
    spare.pop_back();
  }
  f->body = std::move(body);
  f->name = std::move(name);
  f->exceptions = {};
  f->fake_stack = nullptr;
  f->memory = {}; // the stack comes with the first run: thousands of fibers may queue, few are begun at once
  f->newer = nullptr;
  f->older = newest;
  if (newest) newest->newer = f.get();
  newest = f.get();
  live.fetch_add(1, std::memory_order_relaxed); // only ever changed under the lock
  ready_queue.push(f.release());
  wake_one(hold);
}

void scheduler_core::ready(fiber* f) {
  std::unique_lock hold(lock);
  ready_queue.push(f);
  wake_one(hold);
}

void scheduler_core::yielded(fiber* f) {
  std::unique_lock hold(lock);
  yield_queue.push(f);
  wake_one(hold);
}

void scheduler_core::finished(fiber* f) noexcept {
  std::lock_guard hold(lock);
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

// Called with the lock held, releases it. Wakes a sleeping worker if there is one; an awake one looks at the queues
// before it sleeps, under this lock, so nothing is lost.
void scheduler_core::wake_one(std::unique_lock<std::mutex>& hold) {
  // A worker that was notified and has not got the lock yet still counts as parked, but is spoken for.
  const bool worker_sleeps = parked > notified, source_sleeps = source_asleep;
  if (worker_sleeps) ++notified;
  // A caller that is no worker of ours may be all that is left of the run by the time it notifies: keep the lock then.
  if (worker* w = this_worker(); w && w->home == this) hold.unlock();
  if (worker_sleeps)
    wake.notify_one();
  else if (source_sleeps)
    cfg.source->wake();
}

fiber* scheduler_core::next(worker& w, fiber_queue& queue) {
  std::lock_guard hold(lock);
  // Worker 0 leaves fibers to a sleeping colleague, who has been or is being notified of them: a long one here would
  // keep the network waiting.
  if (w.index == 0 && cfg.source && parked > notified) return nullptr;
  fiber* f = queue.pop();
  if (!f) return nullptr;
  ++busy;
  if (!f->memory.low) ++begun;
  return f;
}

bool scheduler_core::begin(fiber* f) {
  try {
    prepare(*f, stacks);
    return true;
  } catch (const error& e) {
    std::lock_guard hold(lock);
    --busy;
    // Those that have a stack will give it back, unless all of them wait for this one.
    if (--begun == 0) {
      log_error(e.what());
      std::terminate();
    }
    yield_queue.push(f);
    return false;
  }
}

void scheduler_core::work(worker& w) {
  worker* const outer = this_worker(); // of a run that this one is nested in
  set_this_worker(&w);
  w.tsan_fiber = tsan::current_fiber();
  work_source* source = w.index == 0 ? cfg.source : nullptr;
  unsigned since_poll = 0, since_yielded = 0;
  for (;;) {
    if (source && ++since_poll >= fibers_per_poll) {
      since_poll = 0;
      source->poll();
    }
    fiber* f = nullptr;
    if (++since_yielded >= 64) { // else fibers that make each other ready would starve those that gave way
      since_yielded = 0;
      f = next(w, yield_queue);
    }
    if (!f) f = next(w, ready_queue);
    if (!f && source && source->poll()) {
      since_poll = 0;
      continue;
    }
    // Those that gave way come last, behind the source too: they may be waiting for just what it brings.
    if (!f) f = next(w, yield_queue);
    if (f && !f->memory.low && !begin(f)) continue;
    if (f) {
      enter(w, *f);
      std::unique_lock hold(lock);
      // The last one to come to rest lets the others see that all is done.
      if (--busy == 0 && stopping) {
        hold.unlock();
        wake.notify_all();
        if (cfg.source) cfg.source->wake();
      }
      continue;
    }
    {
      std::unique_lock hold(lock);
      if (stopping && busy == 0 && ready_queue.empty() && yield_queue.empty()) break;
    }
    idle(w);
  }
  {
    // Whoever leaves first passes it on: a worker may have gone to sleep between the last notify and now.
    std::lock_guard hold(lock);
    wake.notify_all();
  }
  if (cfg.source && w.index != 0) cfg.source->wake();
  set_this_worker(outer);
}

void scheduler_core::idle(worker& w) {
  work_source* source = w.index == 0 ? cfg.source : nullptr;
  const double until = steady_seconds() + std::chrono::duration<double>(cfg.spin).count();
  while (steady_seconds() < until) {
    if (source && source->poll()) return;
    std::unique_lock hold(lock, std::try_to_lock);
    if (hold.owns_lock() && (!ready_queue.empty() || !yield_queue.empty())) return;
    if (hold.owns_lock() && stopping) break;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  std::unique_lock hold(lock);
  const auto nothing = [&] { return ready_queue.empty() && yield_queue.empty() && !(stopping && busy == 0); };
  if (!nothing()) return;
  if (source) {
    source_asleep = true;
    hold.unlock();
    source->wait(longest_sleep);
    hold.lock();
    source_asleep = false;
  } else {
    ++parked;
    while (nothing()) {
      wake.wait(hold);
      if (notified > 0) --notified; // also when somebody else took the fiber: else we would sleep on as "notified"
    }
    --parked;
  }
}

std::size_t scheduler_core::run(unique_function<void()> main) {
  {
    std::lock_guard hold(lock);
    if (std::exchange(started, true))
      throw error(errc::invalid_state, "scheduler::run was called twice", "make a new scheduler for another run");
  }
  spawn(
      [this, body = std::move(main)]() mutable {
        try {
          body();
        } catch (...) {
          main_failed = std::current_exception();
        }
        body.reset(); // what it captured may wait when it is destroyed
        std::lock_guard hold(lock);
        stopping = true;
      },
      "main");
  std::vector<std::thread> threads;
  const auto dress = [this](int index) {
    const auto i = static_cast<std::size_t>(index);
    name_this_thread(cfg.name + " w" + std::to_string(index));
    if (i < cfg.cpus.size() && !cfg.cpus[i].empty()) bind_this_thread(cfg.cpus[i]);
  };
  for (int i = 1; i < cfg.workers; ++i)
    threads.emplace_back([this, i, dress] {
      try {
        dress(i);
      } catch (const std::exception& e) { // a worker that is not bound is slower, not wrong
        log_warning(std::string("worker ") + std::to_string(i) + " runs unbound: " + e.what());
      }
      work(workers[static_cast<std::size_t>(i)]);
    });
  std::vector<int> unbound; // the calling thread is only lent: it gets its CPUs back
  if (!cfg.cpus.empty() && !cfg.cpus[0].empty()) {
    try {
      unbound = allowed_cpus();
      bind_this_thread(cfg.cpus[0]);
    } catch (const std::exception& e) {
      log_warning(std::string("worker 0 runs unbound: ") + e.what());
    }
  }
  work(workers[0]);
  for (auto& t : threads) t.join();
  if (!unbound.empty()) bind_this_thread(unbound);
  const std::size_t stuck = live.load(std::memory_order_relaxed);
  if (stuck) report_stuck();
  if (main_failed) std::rethrow_exception(main_failed);
  return stuck;
}

void scheduler_core::report_stuck() {
  std::string names;
  int shown = 0;
  for (fiber* f = newest; f && shown < 8; f = f->older, ++shown)
    names += (shown ? ", " : "") + (f->name.empty() ? std::string("(unnamed)") : f->name);
  log_warning(std::to_string(live.load(std::memory_order_relaxed)) +
              " fibers still wait at the end and are given up: " + names + (shown == 8 ? ", …" : ""));
}

} // namespace detail

struct scheduler::impl : detail::scheduler_core {
  using scheduler_core::scheduler_core;
};

scheduler::scheduler(settings s) {
  if (s.workers < 1)
    throw error(errc::invalid_argument, "a scheduler needs at least 1 worker, not " + std::to_string(s.workers),
                "set --tern-workers to 1 or more");
  impl_ = std::make_unique<impl>(std::move(s));
  impl_->owner = this;
}
scheduler::~scheduler() = default;

std::size_t scheduler::run(unique_function<void()> main) { return impl_->run(std::move(main)); }
void scheduler::spawn(unique_function<void()> body, std::string name) {
  impl_->spawn(std::move(body), std::move(name));
}
int scheduler::workers() const noexcept { return impl_->cfg.workers; }
void* scheduler::context() const noexcept { return impl_->cfg.context; }
std::size_t scheduler::live_fibers() const noexcept { return impl_->live.load(std::memory_order_relaxed); }

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
