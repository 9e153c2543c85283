// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel/parallel_loop.hpp>

#include <chrono>
#include <string>

#include <tern/base/error.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {

void throw_bad_range(const char* what, const std::string& first, const std::string& last, bool backwards) {
  throw error(errc::invalid_argument,
              std::string(what) + " over [" + first + ", " + last +
                  "): " + (backwards ? "the end lies before the beginning" : "more than 2^63 - 1 indices"),
              backwards ? "ranges are half-open, and empty if both are equal" : "use nested loops");
}

void check_grain(const char* what, std::int64_t grain) {
  if (grain < 1 && grain != -1)
    throw error(errc::invalid_argument, std::string(what) + " with a grain of " + std::to_string(grain),
                "a chunk has at least one index; leave the grain out, or give tern::automatic, to let Tern choose");
}

int check_worker(const char* what) {
  if (!scheduler::in_fiber())
    throw error(errc::invalid_state, std::string(what) + " was called outside any fiber",
                "call it from inside tern::run, scheduler::run, a handler or a tasklet, not from threads of your own");
  return scheduler::current()->workers();
}

std::int64_t nanoseconds() noexcept {
  // In a simulation by its clock: what the seed does not decide must not decide how a loop is cut.
  if (const worker* w = this_worker(); w && w->home->executor) return w->home->now();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace tern::detail
