// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fork and join: tasklets, which are small pieces of work that any worker may run, and
/// groups that wait for them.
///
///     long fib(int n) {
///       if (n < 2) return n;
///       long a, b;
///       tern::task_group g;
///       g.run([&a, n] { a = fib(n - 1); }); // may run elsewhere
///       b = fib(n - 2);                     // runs here
///       g.wait();
///       return a + b;
///     }
///
/// A tasklet costs a few nanoseconds, so make them as small as is convenient. It may block, spawn
/// and wait like any other code inside a fiber.

#include <cstddef>
#include <source_location>
#include <type_traits>
#include <utility>

#include <tern/base/unique_function.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/tasklet/tasklet.hpp>

namespace tern {

/// How a group ended.
enum class group_status {
  complete, ///< every tasklet has run
  cancelled ///< `cancel` was called: tasklets that had not begun were dropped
};

/// A set of tasklets that are waited for together.
///
/// Waiting runs the group's own tasklets on the waiter's stack, and suspends the fiber when none is
/// left here; it never runs other work on that stack, so what a tasklet blocks on can always go on.
/// `run` is a scheduling point too: a fiber that has spawned very many tasklets is suspended until
/// some have run. So hold no `std::mutex` over either (a `tern::mutex` is fine).
///
/// Threads: one context makes and waits; besides it, the group's own tasklets may call `run`,
/// `async`, `cancel`, `cancelled` at any time, and any thread `cancel` and `cancelled`. On a thread
/// that is no worker, give the scheduler to the constructor; waiting then blocks the thread. A
/// group on the stack of the fiber that uses it is the fastest. After `wait` the group is as new.
class task_group {
public:
  explicit task_group(std::source_location made = std::source_location::current()) noexcept : state_(nullptr, made) {}
  /// Works on any thread; on a thread that is no worker of `s` its tasklets go through a queue that
  /// `s`'s workers look at.
  /// \pre `s.run` does not return before `wait` does.
  explicit task_group(scheduler& s, std::source_location made = std::source_location::current()) noexcept;
  /// \throws error(invalid_state) if there are tasklets that were not waited for, naming the place
  /// where the group was made, after it has cancelled and waited for them. While an exception
  /// unwinds the stack it does that in silence.
  ~task_group() noexcept(false) {
    if ((state_.out | state_.remote.load(std::memory_order_relaxed)) != 0 ||
        state_.counted_remotely.load(std::memory_order_relaxed)) [[unlikely]]
      abandon();
    if (state_.causal) [[unlikely]]
      leave_context();
  }
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Spawns a tasklet that calls `f()`. What `f` returns is ignored; what it throws, `wait` throws.
  /// \throws error(invalid_state) on a thread that is no worker if no scheduler was given; what
  /// copying `f` throws.
  template <class F> void run(F&& f) {
    static_assert(std::is_invocable_v<std::decay_t<F>&>, "a tasklet is called without arguments");
    detail::with_closure(std::forward<F>(f), [this]<class C>(C&& closure) {
      constexpr int kind = detail::closure_traits<std::remove_cvref_t<C>>::kind;
      detail::worker_head* here = detail::this_worker_head();
      if (here->causal != state_.causal) [[unlikely]] {
        if (!join_context()) return run_in_context(std::forward<C>(closure));
        here = detail::this_worker_head();
      }
      if (!here->on_stack(state_.where)) [[unlikely]] {
        const outside_pool pool(state_);
        detail::tasklet* t = pool.allocate(kind);
        detail::fill_tasklet(t, state_, std::forward<C>(closure));
        pool.submit(t);
        return;
      }
      auto* w = static_cast<detail::worker_base*>(here);
      detail::tasklet* t = w->allocate(kind);
      detail::fill_tasklet(t, state_, std::forward<C>(closure));
      ++state_.out;
      // A copy or move that suspends may have brought us elsewhere.
      if constexpr (!std::is_trivially_copyable_v<std::remove_cvref_t<C>>)
        w = static_cast<detail::worker_base*>(detail::this_worker_head());
      w->push(t);
    });
  }

  /// As `run`, with a handle: a future of what `f` returns or throws. Its exception does not reach
  /// `wait` and cancels nothing. Waiting for the handle suspends, and does not end the need to wait
  /// for the group.
  template <class F, class R = std::invoke_result_t<std::decay_t<F>&>>
  future<R> async(F&& f, std::source_location made = std::source_location::current()) {
    promise<R> p(made);
    auto result = p.get_future();
    run([p = std::move(p), f = std::forward<F>(f)]() mutable { fulfil(p, f); });
    return result;
  }

  /// Returns when all tasklets have ended. Rethrows the first exception that one of them threw (the
  /// others are counted: `failures`); the first one cancels the group.
  /// \throws error(invalid_state), at once, if called from one of the group's own tasklets, which
  /// would wait for itself, or while another context waits.
  [[gnu::always_inline]] group_status wait() { // compilers leave it out of line in large files: 13 % of a spawn
    detail::worker_head* here = detail::this_worker_head();
    if (!here->on_stack(state_.where) || state_.waited.load(std::memory_order_relaxed)) [[unlikely]]
      return wait_elsewhere();
    if (here->causal != state_.causal) [[unlikely]]
      return wait_in_context();
    auto* w = static_cast<detail::worker_base*>(here);
    state_.waited.store(true, std::memory_order_relaxed);
    while (state_.out > 0) {
      bool sure = false;
      detail::tasklet* t = w->deque.pop_fast(sure);
      if (!sure) [[unlikely]] {
        t = w->pop_slow();
        if (!t) break;
      }
      if (t->group != &state_) [[unlikely]] { // not ours: it may block on what we hold
        w->unpop(t);
        break;
      }
      --state_.out;
      w = t->run(t);
      if (w->budget_exhausted()) [[unlikely]]
        w = w->yield_to_others();
    }
    if ((state_.out | state_.remote.load(std::memory_order_acquire)) != 0) [[unlikely]]
      suspend();
    // Others may have counted and come out even without us, if we ran on a worker of theirs in
    // between.
    state_.counted_remotely.store(false, std::memory_order_relaxed);
    state_.waited.store(false, std::memory_order_relaxed);
    if (state_.causal) [[unlikely]]
      leave_context();
    if (state_.cancelled.load(std::memory_order_relaxed)) [[unlikely]]
      return conclude();
    return group_status::complete;
  }
  /// Calls `f()` here, then waits, also if it throws.
  /// \throws what `f` throws, else as `wait`.
  template <class F> group_status run_and_wait(F&& f) {
    try {
      std::forward<F>(f)();
    } catch (...) {
      give_up();
      throw;
    }
    return wait();
  }

  /// Drops the tasklets that have not begun. Those that run may ask `cancelled`. Does not reach
  /// into groups that they made. Any thread.
  void cancel() noexcept { state_.cancelled.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return state_.cancelled.load(std::memory_order_relaxed); }
  /// How many tasklets had thrown when the last `wait` threw; at most 65,535.
  std::size_t failures() const noexcept { return state_.failed_before; }

private:
  friend class task_graph; // its nodes are the tasklets of a group

  /// Where all others get their tasklets.
  class outside_pool {
  public:
    /// \throws error(invalid_state) on a foreign thread if the group knows no scheduler.
    explicit outside_pool(detail::group_state& g);
    detail::tasklet* allocate(int kind) const;
    void submit(detail::tasklet* t) const;

  private:
    detail::group_state& group_;
    detail::worker_base* worker_; // null: the scheduler's shared one is used
    detail::scheduler_core* core_;
  };

  group_status wait_elsewhere();
  group_status wait_in_context();
  bool join_context() noexcept;
  void enter_context() noexcept;
  void leave_context() noexcept;
  void run_in_context(unique_function<void()> f);
  void suspend() noexcept;
  group_status conclude();
  void drain() noexcept;
  void give_up() noexcept;
  void abandon();

  detail::group_state state_;
};

/// Calls all functions, perhaps at the same time, and returns when all have ended; the first runs
/// here.
/// \throws the first exception that one of them threw.
template <class F, class... More> void parallel_invoke(F&& first, More&&... more) {
  task_group g;
  (g.run([&more] { more(); }), ...);
  g.run_and_wait(first);
}

} // namespace tern
