// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Real time in seconds. Code that must also run under the simulator asks its transport for the
/// time, not this file.

#include <tern/base/language/compiler.hpp>

#include <ctime>

#include <tern/base/language/durations.hpp>

namespace tern {

/// Seconds since some fixed moment; never goes back. Only differences mean anything. Any thread.
inline double steady_seconds() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds of processor time that the calling thread has used; differences between two calls on one
/// thread tell its busy time.
inline double thread_cpu_seconds() noexcept {
  std::timespec now{};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Measures elapsed time from its construction or its last `restart`. One thread at a time.
class stopwatch {
public:
  stopwatch() noexcept : start_(steady_seconds()) {}
  /// Seconds since the start.
  double seconds() const noexcept { return steady_seconds() - start_; }
  /// Starts anew. \return seconds since the start before.
  double restart() noexcept {
    const double now = steady_seconds(), elapsed = now - start_;
    start_ = now;
    return elapsed;
  }

private:
  double start_;
};

} // namespace tern
