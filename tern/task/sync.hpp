// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Locks that suspend the fiber and not the core. All of them work from foreign threads too, which then sleep.
/// Names and rules as in the standard library, unless said otherwise. (A std::mutex held across a suspension may be
/// released on another thread, which is undefined: use these inside fibers.)

#include <cstddef>
#include <mutex>
#include <utility>

#include <tern/task/detail/wait.hpp>

namespace tern {

/// Not recursive; first come, first served: `unlock` hands the lock to the longest waiter, so nobody starves.
class mutex {
public:
  mutex() = default;
  ~mutex();
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  void lock();
  bool try_lock();
  /// \pre locked by the caller's context (checked only as "locked": \throws error(invalid_state) otherwise).
  void unlock();

private:
  detail::spin_lock guard_;
  bool held_ = false;
  detail::waiter_list waiters_;
};

/// As std::condition_variable_any for `std::unique_lock<tern::mutex>`. No spurious wake-ups.
class condition_variable {
public:
  condition_variable() = default;
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;
  void wait(std::unique_lock<mutex>& lock);
  template <class Predicate> void wait(std::unique_lock<mutex>& lock, Predicate ready) {
    while (!ready()) wait(lock);
  }
  void notify_one();
  void notify_all();

private:
  detail::spin_lock guard_;
  detail::waiter_list waiters_;
};

/// Counts down to zero once.
class latch {
public:
  /// \throws error(invalid_argument) for a negative count.
  explicit latch(std::ptrdiff_t count);
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;
  /// \throws error(invalid_state) if more is counted down than was left. The latch may be destroyed by a thread that
  /// waited for it as soon as that wait returned.
  void count_down(std::ptrdiff_t n = 1);
  bool try_wait() const;
  void wait();
  void arrive_and_wait(std::ptrdiff_t n = 1) {
    count_down(n);
    wait();
  }

private:
  mutable detail::spin_lock guard_;
  std::ptrdiff_t left_;
  detail::waiter_list waiters_;
};

} // namespace tern
