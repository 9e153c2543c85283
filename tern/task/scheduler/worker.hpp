// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A worker: one OS thread that runs fibers and tasklets, and what belongs to it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/run_queue.hpp>
#include <tern/task/tasklet/tasklet.hpp>
#include <tern/task/wait/parking_spot.hpp>
#include <tern/task/wait/timer_wheel.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

/// Slow-path events since the start; written by one worker, read by anybody.
struct event_counts {
  std::atomic<std::uint64_t> steals{0}, stolen{0}, forced{0}, parks{0}, wakes{0}, pauses{0};
  static void add(std::atomic<std::uint64_t>& c, std::uint64_t n = 1) noexcept {
    c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

/// Written by one thread; read by others that do not mind an old value.
template <class T> class relaxed {
public:
  relaxed(T x) noexcept : value_(x) {} // NOLINT(google-explicit-constructor): stands for a T
  relaxed& operator=(T x) noexcept {
    value_.store(x, std::memory_order_relaxed);
    return *this;
  }
  operator T() const noexcept { return value_.load(std::memory_order_relaxed); } // NOLINT(google-explicit-constructor)
  T operator->() const noexcept { return *this; }

private:
  std::atomic<T> value_;
};

/// The timers that were set on a worker. Any worker may fire them.
struct alarm_clock {
  spin_lock guard;
  std::unique_ptr<timer_wheel> wheel;                 // under the guard; of a simulated worker made when needed
  std::atomic<std::int64_t> next{timer_wheel::never}; // when to look; changes under the guard
};

struct worker : worker_base {
  worker(scheduler_core* core, int number, bool biased)
      : worker_base(core, biased), index(number), box(biased && !tsan::enabled) {}
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  static constexpr std::uint32_t no_track = 0xffffff;
  const int index;
  std::uint32_t track = no_track; // of the trace
  relaxed<fiber*> running = nullptr;
  relaxed<int> thread = 0; // the kernel's number; 0: none, or a simulated worker
  // Fibers are entered straight from others that leave, so many times until the worker has a look at everything else.
  int budget = 0;
  bool polls = false;  // it looks after the events
  int full_budget = 0; // 0: never; the worker itself goes between any two
  // What the fiber that has just left its stack asked to be done.
  void (*after)(fiber*, void*) = nullptr;
  void* after_argument = nullptr;
  fiber* left = nullptr;
  exception_state* exceptions = nullptr; // the thread's
  int* error_number = nullptr;           // the thread's errno
  fiber* hint = nullptr;                 // to go on next, if it stands in our queue: see start_now
  fiber* pool = nullptr;                 // free ones of the default size, through fiber::next
  unsigned pool_count = 0;
  relaxed<unsigned> pool_most = 128;           // it keeps fewer than so many; 1 when stacks are scarce
  std::uint64_t serial = 0;                    // of the fibers made here
  std::atomic<std::uint64_t> born{0}, died{0}; // here; written by this worker only
  stack_context root;                          // the thread's own stack

  fiber* errands = nullptr;      // on worker 0: the runner that does what the events want done
  tasklet* handed = nullptr;     // to the runner that is entered next
  fiber* idle_runners = nullptr; // stack of runners without work, through fiber::next
  int idle_runner_count = 0;
  int breath_length = 1; // tasklets between two looks at the clock
  double slice_began = 0;
  fiber* comes_back = nullptr; // that gave way to the events only
  bool fair = false;           // those that others run before shall have a turn
  unsigned fair_turns = 0;
  std::atomic<std::uint64_t> entered{0}; // fibers, by the worker itself
  std::atomic<unsigned> turns{0};        // written by this worker only: that it moves shows that it is in no long body
  std::vector<unsigned> seen_turns;      // of the others
  double hidden_since = 0; // when somebody was first seen to have nothing but private tasklets; 0: not now
  unsigned random = 0;     // choice of victims
  bool searching = false;  // counted in scheduler_core::searching
  bool roused = false;     // how the last sleep ended
  std::vector<std::vector<worker*>> victims; // nearest first
  std::vector<std::uint64_t> prepared;       // for split_deque::force, one for each worker
  tasklet* loot[split_deque::most_stolen] = {};
  int seen_private = 0;           // looks in a row, while searching, at which some box had nothing but private fibers
  std::int64_t looked_around = 0; // ticks() at the last step
  int timers_in = 0;              // steps until the next look at the timers
  std::vector<std::uint32_t> prepared_boxes; // for fiber_box::force, one for each worker
  event_counts counts;

  fiber_box box;
  alarm_clock alarms;
  bed sleep;

  /// Is all empty that comes before fibers which have given way?
  bool nothing_else() const noexcept;
  bool has_ready() const noexcept { return has(fiber_box::soon); }
  bool has_fibers() const noexcept { return has(fiber_box::all) || box.has_spawner(); }
  void flush_returns() noexcept;
  /// All that it keeps for itself, to the others.
  void give_stacks() noexcept;

private:
  bool has(unsigned kinds) const noexcept { return box.has(kinds) || box.has_public(kinds) || box.has_bound(kinds); }
};

inline worker* this_worker() noexcept { return static_cast<worker*>(this_worker_base()); }
void set_this_worker(worker* w) noexcept;

} // namespace tern::detail
