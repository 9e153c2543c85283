// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Latch and barrier: several fibers or threads wait for each other. Names and rules as in
/// the standard library, unless said otherwise; included by sync.hpp.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tern/base/language/durations.hpp>
#include <tern/task/wait/deadline.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern {

/// Counts down to zero once. Any thread, inside fibers and out. A context that has waited for it
/// may destroy it as soon as that wait has returned, if no other context waits with a limit.
class latch {
public:
  /// \throws error(invalid_argument) for a negative count.
  explicit latch(std::ptrdiff_t count);
  ~latch();
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;
  /// \throws error(invalid_state) if more is counted down than was left, or less than nothing.
  void count_down(std::ptrdiff_t n = 1);
  bool try_wait() const noexcept;
  /// A fiber suspends, a foreign thread sleeps, until the count is zero.
  void wait() noexcept;
  /// The same for some time.
  /// \return whether the count is zero.
  template <class Rep, class Period> bool wait_for(const std::chrono::duration<Rep, Period>& d) {
    return wait_till(detail::deadline_in(d));
  }
  template <class Clock, class Duration> bool wait_until(const std::chrono::time_point<Clock, Duration>& t) {
    return wait_till(detail::deadline_at(t));
  }
  void arrive_and_wait(std::ptrdiff_t n = 1) {
    count_down(n);
    wait();
  }

private:
  bool wait_till(std::int64_t deadline) noexcept;

  mutable detail::spin_lock guard_;
  std::ptrdiff_t left_;
  detail::waiter_list waiters_;
};

namespace detail {

/// A barrier without its completion function. The last that arrives completes the phase: it calls
/// that function, then `next_phase`.
class barrier_core {
public:
  explicit barrier_core(std::ptrdiff_t expected);
  ~barrier_core();
  barrier_core(const barrier_core&) = delete;
  barrier_core& operator=(const barrier_core&) = delete;

  struct arrival {
    std::uint64_t phase;
    bool last;
  };
  arrival arrive(std::ptrdiff_t n, bool drop);
  void next_phase() noexcept;
  void wait(std::uint64_t phase) noexcept;

private:
  spin_lock guard_;
  std::ptrdiff_t expected_, pending_;
  std::uint64_t phase_ = 0;
  waiter_list waiters_;
};

struct no_completion {
  void operator()() noexcept {}
};

} // namespace detail

/// As std::barrier (`tern::barrier` is the ranks'): lets all of a number of participants arrive,
/// then all go on; as often as they like. `Completion` is called without arguments by the last that
/// arrives in each phase, before any goes on; it must be noexcept, and may wait. Any thread, inside
/// fibers and out.
template <class Completion = detail::no_completion> class fiber_barrier {
  static_assert(std::is_nothrow_invocable_v<Completion&>, "a barrier's completion function must be noexcept");

public:
  class arrival_token {
  public:
    arrival_token(arrival_token&&) noexcept = default;
    arrival_token& operator=(arrival_token&&) noexcept = default;

  private:
    friend class fiber_barrier;
    explicit arrival_token(std::uint64_t phase) noexcept : phase_(phase) {}
    std::uint64_t phase_;
  };

  /// \throws error(invalid_argument) for a negative number of participants.
  explicit fiber_barrier(std::ptrdiff_t expected, Completion completion = Completion())
      : core_(expected), completion_(std::move(completion)) {}

  /// Arrives `n` times, without waiting (unless the completion function does).
  /// \throws error(invalid_state) if that is more than are still expected in this phase, or less
  /// than one.
  [[nodiscard]] arrival_token arrive(std::ptrdiff_t n = 1) { return arrival_token(come(n, false).phase); }
  /// A fiber suspends, a foreign thread sleeps, until the phase in which the token was given is
  /// over.
  void wait(arrival_token&& arrived) noexcept { core_.wait(arrived.phase_); }
  /// \throws as `arrive`.
  void arrive_and_wait() {
    const auto arrived = come(1, false);
    if (!arrived.last) core_.wait(arrived.phase);
  }
  /// Arrives, and takes part no more: one less is expected from the next phase on.
  /// \throws as `arrive`.
  void arrive_and_drop() { come(1, true); }

private:
  detail::barrier_core::arrival come(std::ptrdiff_t n, bool drop) {
    const auto arrived = core_.arrive(n, drop);
    if (arrived.last) {
      completion_();
      core_.next_phase();
    }
    return arrived;
  }

  detail::barrier_core core_;
  [[no_unique_address]] Completion completion_;
};

} // namespace tern
