// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A worker: one OS thread that runs fibers and tasklets, and what belongs to it.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <tern/task/detail/fiber.hpp>
#include <tern/task/detail/parking.hpp>
#include <tern/task/detail/tasklet.hpp>
#include <tern/task/detail/wait.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::detail {

/// A first-in, first-out list through `next`.
template <class T> class intrusive_queue {
public:
  bool empty() const noexcept { return !head_; }
  void push(T* x) noexcept {
    x->next = nullptr;
    (head_ ? tail_->next : head_) = x;
    tail_ = x;
  }
  T* pop() noexcept {
    T* x = head_;
    if (x) head_ = x->next;
    return x;
  }

private:
  T *head_ = nullptr, *tail_ = nullptr;
};

/// The fibers that can run on a worker: its owner's unless somebody takes them. Thread-safe.
class fiber_box {
public:
  /// \return how many are here now.
  int push_ready(fiber* f) noexcept { return push(ready_, ready_count_, f); }
  int push_yielded(fiber* f) noexcept { return push(yielded_, yielded_count_, f); }
  /// A fiber that spawned so many tasklets that it had to pause.
  int push_spawner(fiber* f) noexcept { return push(spawners_, spawner_count_, f); }
  fiber* take_ready() noexcept { return take(ready_, ready_count_); }
  fiber* take_yielded() noexcept { return take(yielded_, yielded_count_); }
  fiber* take_spawner() noexcept { return take(spawners_, spawner_count_); }
  // Without the lock; for "is it worth a look" and, after a barrier, for "is there really nothing".
  bool has_ready() const noexcept { return ready_count_.load(std::memory_order_acquire) > 0; }
  bool has_yielded() const noexcept { return yielded_count_.load(std::memory_order_acquire) > 0; }
  bool has_spawner() const noexcept { return spawner_count_.load(std::memory_order_acquire) > 0; }

private:
  int push(intrusive_queue<fiber>& q, std::atomic<int>& count, fiber* f) noexcept {
    std::lock_guard hold(lock_);
    q.push(f);
    const int now = count.load(std::memory_order_relaxed) + 1;
    count.store(now, std::memory_order_release);
    return now;
  }
  fiber* take(intrusive_queue<fiber>& q, std::atomic<int>& count) noexcept {
    if (count.load(std::memory_order_relaxed) == 0) return nullptr;
    std::lock_guard hold(lock_);
    fiber* f = q.pop();
    if (f) count.store(count.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    return f;
  }
  spin_lock lock_;
  std::atomic<int> ready_count_{0}, yielded_count_{0}, spawner_count_{0}; // written under the lock
  intrusive_queue<fiber> ready_, yielded_, spawners_;
};

/// Slow-path events since the start; written by one worker, read by anybody.
struct event_counts {
  std::atomic<std::uint64_t> steals{0}, stolen{0}, forced{0}, parks{0}, wakes{0}, pauses{0};
  static void add(std::atomic<std::uint64_t>& c, std::uint64_t n = 1) noexcept {
    c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

struct worker : worker_base {
  worker(scheduler_core* core, int number, bool fenceless) : worker_base(core, fenceless), index(number) {}
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  const int index;
  fiber* running = nullptr;
  boost::context::detail::fcontext_t context = nullptr; // of the worker's stack while a fiber runs
  // What the fiber that has just left its stack asked to be done: publishing "ready", "unlocked" or "finished" earlier
  // would let another worker enter a stack that is still in use.
  void (*after)(fiber*, void*) = nullptr;
  void* after_argument = nullptr;
  void* tsan_fiber = nullptr;
  void* fake_stack = nullptr;
  const void* own_stack_low = nullptr; // of the thread, for the address sanitizer
  std::size_t own_stack_size = 0;

  tasklet* handed = nullptr;     // to the runner that is entered next
  fiber* idle_runners = nullptr; // stack of runners without work, through fiber::next
  int idle_runner_count = 0;
  int breath_length = 1; // tasklets between two looks at the clock
  double slice_began = 0;
  fiber* comes_back = nullptr; // that gave way to the events only
  bool fair = false;           // those that others run before shall have a turn
  unsigned fair_turns = 0;
  std::atomic<unsigned> turns{0};   // written by this worker only: that it moves shows that it is in no long body
  std::vector<unsigned> seen_turns; // of the others
  double hidden_since = 0;          // when somebody was first seen to have nothing but private tasklets; 0: not now
  unsigned random = 0;              // choice of victims
  bool searching = false;           // counted in scheduler_core::searching
  bool roused = false;              // how the last sleep ended
  std::vector<std::vector<worker*>> victims; // nearest first
  std::vector<std::uint64_t> prepared;       // for split_deque::force, one for each worker
  tasklet* loot[split_deque::most_stolen] = {};
  event_counts counts;

  fiber_box box;
  bed sleep;

  void flush_returns() noexcept;
};

inline worker* this_worker() noexcept { return static_cast<worker*>(this_worker_base()); }
void set_this_worker(worker* w) noexcept;

} // namespace tern::detail
