// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The scheduler's inside: run queues, parking, and the list of live fibers.

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <tern/task/detail/fiber.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::detail {

/// A first-in, first-out list through `fiber::next`.
class fiber_queue {
public:
  bool empty() const noexcept { return !head_; }
  void push(fiber* f) noexcept {
    f->next = nullptr;
    (head_ ? tail_->next : head_) = f;
    tail_ = f;
  }
  fiber* pop() noexcept {
    fiber* f = head_;
    if (f) head_ = f->next;
    return f;
  }

private:
  fiber *head_ = nullptr, *tail_ = nullptr;
};

/// One lock protects everything: the plain first body, whose interface stays when work-stealing deques replace it.
struct scheduler_core {
  explicit scheduler_core(scheduler::settings s);
  ~scheduler_core();

  void spawn(unique_function<void()> body, std::string name);
  /// A suspended fiber can go on. Any thread.
  void ready(fiber* f);
  /// A running fiber gives way: behind everything that is ready.
  void yielded(fiber* f);
  void finished(fiber* f) noexcept;
  std::size_t run(unique_function<void()> main);

  void work(worker& w);
  fiber* next(worker& w, fiber_queue& queue);
  /// Gives a fiber its stack. \return false, with the fiber back in a queue, if there is none just now.
  bool begin(fiber* f);
  void idle(worker& w);
  void wake_one(std::unique_lock<std::mutex>& hold);
  void report_stuck();

  scheduler* owner = nullptr;
  scheduler::settings cfg;
  stack_pool stacks;

  std::mutex lock;
  std::condition_variable wake;
  fiber_queue ready_queue, yield_queue;
  fiber* newest = nullptr;    // of the live fibers
  std::vector<fiber*> spare;  // finished fibers, to be used again
  int parked = 0;             // workers in `wake.wait`
  int notified = 0;           // of these, how many a notify is under way to
  int begun = 0;              // fibers that have a stack
  int busy = 0;               // workers inside a fiber
  bool source_asleep = false; // worker 0 is, or is about to be, in cfg.source->wait
  bool stopping = false, started = false;
  std::atomic<std::size_t> live{0};
  std::exception_ptr main_failed;
  std::vector<worker> workers;
};

} // namespace tern::detail
