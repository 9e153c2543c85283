// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sleeping and time limits, as fibers and foreign threads see them; the wheel itself is tested in
/// timer_wheel_test.cpp.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/barrier.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sync.hpp>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/in_child.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using test_support::everywhere_briefly;
using test_support::on_workers;
using test_support::sanitized;
using test_support::simulated;
using testing::HasSubstr;
using moment = fiber_clock::time_point;

constexpr nanoseconds exactly = 2us; // in a simulation: what a few steps take

/// Works, without any suspension, until `done()`, but not for ever.
template <class F> void busy_until(F&& done) {
  const auto begin = std::chrono::steady_clock::now();
  while (!done() && std::chrono::steady_clock::now() - begin < 30s) {
  }
}

// Sleeping ------------------------------------------------------------------------------------------------------------

TEST(timers, wake_in_order_of_deadline) {
  const auto body = [] {
    std::vector<int> woken;
    std::vector<fiber> all;
    const moment begin = fiber_clock::now();
    constexpr std::array waits{7, 2, 9, 1, 5, 3, 8, 0, 6, 4};
    for (const int i : waits)
      all.emplace_back([&, i] {
        const moment due = begin + 1ms + i * 200us;
        this_fiber::sleep_until(due);
        EXPECT_GE(fiber_clock::now(), due);
        if (sim::active()) {
          EXPECT_LT(fiber_clock::now(), due + exactly);
        }
        woken.push_back(i);
      });
    for (auto& f : all) f.join();
    EXPECT_EQ(woken.size(), waits.size());
    // A real worker that was away for a while finds several due at once; then their order is not
    // guaranteed.
    EXPECT_TRUE(!sim::active() || std::is_sorted(woken.begin(), woken.end()));
  };
  for (int i = 0; i < 10; ++i) on_workers(1, body);
  simulated(body, 3, 500);
}

TEST(timers, sleep_for_at_least) {
  everywhere_briefly([] {
    for (const nanoseconds d :
         {nanoseconds(-1s), nanoseconds(0), nanoseconds(1), nanoseconds(1us), nanoseconds(300us)}) {
      const moment begin = fiber_clock::now();
      this_fiber::sleep_for(d);
      EXPECT_GE(fiber_clock::now() - begin, d);
    }
    const moment begin = fiber_clock::now();
    this_fiber::sleep_until(begin - 1h);
    this_fiber::sleep_until(moment::min());
    this_fiber::sleep_until(std::chrono::steady_clock::now() - 1h);
    this_fiber::sleep_until(std::chrono::system_clock::now() - 1h);
    this_fiber::sleep_until(begin + 100us);
    EXPECT_GE(fiber_clock::now(), begin + 100us);
    const std::stop_token never;
    EXPECT_TRUE(this_fiber::sleep_for(10us, never));
    EXPECT_GE(fiber_clock::now(), begin + 110us);
  });
}

// Half of them on one worker, half on four.
TEST(timers, a_million) {
  const int fibers = sanitized ? 100 : 1000, rounds = sanitized ? 200 : 1000;
  for (const int workers : {1, 4}) {
    scheduler s({.workers = workers, .stack_bytes = std::size_t{64} * 1024, .name = "test"});
    std::atomic<std::int64_t> waits{0}, early{0};
    EXPECT_EQ(s.run([&] {
      for (int i = 0; i < fibers; ++i)
        s.spawn([&, i] {
          for (int k = 0; k < rounds / 2; ++k) {
            const nanoseconds d((i * 7919 + k * 104'729) % 30'000 + 1);
            const moment begin = fiber_clock::now();
            this_fiber::sleep_for(d);
            if (fiber_clock::now() - begin < d) ++early;
            ++waits;
          }
        });
    }),
              0u);
    EXPECT_EQ(waits, std::int64_t{fibers} * (rounds / 2));
    EXPECT_EQ(early, 0);
  }
}

TEST(timers, late_but_not_lost_while_all_workers_compute) {
  on_workers(1, [] {
    const moment begin = fiber_clock::now();
    moment woken{};
    fiber sleeper([&] {
      this_fiber::sleep_for(1ms);
      woken = fiber_clock::now();
    });
    this_fiber::yield(); // it sleeps
    busy_until([&] { return fiber_clock::now() - begin > 20ms; });
    EXPECT_EQ(woken, moment{});
    sleeper.join();
    EXPECT_GE(woken - begin, 20ms);
  });
  on_workers(2, [] {
    std::atomic<int> woken{0};
    std::vector<fiber> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([&] {
        this_fiber::sleep_for(1ms);
        ++woken;
      });
    for (int i = 0; i < 4; ++i)
      all.emplace_back([&] {
        const moment begin = fiber_clock::now();
        busy_until([&] { return fiber_clock::now() - begin > 5ms; });
      });
    for (auto& f : all) f.join();
    EXPECT_EQ(woken, 4);
  });
  simulated(
      [] {
        std::vector<fiber> all;
        const moment begin = fiber_clock::now();
        all.emplace_back([&] {
          this_fiber::sleep_for(1ms);
          // Three of four work for a second each, one of them is here.
          EXPECT_GE(fiber_clock::now() - begin, 1ms);
          EXPECT_LT(fiber_clock::now() - begin, 2s + exactly);
        });
        for (int i = 0; i < 4; ++i) all.emplace_back([] { sim::charge(1); });
        for (auto& f : all) f.join();
      },
      3, 500);
}

TEST(timers, sleepers_keep_run_going) {
  std::atomic<int> woken{0};
  const auto body = [&] {
    woken = 0;
    for (int i = 0; i < 3; ++i)
      fiber([&, i] {
        this_fiber::sleep_for(i * 300us);
        // And what they make does.
        scheduler::current()->spawn([&] {
          this_fiber::sleep_for(1ms);
          ++woken;
        });
      }).detach();
  };
  for (const int workers : {1, 2, 4})
    for (int i = 0; i < 5; ++i) {
      on_workers(workers, body);
      ASSERT_EQ(woken, 3);
    }
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 3, .simulation = &world});
    ASSERT_EQ(s.run(body), 0u);
    ASSERT_EQ(woken, 3) << "seed " << seed;
    ASSERT_GE(world.seconds(), 1.6e-3);
    ASSERT_LT(world.seconds(), 1.7e-3);
  }
}

TEST(timers, an_early_one_is_not_late_because_others_sleep_longer) {
  for (const int workers : {2, 4})
    for (int i = 0; i < 3; ++i)
      on_workers(workers, [workers] {
        scheduler& s = *scheduler::current();
        fiber late([](const std::stop_token& stop) { EXPECT_FALSE(this_fiber::sleep_for(1h, stop)); });
        // The others have gone to sleep, most likely until then.
        const std::uint64_t parks = s.counters().parks;
        wait_until([&] { return s.counters().parks >= parks + static_cast<std::uint64_t>(workers); }, 1s);
        std::atomic<bool> sleeps{false}, woken{false};
        fiber early([&] {
          sleeps = true;
          this_fiber::sleep_for(1ms);
          woken = true;
        });
        while (!sleeps) this_fiber::yield();
        const auto begin = std::chrono::steady_clock::now();
        busy_until([&] { return woken.load(); }); // this worker cannot see to it
        EXPECT_TRUE(woken);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
        late.request_stop();
      });
}

// Far away ------------------------------------------------------------------------------------------------------------

TEST(timers, long_times_are_exact) {
  simulated(
      [] {
        using std::chrono::days;
        using std::chrono::years;
        const moment begin = fiber_clock::now();
        std::vector<fiber> all;
        std::vector<int> woken;
        int number = 0;
        for (const nanoseconds d :
             {nanoseconds(1ns), nanoseconds(1s), nanoseconds(1h), nanoseconds(24h), nanoseconds(24h + 1ms),
              nanoseconds(days(31)), nanoseconds(years(1)), nanoseconds(years(100)), nanoseconds(years(290))})
          all.emplace_back([&, d, i = number++] {
            const moment due = begin + d;
            this_fiber::sleep_until(due);
            EXPECT_GE(fiber_clock::now(), due);
            EXPECT_LT(fiber_clock::now(), due + exactly);
            woken.push_back(i);
          });
        for (auto& f : all) f.join();
        EXPECT_THAT(woken, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
      },
      3, 300);
}

TEST(timers, the_longest_times_are_no_limits) {
  everywhere_briefly(
      [] {
        mutex m;
        condition_variable changed;
        int stage = 0;
        const auto stage_is = [&](int n) { return [&stage, n] { return stage >= n; }; }; // it may look late
        promise<int> p;
        auto value = p.get_future();
        semaphore permits(0);
        fiber waits([&] {
          std::unique_lock lock(m);
          EXPECT_TRUE(changed.wait_for(lock, std::chrono::hours::max(), stage_is(1)));
          EXPECT_TRUE(changed.wait_until(lock, moment::max(), stage_is(2)));
          EXPECT_TRUE(changed.wait_until(lock, std::chrono::steady_clock::time_point::max(), stage_is(3)));
          EXPECT_TRUE(changed.wait_until(lock, std::chrono::system_clock::time_point::max(), stage_is(4)));
          EXPECT_TRUE(changed.wait_for(lock, nanoseconds::max(), stage_is(5)));
          EXPECT_TRUE(changed.wait_for(lock, std::chrono::duration<double>(1e300), stage_is(6)));
        });
        fiber also([&] {
          EXPECT_EQ(value.wait_for(std::chrono::hours::max()), future_status::ready);
          EXPECT_TRUE(permits.try_acquire_for(std::chrono::hours::max()));
          EXPECT_TRUE(permits.try_acquire_until(moment::max()));
        });
        std::vector<fiber> sleepers;
        for (int i = 0; i < 3; ++i)
          sleepers.emplace_back([i](const std::stop_token& stop) {
            EXPECT_FALSE(this_fiber::sleep_for(i == 0 ? nanoseconds::max() : nanoseconds::max() / i, stop));
          });
        for (int i = 1; i <= 6; ++i) {
          this_fiber::sleep_for(10us);
          {
            const std::lock_guard hold(m);
            stage = i;
          }
          changed.notify_all();
        }
        p.set_value(1);
        this_fiber::sleep_for(10us);
        permits.release();
        this_fiber::sleep_for(10us);
        permits.release();
        waits.join();
        also.join();
      },
      3, 200);
}

TEST(timers, sleeping_for_ever_is_waiting_for_nothing) {
  testing::internal::CaptureStderr();
  for (const bool simulate : {false, true}) {
    sim::simulation world;
    scheduler s({.workers = 2, .name = "test", .simulation = simulate ? &world : nullptr});
    EXPECT_EQ(s.run([] {
      fiber([] { this_fiber::sleep_for(nanoseconds::max()); }, {.name = "a stone"}).detach();
      fiber([] { this_fiber::sleep_until(moment::max()); }, {.name = "another"}).detach();
    }),
              2u);
    EXPECT_EQ(s.live_fibers(), 2u);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("given up: "), HasSubstr("a stone"), HasSubstr("another")));
}

TEST(timers, what_was_not_needed_takes_no_time) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 3, .simulation = &world});
    ASSERT_EQ(s.run([] {
      promise<int> p;
      auto value = p.get_future();
      fiber sleeper([](const std::stop_token& stop) { EXPECT_FALSE(this_fiber::sleep_for(24h, stop)); });
      fiber waits([&] { EXPECT_EQ(value.wait_for(24h), future_status::ready); });
      this_fiber::sleep_for(1ms);
      p.set_value(1);
    }),
              0u);
    ASSERT_LT(world.seconds(), 2e-3) << "seed " << seed; // and the timers are gone
  }
}

} // namespace
} // namespace tern
