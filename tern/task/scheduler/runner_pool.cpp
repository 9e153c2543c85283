// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/runner_pool.hpp>

#include <mutex>
#include <new>
#include <source_location>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

constexpr int most_idle_runners = 16; // of one worker

void to_idle_runners(fiber* f, void*) {
  worker* w = this_worker();
  if (w->idle_runner_count >= most_idle_runners) { // it began on another worker, which would make a new one each time
    w->home->runners.share(f);
    return;
  }
  ++w->idle_runner_count;
  f->next = w->idle_runners;
  w->idle_runners = f;
}

} // namespace

fiber* runner_pool::make() {
  auto loop = [this] { runner_loop(); };
  const unstarted_fiber s =
      core_.fibers.make(sizeof loop, alignof(decltype(loop)), {.name = runner_name}, std::source_location::current());
  ::new (s.closure) decltype(loop)(loop);
  s.self->body = run_body<decltype(loop)>;
  s.self->runner.store(true, std::memory_order_relaxed);
  s.self->joiner.store(fiber::detached, std::memory_order_relaxed);
  return s.self;
}

void runner_pool::share(fiber* f) noexcept {
  std::lock_guard hold(lock_);
  f->next = shared_runners;
  shared_runners = f;
  has_shared_runners.store(true, std::memory_order_relaxed);
}

fiber* runner_pool::idle(worker& w) noexcept {
  if (fiber* f = w.idle_runners) {
    w.idle_runners = static_cast<fiber*>(f->next);
    --w.idle_runner_count;
    return f;
  }
  if (!has_shared_runners.load(std::memory_order_relaxed)) return nullptr;
  std::lock_guard hold(lock_);
  fiber* f = shared_runners;
  if (f) shared_runners = static_cast<fiber*>(f->next);
  has_shared_runners.store(shared_runners != nullptr, std::memory_order_relaxed);
  return f;
}

fiber* runner_pool::any(worker& w) {
  if (fiber* const f = idle(w)) return f;
  try {
    return make();
  } catch (const std::exception& e) {
    if (core_.fibers.no_stack_comes(0, true)) {
      log_error(e.what());
      std::terminate();
    }
    core_.fibers.report_scarce(e);
    return nullptr;
  }
}

void runner_pool::run(worker& w, tasklet* t) {
  fiber* const runner = any(w);
  if (!runner) {
    w.unpop(t); // a fiber that ends gives its stack back
    return;
  }
  w.next_tasklet = t;
  enter(w, *runner);
}

// Tasklets that no context waits for on its own stack run here. A runner is an ordinary fiber: a
// tasklet that blocks suspends its runner, and the worker takes another one.
void runner_pool::runner_loop() {
  for (;;) {
    worker* w = this_worker();
    if (w->poll_runner == w->running)
      core_.cfg.events->run_in_fiber();
    else if (w->activation_runner == w->running)
      core_.activations.run_in_fiber(w);
    else
      run_batch(w, std::exchange(w->next_tasklet, nullptr));
    leave_to(nullptr, to_idle_runners, nullptr);
  }
}

void runner_pool::run_batch(worker* w, tasklet* t) {
  while (t) {
    group_state* const group = t->group;
    w->running->group.store(group, std::memory_order_relaxed);
    if (group->causal) [[unlikely]]
      set_causal_context(group->causal);
    core_.observe(*w, worker_event::tasklets_begin);
    std::int64_t n = 0;
    bool go_on = true;
    do { // those of one group that lie together are counted together
      w = static_cast<worker*>(t->run(t));
      ++n;
      go_on = !w->budget_exhausted() && !w->has_ready() &&
              !(w->queue.has_spawner() && w->deque.size() <= split_deque::low_watermark);
      t = go_on ? w->pop() : nullptr;
    } while (t && t->group == group);
    core_.observe(*w, worker_event::tasklets_end, static_cast<std::uint64_t>(n));
    w->running->group.store(nullptr, std::memory_order_relaxed);
    if (w->causal) [[unlikely]]
      set_causal_context(nullptr);
    group->complete(n);        // may be the last: the group is gone
    if (t && w->has_ready()) { // the waiter, which has waited longest
      w->unpop(t);
      t = nullptr;
    }
  }
}

bool runner_pool::run_events(worker& w) {
  fiber* const runner = any(w);
  if (!runner) return false;
  w.poll_runner = runner;
  w.entered.store(w.entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  core_.observe(w, worker_event::fiber_begin);
  enter(w, *runner);
  core_.observe(w, worker_event::fiber_end);
  w.poll_runner = nullptr;
  if (!runner->runner.load(std::memory_order_relaxed) || w.has_ready())
    core_.parking.found_work(w); // it waits, or has brought work
  return true;
}

} // namespace tern::detail
