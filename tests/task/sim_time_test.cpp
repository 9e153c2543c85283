// SPDX-License-Identifier: Apache-2.0
// Virtual time: what work, sleeping and time limits take, and that workers work at the same time.
#include <tern/task/sim.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <sys/personality.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/task/parallel_sort.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/task_group.hpp>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/simulate.hpp"
#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::charge_and_yield;
using test_support::on_workers;
using test_support::simulate;
using test_support::step;
using test_support::text_of;
using testing::HasSubstr;

TEST(sim, workers_work_at_the_same_time) {
  const auto fibers = [](int n, double seconds) {
    return [n, seconds] {
      std::vector<fiber> all;
      for (int i = 0; i < n; ++i) all.emplace_back([=] { sim::charge(seconds); });
      for (auto& f : all) f.join();
    };
  };
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    for (const int w : {1, 2, 3, 8}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(w) + " workers");
      const double slack = 100 * w * step;
      const double parallel = simulate(w, fibers(w, 1), {.seed = seed});
      EXPECT_GE(parallel, 1);
      EXPECT_LE(parallel, 1 + slack);
      const double alone = simulate(1, fibers(w, 1), {.seed = seed});
      EXPECT_GE(alone, w);
      EXPECT_LE(alone, w + slack);
      const double rounds = simulate(w, fibers(4 * w, 0.25), {.seed = seed});
      EXPECT_GE(rounds, 1);
      EXPECT_LE(rounds, 1 + slack);
    }
}

/// Two fibers in turns, each waiting for the other.
void chain(void (*work)(double)) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto body = [work] {
      channel<int> there(1), back(1);
      fiber other([&] {
        for (int i = 0; i < 10; ++i) {
          there.pop();
          work(0.5);
          back.push(i);
        }
      });
      for (int i = 0; i < 10; ++i) {
        there.push(i);
        back.pop();
      }
      other.join();
    };
    const double t = simulate(4, body, {.seed = seed});
    ASSERT_GE(t, 5) << "seed " << seed;
    ASSERT_LE(t, 5 + 1000 * step) << "seed " << seed;
  }
}

void loop(void (*work)(double)) {
  const auto body = [work] { parallel_for(0, 64, [work](int) { work(1e-3); }, {.grain = 1}); };
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    ASSERT_NEAR(simulate(1, body, {.seed = seed}), 64e-3, 1e-4) << "seed " << seed;
    const double t = simulate(4, body, {.seed = seed});
    ASSERT_GE(t, 16e-3) << "seed " << seed;
    ASSERT_LE(t, 40e-3) << "seed " << seed; // a thief may get more than its share
  }
}

TEST(sim, a_chain_takes_as_long_on_many_workers) { chain(charge_and_yield); }
TEST(sim, tasklets_share_the_work) { loop(charge_and_yield); }
// What is sent later than a receiver's clock is received too early. sim::charge prevents that:
// workers that are behind run first.
TEST(sim, charge_keeps_the_order_of_time) { chain(sim::charge); }
TEST(sim, charging_tasklets_share_the_work) { loop(sim::charge); }

TEST(sim, sleeping_takes_virtual_time) {
  const double began = steady_seconds();
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    simulate(
        3,
        [] {
          for (const std::chrono::nanoseconds d : {0ns, 1ns, 500ns, 10'000ns, 1'000'000'000ns, 86'400'000'000'000ns}) {
            const auto begin = fiber_clock::now();
            this_fiber::sleep_for(d);
            const auto took = fiber_clock::now() - begin;
            EXPECT_GE(took, d);
            EXPECT_LE(took, d + 2us) << d.count();
          }
          const auto begin = fiber_clock::now();
          std::vector<fiber> all;
          for (int i = 1; i <= 20; ++i)
            all.emplace_back([=] {
              this_fiber::sleep_until(begin + i * 1ms);
              EXPECT_GE(fiber_clock::now(), begin + i * 1ms);
              EXPECT_LE(fiber_clock::now(), begin + i * 1ms + 5us);
            });
          for (auto& f : all) f.join();
        },
        {.seed = seed});
  EXPECT_LT(steady_seconds() - began, 3600);
}

TEST(sim, timeouts_are_virtual) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    simulate(2,
             [] {
               const auto within = [](std::chrono::nanoseconds d, const std::function<void()>& f) {
                 const auto begin = fiber_clock::now();
                 f();
                 EXPECT_GE(fiber_clock::now() - begin, d);
                 EXPECT_LE(fiber_clock::now() - begin, d + 5us);
               };
               mutex m, taken;
               condition_variable c;
               channel<int> empty(1);
               semaphore none(0);
               promise<int> p;
               auto f = p.get_future();
               taken.lock();
               within(1h, [&] { EXPECT_EQ(f.wait_for(1h), future_status::timeout); });
               within(2h, [&] { EXPECT_FALSE(empty.pop_for(2h)); });
               within(3h, [&] { EXPECT_FALSE(none.try_acquire_for(3h)); });
               within(4h, [&] { fiber([&] { EXPECT_FALSE(taken.try_lock_for(4h)); }).join(); });
               within(5h, [&] {
                 std::unique_lock hold(m);
                 EXPECT_EQ(c.wait_for(hold, 5h), std::cv_status::timeout);
               });
               taken.unlock();
             },
             {.seed = seed});
}

TEST(sim, a_later_run_goes_on_with_the_time) {
  sim::simulation world;
  EXPECT_EQ(world.seconds(), 0);
  EXPECT_EQ(world.events(), 0u);
  double last = 0;
  for (int i = 1; i <= 3; ++i) {
    const std::uint64_t hash = world.trace_hash(), events = world.events();
    scheduler s({.workers = i, .simulation = &world});
    s.run([&] {
      EXPECT_GE(fiber_clock::now().time_since_epoch(), i * 1s - 1s);
      sim::charge(1);
    });
    EXPECT_GT(world.events(), events);
    EXPECT_NE(world.trace_hash(), hash);
    EXPECT_GE(world.seconds(), last + 1);
    EXPECT_LE(world.seconds(), last + 1 + 100 * step);
    last = world.seconds();
  }
}

TEST(sim, steps_take_what_is_said) {
  const auto turns = [] {
    for (int i = 0; i < 10'000; ++i) this_fiber::yield();
  };
  EXPECT_NEAR(simulate(1, turns), 10'000 * step, 500 * step);
  EXPECT_NEAR(simulate(1, turns, {.step_seconds = 1e-3}), 10, 0.5);
}

TEST(sim, charge_refuses_what_is_no_time) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto refused = [&] {
    for (const double t : {-1.0, -1e-300, nan, infinity})
      EXPECT_THAT(text_of(errc::invalid_argument, [&] { sim::charge(t); }), HasSubstr("sim::charge was given"));
  };
  refused();
  EXPECT_LT(simulate(1, refused), 100 * step);
}

} // namespace
} // namespace tern
