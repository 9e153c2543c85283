// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A tasklet, the memory it lives in, the group it belongs to, and the part of a worker that
/// spawning and waiting need: all that is inlined into user code.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/fiber/worker_head.hpp>
#include <tern/task/tasklet/split_deque.hpp>

namespace tern::detail {

struct worker_base;
struct tasklet;
struct scheduler_core;
struct group_failure;
class waiter;

/// What a group's tasklets need of it.
///
/// Counting. A context on whose stack the group lies counts what it spawns and what it runs itself
/// in `out`, without atomics: no other thread touches it. All others (thieves, tasklets that spawn
/// into their own group, foreign threads) count in `remote`: plus one for each tasklet that they
/// ran, minus one for each that they spawned. All is done when `remote == out`. A waiter that gives
/// up its stack moves `out` over into `remote` and marks it with `waiting_mark`; the context that
/// then brings the sum to zero wakes it.
struct group_state {
  std::int64_t out = 0;
  std::atomic<std::int64_t> remote{0};
  std::atomic<bool> cancelled{false};
  std::atomic<bool> waited{false};           // a context is in wait()
  std::atomic<bool> counted_remotely{false}; // since the last wait; `remote` alone may be back at zero
  std::uint16_t failed_before = 0;           // as `failed`, when the last wait that threw ended; at most 65535
  std::atomic<std::uint32_t> failed{0};      // tasklets that threw
  // The group itself, or the scheduler that it was given and that is not the constructing worker's.
  // So one comparison tells whether it lies on a stack and belongs to the fiber that runs there.
  const void* where;
  waiter* sleeper; // set once a context suspends
  std::source_location made;
  group_failure* failure; // the first of them; set if there is one
  // The causal context that its tasklets run in, retained while there are any. Null: none, or each
  // tasklet has its own. Changes only while there are none.
  causal_context* causal = nullptr;

  static constexpr std::int64_t waiting_mark = std::int64_t{1} << 62;

  group_state(scheduler_core* home, std::source_location place) noexcept
      : where(home ? static_cast<const void*>(home) : this), made(place) {}
  /// The scheduler that was given; null if none.
  scheduler_core* home() const noexcept {
    return where == this ? nullptr : static_cast<scheduler_core*>(const_cast<void*>(where));
  }
  /// `n` tasklets have been run by others than the waiter. The group may be gone afterwards. Any
  /// worker.
  void complete(std::int64_t n) noexcept {
    // acq_rel: what the tasklets wrote is visible to the waiter, through all that count.
    if (remote.fetch_add(n, std::memory_order_acq_rel) + n == waiting_mark) wake();
  }
  /// The waiter moves its own count over.
  /// \return true if nothing is left to wait for: the last to count wakes.
  bool count_over() noexcept {
    const std::int64_t n = out; // the group may be gone once it is counted
    return remote.fetch_add(waiting_mark - n, std::memory_order_acq_rel) == n;
  }
  void wake() noexcept;
  /// Keeps the current exception if it is the first, counts it, and cancels what has not started.
  void keep_exception() noexcept;
};

/// The head of a piece of work; its closure follows. `run` runs the closure unless the group is
/// cancelled, destroys it, gives the memory back, and returns the worker that it ends on: a body
/// may have moved.
struct alignas(16) tasklet {
  using run_function = worker_base* (*)(tasklet*) noexcept;
  run_function run = nullptr;
  union {
    group_state* group;
    tasklet* next; // in a list of free ones
  };
};
static_assert(sizeof(tasklet) == 16);

constexpr std::size_t tasklet_bytes[2] = {64, 128}; ///< with the head; larger closures live on the heap
constexpr std::size_t slab_bytes = std::size_t{16} * 1024;

/// A piece of memory, aligned to its size, cut into tasklets of one size for one worker.
struct slab {
  worker_base* owner;
  int kind;
  slab* older;
};
inline slab* slab_of(tasklet* t) noexcept {
  // address: the way to the head of the slab that it lies in
  return reinterpret_cast<slab*>(reinterpret_cast<std::uintptr_t>(t) & ~(slab_bytes - 1));
}

/// The part of a worker that user code sees.
struct worker_base : worker_head {
  worker_base(scheduler_core* core, bool fenceless) noexcept : home(core), deque(fenceless) {}
  ~worker_base();
  worker_base(const worker_base&) = delete;
  worker_base& operator=(const worker_base&) = delete;

  tasklet* allocate(int kind) {
    tasklet* t = free[kind];
    if (!t) [[unlikely]]
      return refill(kind);
    free[kind] = t->next;
    return t;
  }
  void release(tasklet* t, int kind) noexcept {
    slab* s = slab_of(t);
    if (s->owner != this) [[unlikely]] {
      release_remote(t, *s);
      return;
    }
    t->next = free[kind];
    free[kind] = t;
  }
  /// May suspend the calling fiber, if very much is waiting: afterwards it may be on another
  /// worker.
  void push(tasklet* t) {
    if (deque.push(t)) [[unlikely]]
      push_slow();
  }
  tasklet* pop() noexcept {
    bool sure = false;
    tasklet* t = deque.pop_fast(sure);
    return sure ? t : pop_slow();
  }

  /// Counts the tasklets that run here one after the other.
  /// \return true if others should have a turn.
  bool budget_exhausted() noexcept { return --tasklet_budget <= 0 && renew_budget(); }
  bool renew_budget() noexcept;
  /// The running fiber lets others run, if there are any.
  /// \return the worker on which it goes on.
  worker_base* yield_to_others() noexcept;

  tasklet* refill(int kind);
  void release_remote(tasklet* t, const slab& s) noexcept;
  /// Sends home the tasklets of another worker that were run here.
  void flush_returns() noexcept;
  /// Publishes, wakes, and pauses the spawner if the deque is crowded.
  void push_slow();
  /// Is some worker searching or asleep?
  bool any_worker_idle() const noexcept;
  tasklet* pop_slow() noexcept;
  /// Puts the last popped one back.
  void unpop(tasklet* t) noexcept;

  scheduler_core* home;
  int tasklet_budget = 1;
  tasklet* free[2] = {nullptr, nullptr};
  // Tasklets of another worker that were run here, going home in one chain.
  tasklet *back_first = nullptr, *back_last = nullptr;
  worker_base* back_to = nullptr;
  int back_kind = 0, back_count = 0;
  slab* slabs = nullptr;
  alignas(64) std::atomic<tasklet*> returned[2] = {nullptr, nullptr}; // by others
  split_deque deque;
};

/// The worker that the calling thread is, or null.
inline worker_base* this_worker_base() noexcept {
  worker_head* w = this_worker_head();
  return w == &no_worker ? nullptr : static_cast<worker_base*>(w);
}

/// Runs a closure for a group and keeps what it throws.
template <class F> void run_closure(group_state& g, F& f) noexcept {
  if (g.cancelled.load(std::memory_order_relaxed)) [[unlikely]]
    return; // a hint: too late is not wrong
  try {
    f();
  } catch (...) {
    g.keep_exception();
  }
}

/// How a closure is kept: in a tasklet's memory if it fits and moves without throwing, else on the
/// heap.
template <class F> struct closure_traits {
  static constexpr bool movable = alignof(F) <= alignof(tasklet) && std::is_nothrow_move_constructible_v<F>;
  static constexpr int kind = sizeof(F) <= tasklet_bytes[0] - sizeof(tasklet) ? 0 : 1;
  static constexpr bool boxed = !movable || sizeof(F) > tasklet_bytes[1] - sizeof(tasklet);
};

template <class F> struct boxed_closure {
  std::unique_ptr<F> f;
  void operator()() { (*f)(); }
};

template <class F> worker_base* run_tasklet(tasklet* t) noexcept {
  F* f = std::launder(reinterpret_cast<F*>(t + 1));
  run_closure(*t->group, *f);
  f->~F();
  auto* w = static_cast<worker_base*>(this_worker_head()); // the body may have moved
  w->release(t, closure_traits<F>::kind);
  return w;
}

/// Puts a closure into memory from `allocate(closure_traits<F>::kind)`.
template <class F> void fill_tasklet(tasklet* t, group_state& g, F&& f) noexcept {
  using closure = std::remove_cvref_t<F>;
  static_assert(std::is_nothrow_constructible_v<closure, F> && !closure_traits<closure>::boxed);
  ::new (static_cast<void*>(t + 1)) closure(std::forward<F>(f));
  t->run = run_tasklet<closure>;
  t->group = &g;
}

/// Calls `use` with a closure that `fill_tasklet` takes: `f` itself, a copy of it, or a box around
/// it. What may throw happens here, before memory is taken.
template <class F, class Use> void with_closure(F&& f, Use&& use) {
  using closure = std::decay_t<F>;
  if constexpr (closure_traits<closure>::boxed)
    use(boxed_closure<closure>{std::make_unique<closure>(std::forward<F>(f))});
  else if constexpr (std::is_function_v<std::remove_reference_t<F>>)
    use(static_cast<closure>(f));
  else if constexpr (std::is_nothrow_constructible_v<closure, F>)
    use(std::forward<F>(f));
  else
    use(closure(std::forward<F>(f)));
}

} // namespace tern::detail
