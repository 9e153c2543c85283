// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Locks that suspend the fiber and not the core; with latch, barrier, semaphore and
/// once_flag, which are included. All of them work from foreign threads too, which then sleep.
/// Names and rules as in the standard library, unless said otherwise. (A std::mutex held across a
/// suspension may be released on another thread, which is undefined: use these inside fibers.)
///
/// Times: `…_for` counts from the call, `…_until` takes a moment of `fiber_clock`; moments of
/// another clock are turned into a time from now. What is destroyed while it is locked or waited
/// for is reported in the log.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <utility>

#include <tern/base/language/durations.hpp>
#include <tern/task/barrier.hpp>
#include <tern/task/once.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/wait/deadline.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern {

/// Not recursive. Waiters are served first come, first served. A context that runs may take a free
/// mutex before the one that has been woken for it gets to run, but only a bounded number of times,
/// so none starves. Any thread, inside fibers and out.
class mutex {
public:
  constexpr mutex() noexcept = default;
  ~mutex();
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  /// A fiber suspends, a foreign thread sleeps, until it is the owner.
  /// \throws error(deadlock) if it is already.
  void lock();
  /// Never waits. False for the owner, too.
  bool try_lock();
  /// Waits no longer than that.
  /// \return whether the caller is the owner now.
  /// \throws error(deadlock) if it was already.
  template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return lock_until(detail::deadline_in(d));
  }
  template <class Clock, class Duration> bool try_lock_until(const std::chrono::time_point<Clock, Duration>& t) {
    return lock_until(detail::deadline_at(t));
  }
  /// \throws error(invalid_state) if the caller is not the owner.
  void unlock();

private:
  friend class condition_variable;
  using word = std::uintptr_t;
  bool lock_until(std::int64_t deadline);
  bool lock_slowly(word me, const detail::wait_limit* limit);
  bool spin(word me, bool called) noexcept;
  bool take(word& seen, word me, bool called) noexcept;
  bool take_or_announce(word me, bool called) noexcept;
  bool owned_by(word me) const noexcept;
  void release(word me) noexcept;
  [[noreturn]] void throw_not_owner(word me, const char* what);

  // The owner's context, 0 if it is free, and the flags of sync.cpp. Uncontended locking and
  // unlocking is one compare-exchange of it.
  std::atomic<word> word_{0};
  // The owner's context while others wait, for wait_reason. While none waits the holder of `guard_`
  // writes it, otherwise the owner.
  std::atomic<word> owner_{0};
  // How often, and until when, the waiter that has been woken may still be overtaken. The owner's.
  std::uint32_t left_ = 0;
  std::int64_t until_ = 0;
  detail::spin_lock guard_;
  detail::waiter_list waiters_;
};

/// Shared by readers or owned by one writer; not recursive. First come, first served: a context
/// that comes while others wait waits behind him, readers that stand next to each other enter
/// together, so neither side starves. (So a reader must not lock it again while it has it.) Any
/// thread, inside fibers and out.
class shared_mutex {
public:
  constexpr shared_mutex() noexcept = default;
  ~shared_mutex();
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;

  /// A fiber suspends, a foreign thread sleeps, until it is the owner.
  /// \throws error(deadlock) if it is already; so do the other functions that wait.
  void lock();
  bool try_lock();
  template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return lock_until(exclusive, detail::deadline_in(d));
  }
  template <class Clock, class Duration> bool try_lock_until(const std::chrono::time_point<Clock, Duration>& t) {
    return lock_until(exclusive, detail::deadline_at(t));
  }
  /// \throws error(invalid_state) if the caller is not the owner.
  void unlock();

  void lock_shared();
  /// False also while a context waits.
  bool try_lock_shared();
  template <class Rep, class Period> bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& d) {
    return lock_until(reader, detail::deadline_in(d));
  }
  template <class Clock, class Duration> bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& t) {
    return lock_until(reader, detail::deadline_at(t));
  }
  /// \throws error(invalid_state) if no context shares it. (Which ones do is not recorded.)
  void unlock_shared();

private:
  static constexpr std::uintptr_t exclusive = 1, queued = 2, reader = 4;
  bool lock_until(std::uintptr_t share, std::int64_t deadline);
  bool lock_slowly(std::uintptr_t share, const detail::wait_limit* limit);
  static bool fits(std::uintptr_t state, std::uintptr_t share) noexcept;
  void release(std::uintptr_t share) noexcept;
  detail::waiter* admit() noexcept;
  std::string describe_owner();

  // Flags and the number of readers. Without `queued` it changes by compare-exchange, with it only
  // under `guard_`.
  std::atomic<std::uintptr_t> state_{0};
  std::atomic<std::uintptr_t> owner_{0}; // the writer's context
  detail::spin_lock guard_;
  detail::waiter_list waiters_; // their data: what each wants, `exclusive` or `reader`
};

/// As std::condition_variable_any for `std::unique_lock<tern::mutex>`. Waiters are woken first
/// come, first served, and only by a notification, or where there is a limit, by that: no spurious
/// wake-ups. Each function that waits throws error(invalid_state) if `lock` does not own its mutex.
/// Any thread, inside fibers and out.
class condition_variable {
public:
  constexpr condition_variable() noexcept = default;
  /// Those that have been notified may still be on their way out of a `wait` without limits.
  ~condition_variable();
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;

  void wait(std::unique_lock<mutex>& lock) { suspend(lock, nullptr); }
  template <class Predicate> void wait(std::unique_lock<mutex>& lock, Predicate ready) {
    while (!ready()) wait(lock);
  }
  template <class Rep, class Period>
  std::cv_status wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& d) {
    return wait_till(lock, {detail::deadline_in(d)});
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& t) {
    return wait_till(lock, {detail::deadline_at(t)});
  }
  /// \return the last `ready()`; so do those below.
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& d, Predicate ready) {
    return wait_till(lock, {detail::deadline_in(d)}, ready);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& t, Predicate ready) {
    return wait_till(lock, {detail::deadline_at(t)}, ready);
  }
  /// Until `ready()` or `stop` is set.
  template <class Predicate> bool wait(std::unique_lock<mutex>& lock, std::stop_token stop, Predicate ready) {
    return wait_till(lock, {detail::wait_limit::never, &stop}, ready);
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<mutex>& lock, std::stop_token stop, const std::chrono::duration<Rep, Period>& d,
                Predicate ready) {
    return wait_till(lock, {detail::deadline_in(d), &stop}, ready);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<mutex>& lock, std::stop_token stop,
                  const std::chrono::time_point<Clock, Duration>& t, Predicate ready) {
    return wait_till(lock, {detail::deadline_at(t), &stop}, ready);
  }

  void notify_one() noexcept;
  void notify_all() noexcept;

private:
  template <class Predicate>
  bool wait_till(std::unique_lock<mutex>& lock, const detail::wait_limit& limit, Predicate& ready) {
    while (!ready())
      if (suspend(lock, &limit) != detail::wait_result::woken) return ready();
    return true;
  }
  std::cv_status wait_till(std::unique_lock<mutex>& lock, const detail::wait_limit& limit) {
    return suspend(lock, &limit) == detail::wait_result::woken ? std::cv_status::no_timeout : std::cv_status::timeout;
  }
  detail::wait_result suspend(std::unique_lock<mutex>& lock, const detail::wait_limit* limit);

  detail::spin_lock guard_;
  detail::waiter_list waiters_;
};

} // namespace tern
