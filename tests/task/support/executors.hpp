// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runs a test's body on real workers and under the simulated executor with many seeds.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace tern::test_support {

/// How many seeds: TERN_SIM_SEEDS, else what fits a check (docs/decisions/0081; `--long` tries
/// 20,000): 4,000, or few under a sanitizer. A simulation has one thread, in which the thread
/// sanitizer finds nothing.
inline std::uint64_t seeds() {
  if (const char* s = std::getenv("TERN_SIM_SEEDS")) return std::strtoull(s, nullptr, 10);
  return detail::thread_sanitizer ? 40 : detail::address_sanitizer ? 100 : 4'000;
}
/// Where each has devices that must be started, or threads.
inline std::uint64_t seeds_of_devices() {
  return std::getenv("TERN_SIM_SEEDS") ? seeds() : detail::sanitized ? 50 : 400;
}
/// How many of a test's own repetitions: a fifth of them under a sanitizer.
template <class N> constexpr N some(N plain) { return detail::sanitized ? (plain + 4) / 5 : plain; }

/// As the main fiber of a scheduler; no fiber may be left waiting.
inline void on_workers(int workers, const std::function<void()>& body) {
  SCOPED_TRACE(std::to_string(workers) + " workers");
  scheduler s({.workers = workers, .name = "test"});
  EXPECT_EQ(s.run([&] { body(); }), 0u);
}

/// The same under the simulated executor; stops at the first seed that fails.
inline void simulated(const std::function<void()>& body, int workers = 3, std::uint64_t most = ~std::uint64_t{0}) {
  const std::uint64_t n = std::min(most, seeds());
  for (std::uint64_t seed = 1; seed <= n && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    sim::simulation world({.seed = seed});
    scheduler s({.workers = workers, .name = "test", .simulation = &world});
    EXPECT_EQ(s.run([&] { body(); }), 0u);
  }
}

/// Everywhere. `body` is called many times and must do the same each time; keep it short.
inline void everywhere(const std::function<void()>& body, int times = 20, std::uint64_t most = ~std::uint64_t{0}) {
  for (const int workers : {1, 2, 4})
    for (int i = 0; i < times && !testing::Test::HasFailure(); ++i) on_workers(workers, body);
  simulated(body, 3, most);
}

/// The same with fewer seeds, for a `body` that takes longer.
inline void everywhere_briefly(const std::function<void()>& body, int times = 20, std::uint64_t most = 1000) {
  everywhere(body, times, most);
}

} // namespace tern::test_support
