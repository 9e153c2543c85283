// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber/ticks.hpp>

#include <algorithm>
#include <chrono>

#include <tern/base/clock.hpp>
#include <tern/task/fiber/worker_head.hpp>

namespace tern::detail {
namespace {

std::int64_t counter() noexcept {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  std::int64_t t = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#else
  return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

// The counter's speed is measured over the time since the program began.
struct beginning {
  std::int64_t count = counter();
  double seconds = steady_seconds();
};
const beginning start;

} // namespace

std::int64_t clock_now() noexcept {
  const std::int64_t* const virtual_now = this_worker_head()->virtual_clock;
  return virtual_now ? *virtual_now : std::chrono::steady_clock::now().time_since_epoch().count();
}

std::int64_t ticks() noexcept {
  const std::int64_t* const virtual_now = this_worker_head()->virtual_clock;
  return virtual_now ? *virtual_now : counter();
}

std::int64_t rough_ticks() noexcept {
  const worker_head* const w = this_worker_head();
  return w != &no_worker ? w->last_tick : counter();
}

std::int64_t raw_ticks() noexcept { return counter(); }

std::int64_t ticks_in(double seconds) noexcept {
  double now = steady_seconds();
  while (now - start.seconds < 1e-3) now = steady_seconds(); // a program that has hardly begun
  return static_cast<std::int64_t>(static_cast<double>(counter() - start.count) / (now - start.seconds) * seconds);
}

double seconds_in(std::int64_t ticks) noexcept {
  if (this_worker_head()->virtual_clock) return 1e-9 * static_cast<double>(ticks);
  static const double each = 1 / static_cast<double>(ticks_in(1));
  return each * static_cast<double>(ticks);
}

double seconds_since_raw(std::int64_t moment) noexcept {
  const std::int64_t now = counter();
  const double per_second = static_cast<double>(now - start.count) / std::max(1e-9, steady_seconds() - start.seconds);
  return static_cast<double>(now - moment) / per_second;
}

std::int64_t virtual_ticks() noexcept {
  static thread_local std::int64_t latest = 0; // what happens between two simulations happens when the first has ended
  if (const std::int64_t* const virtual_now = this_worker_head()->virtual_clock) latest = *virtual_now;
  return latest;
}

} // namespace tern::detail
