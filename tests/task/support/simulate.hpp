// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tests of the simulated executor share.

#include <functional>

#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace tern::test_support {

inline constexpr double step = 100e-9; // sim::settings::step_seconds

/// Runs `body` as the main fiber.
/// \return the virtual seconds it took.
inline double simulate(int workers, const std::function<void()>& body, sim::settings settings = {}) {
  sim::simulation world(settings);
  scheduler s({.workers = workers, .name = "test", .simulation = &world});
  EXPECT_EQ(s.run([&] { body(); }), 0u);
  return world.seconds();
}

/// A fiber that charges goes on at once, ahead of the others' clocks; yielding lets those come
/// first that are earlier.
inline void charge_and_yield(double seconds) {
  sim::charge(seconds);
  this_fiber::yield();
}

} // namespace tern::test_support
