// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A counting semaphore for fibers and threads; included by sync.hpp.

#include <cstddef>
#include <cstdint>
#include <limits>

#include <tern/base/language/durations.hpp>
#include <tern/task/wait/deadline.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern {

/// As std::counting_semaphore. First come, first served: what is released goes to the longest
/// waiter. A context that has acquired from it may destroy it, if no other waits. Any thread,
/// inside fibers and out.
class semaphore {
public:
  /// \throws error(invalid_argument) for a negative count.
  explicit semaphore(std::ptrdiff_t count);
  ~semaphore();
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;

  static constexpr std::ptrdiff_t max() noexcept { return std::numeric_limits<std::ptrdiff_t>::max(); }

  /// Takes one; a fiber suspends, a foreign thread sleeps, until there is one.
  void acquire() noexcept { acquire(nullptr); }
  /// Never waits.
  /// \return whether it has taken one; so do those below.
  bool try_acquire() noexcept;
  template <class Rep, class Period> bool try_acquire_for(const std::chrono::duration<Rep, Period>& d) {
    const detail::wait_limit limit{detail::deadline_in(d)};
    return acquire(&limit);
  }
  template <class Clock, class Duration> bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& t) {
    const detail::wait_limit limit{detail::deadline_at(t)};
    return acquire(&limit);
  }
  /// Gives back `n`.
  /// \throws error(invalid_argument) for a negative number, error(invalid_state) if there would be
  /// more than `max()`; nothing has changed then.
  void release(std::ptrdiff_t n = 1);

private:
  bool acquire(const detail::wait_limit* limit) noexcept;

  detail::spin_lock guard_;
  std::ptrdiff_t count_; // > 0 only while none waits
  detail::waiter_list waiters_;
};

} // namespace tern
