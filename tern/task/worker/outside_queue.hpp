// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where a scheduler receives work from threads that are not its workers.

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include <tern/task/tasklet/tasklet.hpp>
#include <tern/task/wait/wait_list.hpp>
#include <tern/task/worker/run_queue.hpp>

namespace tern::detail {

/// What came from outside: from foreign threads, and from worker threads that are in no fiber.
/// Thread-safe.
class outside_queue {
public:
  void push(runnable* f) noexcept {
    std::lock_guard hold(lock_);
    fibers_.push(f);
    add(1);
  }
  /// No memory for the list's own growth ends the program.
  void push(tasklet* t) noexcept {
    std::lock_guard hold(lock_);
    if (!tasklets_) tasklets_ = std::make_unique<std::deque<tasklet*>>();
    tasklets_->push_back(t);
    add(1);
  }
  bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  /// A fiber, or else up to `most` tasklets.
  /// \return how many tasklets.
  unsigned take(runnable*& f, tasklet** out, unsigned most) noexcept;

private:
  void add(int n) noexcept { count_.store(count_.load(std::memory_order_relaxed) + n, std::memory_order_release); }
  spin_lock lock_;
  std::atomic<int> count_{0};
  runnable_queue fibers_;
  std::unique_ptr<std::deque<tasklet*>> tasklets_; // an empty deque would take half a KiB on each simulated rank
};

} // namespace tern::detail
