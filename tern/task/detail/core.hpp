// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The scheduler's inside. scheduler.cpp has its life and its fibers, worker.cpp what a worker does all day.

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include <tern/task/detail/worker.hpp>

namespace tern::detail {

/// What came from outside: from foreign threads, and from worker threads that are in no fiber. Thread-safe.
class outside_queue {
public:
  void push(fiber* f) noexcept {
    std::lock_guard hold(lock_);
    fibers_.push(f);
    add(1);
  }
  /// No memory for the list's own growth ends the program.
  void push(tasklet* t) noexcept {
    std::lock_guard hold(lock_);
    tasklets_.push_back(t);
    add(1);
  }
  bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  /// A fiber, or else up to `most` tasklets. \return how many tasklets.
  unsigned take(fiber*& f, tasklet** out, unsigned most) noexcept;

private:
  void add(int n) noexcept { count_.store(count_.load(std::memory_order_relaxed) + n, std::memory_order_release); }
  spin_lock lock_;
  std::atomic<int> count_{0};
  intrusive_queue<fiber> fibers_;
  std::deque<tasklet*> tasklets_;
};

struct scheduler_core {
  /// While a thread that is no worker of this scheduler hands it something.
  class visit {
  public:
    explicit visit(scheduler_core& c) noexcept : core_(c) { core_.visitors.fetch_add(1, std::memory_order_relaxed); }
    // release: pairs with the acquire of the destructor that waits.
    ~visit() { core_.visitors.fetch_sub(1, std::memory_order_release); }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

  private:
    scheduler_core& core_;
  };

  explicit scheduler_core(scheduler::settings s);
  ~scheduler_core();

  // Fibers ------------------------------------------------------------------------------------------------------------
  void spawn(unique_function<void()> body, std::string name);
  /// A suspended fiber can go on. Any thread.
  void ready(fiber* f);
  /// A running fiber gives way: behind everything that is ready. On the worker that ran it.
  void yielded(fiber* f);
  void finished(fiber* f) noexcept;
  std::size_t run(unique_function<void()> main);

  // A worker's day (worker.cpp) ---------------------------------------------------------------------------------------
  void work(worker& w);
  /// Does one thing. \return false if there was nothing to do.
  bool step(worker& w);
  bool take_turn(worker& w);
  bool poll(worker& w);
  bool take_outside(worker& w);
  bool resume_spawner(worker& w);
  bool steal(worker& w);
  bool steal_from(worker& w, worker& victim);
  bool steal_yielded(worker& w);
  bool has_stranded_yielded(worker& w, const worker& other) const noexcept;
  bool force_some(worker& w);
  void run_fiber(worker& w, fiber* f);
  void run_tasklet(worker& w, tasklet* t);
  void run_tasklets(); // a runner's body
  void keep_loot(worker& w, unsigned n);
  /// Sleeps if there is really nothing. \return false if the run is over.
  bool park(worker& w);
  /// \param perhaps there may be something that cannot be told yet.
  bool anything_to_do(worker& w, bool& perhaps);
  bool all_asleep() const noexcept;
  void found_work(worker& w) noexcept;
  /// There is work that others may take: wakes somebody if nobody looks for any. Any thread.
  void notify() noexcept;
  void wake_one() noexcept;
  bool wake(worker& w) noexcept;
  void wake_all() noexcept;
  void observe(const worker& w, worker_event e, std::uint64_t n = 0) const noexcept {
    if (cfg.observer) [[unlikely]]
      cfg.observer->event(w.index, e, n);
  }

  std::size_t report_stuck();
  fiber* new_fiber();
  fiber* new_runner();
  fiber* idle_runner(worker& w) noexcept;
  void share_runner(fiber* f) noexcept;
  void give_up_runner(fiber* f) noexcept;
  bool give_stack(worker& w, fiber& f);
  void plan_victims();

  scheduler* owner = nullptr;
  scheduler::settings cfg;
  const asymmetric_barrier barrier;
  stack_pool stacks;
  std::vector<std::unique_ptr<worker>> workers;
  std::chrono::nanoseconds spin; // how long to look for work before sleeping
  int poll_in = 0;               // worker 0's: turns until the next look at the events

  // Both change with sequential consistency: see `notify` and `park`.
  alignas(64) std::atomic<int> searching{0}; // awake and without work; includes those that have been roused
  std::atomic<int> asleep{0};                // drowsy, or roused and not yet up
  alignas(64) outside_queue outside;
  worker outside_pool; // tasklets for contexts that are no worker, under `outside_pool_lock`; it never runs
  spin_lock outside_pool_lock;

  // Foreign threads that are in here. What they make ready may end the run before they have left.
  std::atomic<int> visitors{0};

  std::atomic<bool> stopping{false}; // main has ended
  std::atomic<bool> over{false};     // and nothing can run any more

  spin_lock registry; // protects what follows
  bool started = false;
  fiber* newest = nullptr;         // of the live fibers, in order of birth
  fiber* runners = nullptr;        // all of them, through fiber::older and newer
  fiber* shared_runners = nullptr; // idle ones that no worker keeps, through fiber::next
  bool short_of_stacks = false;    // it has been said
  std::vector<fiber*> spare;       // finished fibers, to be used again
  int begun = 0;                   // fibers and runners that have a stack and may give it back
  std::atomic<bool> has_shared_runners{false};
  std::atomic<std::size_t> live{0};
  std::exception_ptr main_failed;
};

} // namespace tern::detail
