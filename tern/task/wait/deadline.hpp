// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the blocking primitives share besides waiters: how times given by callers become
/// limits, and reports of misuse.

#include <cstdint>
#include <ratio>
#include <type_traits>

#include <tern/base/language/durations.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern {

struct fiber_clock;

namespace detail {

/// `d` in nanoseconds, rounded up; the longest or shortest time there is instead of an overflow.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds in_nanoseconds(const std::chrono::duration<Rep, Period>& d) {
  using std::chrono::nanoseconds;
  if constexpr (!std::is_same_v<std::chrono::duration<Rep, Period>, nanoseconds>) {
    using real = std::chrono::duration<double, std::nano>;
    if (real(d) >= real(nanoseconds::max())) return nanoseconds::max();
    if (real(d) <= real(nanoseconds::min())) return nanoseconds::min();
  }
  return std::chrono::ceil<nanoseconds>(d);
}

/// The moment `d` from now.
template <class Rep, class Period> std::int64_t deadline_in(const std::chrono::duration<Rep, Period>& d) {
  return deadline_after(in_nanoseconds(d));
}

/// A moment of `fiber_clock` as it is; of another clock as a time from now.
template <class Clock, class Duration>
std::int64_t deadline_at(const std::chrono::time_point<Clock, Duration>& moment) {
  const std::int64_t t = in_nanoseconds(moment.time_since_epoch()).count();
  if constexpr (std::is_same_v<Clock, fiber_clock>) {
    return t;
  } else {
    const std::int64_t now = in_nanoseconds(Clock::now().time_since_epoch()).count();
    return deadline_after(std::chrono::nanoseconds(t <= now ? 0 : t - now));
  }
}

/// Logs that the caller destroys a `what` while `state`: "a context waits for it", "thread 7 has it
/// locked", …
void report_destroyed(const char* what, const char* state) noexcept;

} // namespace detail
} // namespace tern
