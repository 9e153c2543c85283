// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The inside of a scheduler: its settings, its workers, and one object for each of its
/// concerns. Internal.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include <tern/task/boundary/dropped_failures.hpp>
#include <tern/task/boundary/extension.hpp>
#include <tern/task/boundary/virtual_executor.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/activations.hpp>
#include <tern/task/scheduler/fiber_supply.hpp>
#include <tern/task/scheduler/parking.hpp>
#include <tern/task/scheduler/quiescence.hpp>
#include <tern/task/scheduler/runner_pool.hpp>
#include <tern/task/scheduler/stealing.hpp>
#include <tern/task/scheduler/timer_queue.hpp>
#include <tern/task/scheduler/worker_loop.hpp>
#include <tern/task/worker/outside_queue.hpp>
#include <tern/task/worker/worker.hpp>

namespace tern::sim::detail {
struct member_state;
} // namespace tern::sim::detail

namespace tern::detail {

struct scheduler_core {
  /// While a thread that is no worker of this scheduler hands it something.
  class visit {
  public:
    explicit visit(scheduler_core& c) noexcept : core_(c) {
      core_.parking.visitors.fetch_add(1, std::memory_order_relaxed);
    }
    // release: pairs with the acquire of the destructor that waits.
    ~visit() { core_.parking.visitors.fetch_sub(1, std::memory_order_release); }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

  private:
    scheduler_core& core_;
  };

  /// While a thread that is no worker of this scheduler does what may make anything ready: the run
  /// does not end meanwhile, unless it has already.
  /// \pre the core lives as long.
  class hold_open {
  public:
    explicit hold_open(scheduler_core& c) noexcept;
    ~hold_open();
    hold_open(const hold_open&) = delete;
    hold_open& operator=(const hold_open&) = delete;
    bool too_late() const noexcept { return late_; }

  private:
    scheduler_core& core_;
    bool late_;
  };

  /// While the calling fiber waits for a thread of Tern's that works for it: its scheduler has no
  /// end and no quiescence meanwhile.
  class awaits_thread {
  public:
    awaits_thread() noexcept : core_(*this_worker()->home) {
      core_.parking.working_outside.fetch_add(1, std::memory_order_seq_cst);
    }
    ~awaits_thread() { core_.parking.working_outside.fetch_sub(1, std::memory_order_seq_cst); }
    awaits_thread(const awaits_thread&) = delete;
    awaits_thread& operator=(const awaits_thread&) = delete;

  private:
    scheduler_core& core_;
  };

  explicit scheduler_core(scheduler::settings s);
  ~scheduler_core();
  scheduler_core(const scheduler_core&) = delete;
  scheduler_core& operator=(const scheduler_core&) = delete;

  /// It can run (again). Any thread. Inline: else a fiber's start takes 3 % more.
  [[gnu::always_inline]] void ready(runnable* x) noexcept {
    worker* w = this_worker();
    if (!w || w->home != this || x->worker >= 0 || executor) [[unlikely]] {
      ready_elsewhere(x);
      return;
    }
    w->queue.push(x->level, x);
    if (w->queue.wanted()) [[unlikely]]
      stealing.answer(*w);
  }
  /// A running fiber gives way: behind everything that is ready. On the worker that ran it.
  void yielded(fiber* f) noexcept;
  /// There is work that others may take. Any thread.
  void notify() noexcept { parking.notify(); }

  std::size_t run(unique_function<void()> main, const std::source_location& made);
  /// The first half of `run`: its main fiber is there; the last is `conclude`.
  void begin_run(unique_function<void()> main, const std::source_location& made);
  std::size_t conclude();

  /// Orders what was written before against what is read after, for the thread that passes
  /// `barrier` between its own write and read: one of the two sees what the other has written.
  void order_with_barrier() const noexcept {
    if (barrier.usable())
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  std::int64_t now() const noexcept; ///< on `fiber_clock`
  /// Of a moment of `ticks`. Any thread.
  double seconds_since(std::int64_t moment) const noexcept;
  double waited_seconds(const fiber& f) const noexcept;
  /// Does this worker look after the events?
  bool has_events(const worker& w) const noexcept { return w.index == 0 && cfg.events && !cfg.poll_apart; }
  /// For the observer, and the trace.
  void observe(const worker& w, worker_event e, std::uint64_t n = 0) const noexcept {
    if (watched) [[unlikely]]
      tell(w, e, n);
  }
  void tell(const worker& w, worker_event e, std::uint64_t n) const noexcept;

  scheduler* owner = nullptr;
  scheduler::settings cfg;
  std::string main_is;            // what the main fiber is called in reports; empty: where it was made
  std::source_location main_made; // of the main fiber
  const bool watched;             // by an observer, or recorded
  const asymmetric_barrier barrier;
  virtual_executor* executor = nullptr;        // of the simulation that this runs in
  sim::detail::member_state* member = nullptr; // this scheduler in it
  fiber_supply fibers;                         // before the workers: outlives them
  std::vector<std::unique_ptr<worker>> workers;
  std::chrono::nanoseconds spin; // how long to look for work before sleeping

  runner_pool runners{*this};
  timer_queue timers{*this};
  worker_loop loop{*this};
  work_stealing stealing{*this};
  detail::activations activations{*this};
  worker_parking parking{*this};
  quiescence_waiters quiescence{*this};
  alignas(64) outside_queue outside;
  // Tasklets for contexts that are no worker, under the lock; made when there is one, and never
  // runs.
  std::unique_ptr<worker> outside_pool;
  spin_lock outside_pool_lock;
  extension_slot extension;

  std::atomic<bool> started{false};  // `run` was called
  std::atomic<bool> stopping{false}; // main has ended
  std::atomic<bool> over{false};     // and nothing can run any more
  bool concluded = false;            // and its run is over
  std::exception_ptr main_failed;
  dropped_failures dropped;
  void (*tell_dropped)(void* context,
                       const std::string& text) noexcept = nullptr; // at once, if any layer wants to know
  std::string deadlock; // why the run was ended; under `parking.freeze`, then read after it

private:
  void ready_elsewhere(runnable* x) noexcept;
  void ready_bound(runnable* x, const worker* by) noexcept;
  std::size_t report_stuck();
};

} // namespace tern::detail
