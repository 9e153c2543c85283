// SPDX-License-Identifier: Apache-2.0
#include <tern/task/task_group.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include <tern/base/error.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern {
namespace detail {

struct group_failure {
  std::exception_ptr exception;
};

void group_state::keep_exception() noexcept {
  // relaxed: the waiter learns of it through `complete`, as of everything else that a tasklet did.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory to keep it, the program ends
  if (failed.fetch_add(1, std::memory_order_relaxed) == 0) failure = new group_failure{std::current_exception()};
  cancelled.store(true, std::memory_order_relaxed);
}

void group_state::wake() noexcept { sleeper->wake(); }

} // namespace detail

using detail::group_state;
using detail::tasklet;
using detail::worker;

task_group::task_group(scheduler& s, std::source_location made) noexcept
    : state_(scheduler::current() == &s ? nullptr : &s.inside(), made) {}

// From somewhere else than the owner's stack
// ---------------------------------------------------------------------------

task_group::outside_pool::outside_pool(group_state& g) : group_(g), worker_(detail::this_worker_base()) {
  core_ = g.home() ? g.home() : worker_ ? worker_->home : nullptr;
  if (!core_)
    throw error(errc::invalid_state, "task_group::run was called on a thread that is not a worker",
                "give the group its scheduler, task_group g(s), or spawn from inside scheduler::run", g.made);
  // Outside any fiber a worker cannot be suspended, so it uses the queue that never asks for that.
  if (worker_ && (worker_->home != core_ || !static_cast<worker*>(worker_)->running)) worker_ = nullptr;
}

tasklet* task_group::outside_pool::allocate(int kind) const {
  if (worker_) return worker_->allocate(kind);
  std::lock_guard hold(core_->outside_pool_lock);
  if (!core_->outside_pool) core_->outside_pool = std::make_unique<detail::worker>(core_, -1, core_->barrier.usable());
  return core_->outside_pool->allocate(kind);
}

void task_group::outside_pool::submit(tasklet* t) const {
  // Before it can complete. relaxed: the spawner is in the group, or calls before `wait`; so it
  // cannot seem done.
  group_.remote.fetch_sub(1, std::memory_order_relaxed);
  group_.counted_remotely.store(true, std::memory_order_relaxed);
  if (worker_) {
    worker_->push(t);
    return;
  }
  const detail::scheduler_core::visit here(*core_);
  core_->outside.push(t);
  core_->notify();
}

// In a causal context
// ---------------------------------------------------------------------------------------------------------------------

// Do the tasklets that are spawned from now on run in the causal context of the calling context?
// Not if there are some that run in another.
bool task_group::join_context() noexcept {
  detail::worker_head* const here = detail::this_worker_head();
  // acquire: thieves have read `causal` before they counted.
  if (!here->on_stack(state_.where) || state_.waited.load(std::memory_order_relaxed) ||
      (state_.out | state_.remote.load(std::memory_order_acquire)) != 0)
    return false;
  enter_context();
  return true;
}

void task_group::enter_context() noexcept {
  detail::held_context before = detail::held_context::adopt(state_.causal); // goes when the next one is held
  state_.causal = detail::this_causal_context();
  if (state_.causal) state_.causal->retain();
}

void task_group::leave_context() noexcept {
  if (detail::causal_context* const c = std::exchange(state_.causal, nullptr)) c->release();
}

// As `run`; this tasklet is counted by itself.
void task_group::run_in_context(unique_function<void()> f) {
  struct in_context {
    detail::held_context held;
    unique_function<void()> f;
    void operator()() {
      const detail::causal_scope in(held.get());
      f();
      f.reset(); // what it owns may cause something, too
    }
  };
  detail::with_closure(in_context{detail::held_context(detail::this_causal_context()), std::move(f)},
                       [this]<class C>(C&& closure) {
                         const outside_pool pool(state_);
                         detail::tasklet* t = pool.allocate(detail::closure_traits<std::remove_cvref_t<C>>::kind);
                         detail::fill_tasklet(t, state_, std::forward<C>(closure));
                         pool.submit(t);
                       });
}

group_status task_group::wait_in_context() {
  const detail::causal_scope in(state_.causal);
  return wait();
}

// Waiting
// --------------------------------------------------------------------------------------------------------------

void task_group::suspend() noexcept {
  group_state& g = state_;
  worker* w = detail::this_worker();
  // Those that were stolen may be about to end: a switch costs more than a moment.
  const int spins = w && w->home->cfg.workers > 1 ? 50 : 1;
  for (int i = 0; i < spins; ++i) {
    // acquire: what the tasklets wrote is ours to read.
    if (g.remote.load(std::memory_order_acquire) == g.out) {
      g.out = 0;
      g.remote.store(0, std::memory_order_relaxed);
      g.counted_remotely.store(false, std::memory_order_relaxed);
      return;
    }
    detail::relax();
  }
  detail::waiter self({detail::wait_kind::group, this});
  g.sleeper = &self;
  if (w && w->running) // counted once this stack has been left: a thief may resume it at once
    detail::leave(
        [](detail::fiber* f, void* p) {
          if (static_cast<group_state*>(p)->count_over()) f->home->ready(f);
        },
        &g);
  else if (!g.count_over())
    self.sleep();
  g.out = 0;
  g.remote.store(0, std::memory_order_relaxed);
  g.counted_remotely.store(false, std::memory_order_relaxed);
}

void task_group::drain() noexcept {
  worker* w = detail::this_worker();
  const bool near = w && w->on_stack(state_.where); // where it lies does not change, wherever we go on
  std::int64_t ran = 0;                             // here; counted at the end, since no other context waits
  while (w && w->running && (!state_.home() || w->home == state_.home())) {
    tasklet* t = w->pop();
    if (!t) break;
    if (t->group != &state_) {
      w->unpop(t);
      break;
    }
    w = static_cast<worker*>(t->run(t));
    ++ran;
    if (w->budget_exhausted()) w = static_cast<worker*>(w->yield_to_others());
  }
  if (near)
    state_.out -= ran;
  else if (ran > 0)
    state_.remote.fetch_add(ran, std::memory_order_acq_rel);
  if (state_.remote.load(std::memory_order_acquire) != 0 || (near && state_.out != 0)) suspend();
  state_.counted_remotely.store(false, std::memory_order_relaxed);
}

group_status task_group::wait_elsewhere() {
  worker* w = detail::this_worker();
  if (w && !w->running)
    throw error(errc::invalid_state, "task_group::wait was called outside any fiber, where nothing can be suspended",
                "event sources and work sources must not block: spawn a fiber that waits", state_.made);
  const bool inside = w && w->running->group.load(std::memory_order_relaxed) == &state_;
  if (inside || state_.waited.exchange(true, std::memory_order_relaxed))
    throw error(errc::invalid_state,
                inside ? "task_group::wait was called from one of the group's own tasklets: it would wait for itself"
                       : "task_group::wait was called while the group is being waited for, perhaps from one of its own "
                         "tasklets, which would wait for itself",
                "use another group for what the tasklet spawns, or return and let the waiter wait", state_.made);
  {
    const detail::causal_scope in(state_.causal);
    drain();
  }
  leave_context();
  state_.waited.store(false, std::memory_order_relaxed);
  return state_.cancelled.load(std::memory_order_relaxed) ? conclude() : group_status::complete;
}

group_status task_group::conclude() {
  state_.cancelled.store(false, std::memory_order_relaxed);
  const std::uint32_t failed = state_.failed.exchange(0, std::memory_order_relaxed);
  state_.failed_before = static_cast<std::uint16_t>(std::min<std::uint32_t>(failed, 65535));
  if (failed == 0) return group_status::cancelled;
  const std::unique_ptr<detail::group_failure> first(state_.failure);
  std::rethrow_exception(first->exception);
}

// Ends what has begun, drops the rest, and forgets what was thrown.
void task_group::give_up() noexcept {
  cancel();
  {
    const detail::causal_scope in(state_.causal);
    drain();
  }
  leave_context();
  if (state_.failed.exchange(0, std::memory_order_relaxed) > 0) delete state_.failure;
  state_.cancelled.store(false, std::memory_order_relaxed);
}

void task_group::abandon() {
  const bool unwinding = std::uncaught_exceptions() > 0;
  give_up();
  if (!unwinding)
    throw error(errc::invalid_state, "a task_group was destroyed before its tasklets were waited for",
                "call wait before the group's scope ends; tasklets that had not begun were dropped", state_.made);
}

} // namespace tern
