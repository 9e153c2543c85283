// SPDX-License-Identifier: Apache-2.0
/// \file
/// Mistakes that a simulation finds within some seeds.
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using detail::sanitized;

/// How many seeds out of so many find a mistake: a false result or a deadlock.
int mistakes_found(const std::function<bool()>& right, int seeds) {
  int wrong = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    sim::simulation world({.seed = static_cast<std::uint64_t>(seed)});
    scheduler s({.workers = 2, .simulation = &world});
    bool good = false;
    try {
      s.run([&] { good = right(); });
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::deadlock) << e.what();
      good = false;
    }
    wrong += !good;
  }
  return wrong;
}
constexpr int seeds_of_mistakes = sanitized ? 200 : 1000;

TEST(sim, finds_a_lost_update) {
  const auto count = [](bool whole) {
    return [whole] {
      mutex m;
      int n = 0;
      const auto add = [&] {
        if (whole) {
          const std::unique_lock hold(m);
          ++n;
          return;
        }
        int seen = 0;
        {
          const std::unique_lock hold(m);
          seen = n;
        }
        const std::unique_lock hold(m);
        n = seen + 1;
      };
      test_support::together(add, add);
      return n == 2;
    };
  };
  EXPECT_GT(mistakes_found(count(false), seeds_of_mistakes), 0);
  EXPECT_EQ(mistakes_found(count(true), seeds_of_mistakes), 0);
}

TEST(sim, finds_a_check_before_an_act) {
  if (detail::address_sanitizer) GTEST_SKIP() << "what fibers own that wait for ever is leaked, as `run` says";
  const auto take = [](bool at_once) {
    return [at_once] {
      channel<int> c(4);
      int taken = 0;
      c.push(1);
      const auto one = [&] {
        if (at_once) {
          if (c.try_pop()) ++taken;
        } else if (c.size() > 0) {
          c.pop(); // the other fiber may have been quicker
          ++taken;
        }
      };
      test_support::together(one, one);
      return taken == 1;
    };
  };
  EXPECT_GT(mistakes_found(take(false), seeds_of_mistakes), 0);
  EXPECT_EQ(mistakes_found(take(true), seeds_of_mistakes), 0);
}

TEST(sim, finds_a_signal_that_nobody_awaits_yet) {
  if (detail::address_sanitizer) GTEST_SKIP() << "what fibers own that wait for ever is leaked, as `run` says";
  const auto hand = [](bool under_lock) {
    return [under_lock] {
      mutex m;
      condition_variable c;
      std::atomic<bool> ready{false};
      test_support::together(
          [&] {
            std::unique_lock hold(m);
            while (!ready) {
              this_fiber::yield(); // between the check and the wait
              c.wait(hold);
            }
          },
          [&] {
            std::unique_lock hold(m, std::defer_lock);
            if (under_lock) hold.lock();
            ready = true;
            c.notify_one();
          });
      return true;
    };
  };
  EXPECT_GT(mistakes_found(hand(false), seeds_of_mistakes), 0);
  EXPECT_EQ(mistakes_found(hand(true), seeds_of_mistakes), 0);
}

} // namespace
} // namespace tern
