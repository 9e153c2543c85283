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
#include <tern/task/tasklet/tasklet.hpp>
#include <tern/task/wait/parking_spot.hpp>
#include <tern/task/wait/timer_wheel.hpp>
#include <tern/task/wait/wait_list.hpp>
#include <tern/task/worker/activation_queue.hpp>
#include <tern/task/worker/handed_ring.hpp>
#include <tern/task/worker/run_queue.hpp>

namespace tern::detail {

/// Slow-path events since the start; written by one worker, read by any thread.
struct event_counts {
  std::atomic<std::uint64_t> steals{0}, stolen{0}, forced{0}, parks{0}, wakes{0}, pauses{0};
  static void add(std::atomic<std::uint64_t>& c, std::uint64_t n = 1) noexcept {
    c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

/// The timers that were set on a worker. Any worker may fire them.
struct worker_timers {
  spin_lock guard;
  std::unique_ptr<timer_wheel> wheel; // under the guard; of a simulated worker it and its levels are made when needed
  std::atomic<std::int64_t> next{timer_wheel::never}; // when to look; changes under the guard
};

struct worker : worker_base {
  worker(scheduler_core* core, int number, bool biased)
      : worker_base(core, biased), index(number), queue(biased && !tsan::enabled) {}
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  static constexpr std::uint32_t no_track = 0xffffff;
  const int index;
  int trace_rank = 0;             // scheduler::settings::trace_rank
  std::uint32_t track = no_track; // of the trace
  relaxed<int> thread = 0;        // the kernel's number; 0: none, or a simulated worker
  // Fibers are entered straight from others that leave, so many times until the worker has a look
  // at everything else.
  int switch_budget = 0;
  bool polls = false;         // it looks after the events
  int full_switch_budget = 0; // 0: never; the worker itself goes between any two
  // What the fiber that has just left its stack asked to be done.
  void (*after)(fiber*, void*) = nullptr;
  void* after_argument = nullptr;
  fiber* left_fiber = nullptr;
  exception_state* exceptions = nullptr; // the thread's
  int* error_number = nullptr;           // the thread's errno
  fiber* next_hint = nullptr;            // to go on next, if it stands in our queue: see start_now
  fiber* pool = nullptr;                 // free ones of the default size, through fiber::next
  unsigned pool_count = 0;
  relaxed<unsigned> pool_most = 128; // it keeps fewer than so many; 1 when stacks are scarce
  std::uint64_t serial = 0;          // of the fibers made here
  std::atomic<std::uint64_t> fibers_started{0}, fibers_ended{0}; // here; written by this worker only
  stack_context root;                                            // the thread's own stack

  fiber* poll_runner = nullptr;    // on worker 0: the fiber that runs `event_source::run_in_fiber`
  tasklet* next_tasklet = nullptr; // to the runner that is entered next
  // The fiber that runs activations here, and the one that it is at, until it gives that up or the
  // worker finds that it has waited. Both are this worker's alone.
  fiber* activation_runner = nullptr;
  struct activation* activation = nullptr;
  std::int64_t rich_since = 0;   // when another worker was first seen to have activations; 0: not now
  unsigned rich_turn = 0;        // that it was in
  fiber* idle_runners = nullptr; // stack of runners without work, through fiber::next
  int idle_runner_count = 0;
  std::vector<std::atomic<handed_ring*>> handing; // to each other worker; null: none. Written by this one only
  std::int64_t looked_at_others = 0;              // at what has been handed to them and they have not taken
  std::vector<unsigned> turns_then;               // theirs
  int full_tasklet_budget = 1;                    // tasklets between two looks at the clock
  double slice_began = 0;
  fiber* after_poll = nullptr; // that gave way to the events only
  bool fair = false;           // those that others run before shall have a turn
  unsigned fair_turns = 0;
  std::atomic<std::uint64_t> entered{0}; // fibers, by the worker itself
  std::atomic<unsigned> turns{0};        // written by this worker only: that it moves shows that it is in no long body
  std::vector<unsigned> seen_turns;      // of the others
  double hidden_since = 0; // when a worker was first seen to have nothing but private tasklets; 0: not now
  unsigned random = 0;     // choice of victims
  bool searching = false;  // counted in scheduler_core::searching
  bool unparked = false;   // how the last sleep ended
  std::vector<std::vector<worker*>> victims; // nearest first
  std::vector<std::uint64_t> prepared;       // for split_deque::force, one for each worker
  tasklet* stolen_tasklets[split_deque::most_stolen] = {};
  int seen_private = 0; // looks in a row, while searching, at which some queue had nothing but private fibers
  int timers_in = 0;    // steps until the next look at the timers
  std::vector<std::uint32_t> prepared_queues; // for run_queue::force, one for each worker
  event_counts counts;

  run_queue queue;
  activation_queue activations;
  handed_inbox inbox; // what other workers have handed over and no worker has taken
  worker_timers timers;
  parking_spot spot;

  /// Is all empty that comes before fibers which have given way?
  bool nothing_else() const noexcept { return !fair && !polls && deque.size() == 0; }
  bool has_ready_fiber() const noexcept { return has(run_queue::soon); }
  bool has_ready() const noexcept { return has_ready_fiber() || activations.any(run_queue::soon) || inbox.any(); }
  bool has_fibers() const noexcept { return has(run_queue::all) || queue.has_spawner() || has_activations(); }
  bool has_activations() const noexcept { return activations.count() > 0 || inbox.any(); }

private:
  bool has(unsigned kinds) const noexcept {
    return queue.has(kinds) || queue.has_public(kinds) || queue.has_bound(kinds);
  }
};

inline worker* this_worker() noexcept { return static_cast<worker*>(this_worker_base()); }
void set_this_worker(worker* w) noexcept;

} // namespace tern::detail
