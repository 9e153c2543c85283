// SPDX-License-Identifier: Apache-2.0
/// \file
/// Time limits that race what they limit, in fibers and foreign threads.
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

// Races ---------------------------------------------------------------------------------------------------------------

/// Somewhere around the moment at which the others do it.
void sleep_a_little(int i) { this_fiber::sleep_for(nanoseconds(1000 + 100 * i)); }

TEST(timers, sleep_races_stop) {
  std::array<int, 2> outcomes{};
  simulated([&] {
    std::stop_source stop;
    const moment begin = fiber_clock::now();
    fiber sleeper([&] {
      const moment since = fiber_clock::now();
      const bool whole = this_fiber::sleep_for(1us, stop.get_token());
      ++outcomes[whole ? 1 : 0];
      EXPECT_TRUE(whole ? fiber_clock::now() - since >= 1us : stop.stop_requested());
      EXPECT_LT(fiber_clock::now() - begin, 100us);
    });
    fiber stops([&] {
      sleep_a_little(0);
      stop.request_stop();
    });
    sleeper.join();
    stops.join();
  });
  EXPECT_GT(outcomes[0], 0); // every race has been run both ways
  EXPECT_GT(outcomes[1], 0);
}

TEST(timers, condition_variable_races) {
  std::array<int, 3> outcomes{};
  const auto body = [&] {
    auto held = std::make_shared<int>(0);
    {
      mutex m;
      condition_variable changed;
      bool ready = false;
      std::stop_source stop;
      fiber waits([&, held] {
        const moment due = fiber_clock::now() + 1200ns;
        std::unique_lock lock(m);
        const bool got = changed.wait_until(lock, stop.get_token(), due, [&] { return ready; });
        EXPECT_TRUE(lock.owns_lock());
        EXPECT_EQ(got, ready);
        if (!got) {
          EXPECT_TRUE(stop.stop_requested() || fiber_clock::now() >= due);
        }
        ++outcomes[got ? 0 : fiber_clock::now() < due ? 1 : 2];
      });
      fiber notifies([&, held] {
        sleep_a_little(1);
        {
          const std::lock_guard hold(m);
          ready = true;
        }
        changed.notify_one();
      });
      fiber stops([&, held] {
        sleep_a_little(2);
        stop.request_stop();
      });
      waits.join();
      notifies.join();
      stops.join();
    }
    EXPECT_EQ(held.use_count(), 1);
  };
  simulated(body);
  for (const int n : outcomes) EXPECT_GT(n, 0);
  for (int i = 0; i < 200; ++i) on_workers(4, body);
}

TEST(timers, a_notification_wakes_one_that_has_not_given_up) {
  std::array<int, 4> outcomes{};
  simulated([&] {
    mutex m;
    condition_variable changed;
    int notified = 0, waiting = 0, owed = 0;
    std::vector<fiber> all;
    for (int i = 0; i < 3; ++i)
      all.emplace_back([&, i] {
        std::unique_lock lock(m);
        ++waiting;
        const moment due = fiber_clock::now() + nanoseconds(1000 + 200 * i);
        if (changed.wait_until(lock, due) == std::cv_status::no_timeout)
          ++notified;
        else if (fiber_clock::now() < due)
          ADD_FAILURE() << "too early";
        --waiting;
      });
    all.emplace_back([&] {
      sleep_a_little(1);
      for (int i = 0; i < 2; ++i) {
        const std::lock_guard hold(m);
        if (waiting > 0) ++owed;
        changed.notify_one();
      }
    });
    for (auto& f : all) f.join();
    EXPECT_LE(notified, owed);
    EXPECT_EQ(waiting, 0);
    ++outcomes[static_cast<std::size_t>(notified)];
  });
  if (test_support::seeds() < 1000) return; // under a sanitizer: too few for all of them
  EXPECT_GT(outcomes[0], 0);
  EXPECT_GT(outcomes[1], 0);
  EXPECT_GT(outcomes[2], 0);
  EXPECT_EQ(outcomes[3], 0);
}

TEST(timers, future_races) {
  std::array<int, 2> timed{}, stopped{};
  const auto body = [&] {
    auto held = std::make_shared<int>(7);
    {
      promise<std::shared_ptr<int>> p;
      auto first = p.get_future();
      promise<int> q;
      auto second = q.get_future();
      std::stop_source stop;
      fiber a([&] {
        const moment due = fiber_clock::now() + 1us;
        const auto how = first.wait_until(due);
        ++timed[how == future_status::ready ? 0 : 1];
        if (how == future_status::timeout) {
          EXPECT_GE(fiber_clock::now(), due);
        }
        EXPECT_EQ(*first.get(), 7);
      });
      fiber b([&] {
        try {
          EXPECT_EQ(second.get(stop.get_token()), 8);
          ++stopped[0];
        } catch (const error& e) {
          EXPECT_EQ(e.code(), errc::cancelled);
          EXPECT_TRUE(stop.stop_requested());
          EXPECT_TRUE(second.valid());
          ++stopped[1];
          EXPECT_EQ(second.get(), 8);
        }
      });
      fiber sets([&] {
        sleep_a_little(0);
        p.set_value(held);
        q.set_value(8);
      });
      fiber stops([&] {
        sleep_a_little(1);
        stop.request_stop();
      });
      a.join();
      b.join();
      sets.join();
      stops.join();
    }
    EXPECT_EQ(held.use_count(), 1);
  };
  simulated(body);
  for (const int n : {timed[0], timed[1], stopped[0], stopped[1]}) EXPECT_GT(n, 0);
  for (int i = 0; i < 200; ++i) on_workers(4, body);
}

TEST(timers, no_permit_is_lost) {
  const auto body = [] {
    semaphore permits(0);
    std::atomic<int> taken{0};
    std::vector<fiber> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([&, i] {
        if (permits.try_acquire_for(nanoseconds(1000 + 100 * i))) ++taken;
      });
    for (int i = 0; i < 3; ++i)
      all.emplace_back([&, i] {
        sleep_a_little(i);
        permits.release();
      });
    for (auto& f : all) f.join();
    int left = 0;
    while (permits.try_acquire()) ++left;
    EXPECT_EQ(taken + left, 3);
  };
  simulated(body);
  for (int i = 0; i < 200; ++i) on_workers(4, body);
}

// Foreign threads -----------------------------------------------------------------------------------------------------

TEST(timers, foreign_threads) {
  const moment begin = fiber_clock::now();
  this_fiber::sleep_for(1ms);
  this_fiber::sleep_until(begin + 2ms);
  this_fiber::sleep_until(std::chrono::system_clock::now() + 1ms);
  EXPECT_GE(fiber_clock::now() - begin, 3ms);
  EXPECT_FALSE(wait_until([] { return false; }, 1ms));
  mutex m;
  condition_variable never;
  std::unique_lock lock(m);
  const moment due = fiber_clock::now() + 1ms;
  EXPECT_EQ(never.wait_until(lock, due), std::cv_status::timeout);
  EXPECT_GE(fiber_clock::now(), due);
  EXPECT_FALSE(never.wait_for(lock, 1ms, [] { return false; }));
  promise<int> p;
  auto value = p.get_future();
  EXPECT_EQ(value.wait_for(1ms), future_status::timeout);
  EXPECT_FALSE(semaphore(0).try_acquire_for(1ms));
  std::stop_source stop;
  std::thread asks([&] { stop.request_stop(); });
  EXPECT_FALSE(this_fiber::sleep_for(1h, stop.get_token()));
  asks.join();
  EXPECT_FALSE(this_fiber::sleep_for(1h, stop.get_token())); // set already
}

TEST(timers, foreign_threads_race_fibers) {
  for (int i = 0; i < 100; ++i)
    on_workers(2, [i] {
      mutex m;
      condition_variable changed;
      bool ready = false;
      std::stop_source stop;
      promise<int> p;
      auto value = p.get_future();
      latch begin(2), over(2);
      std::thread first([&] {
        begin.count_down();
        const moment due = fiber_clock::now() + 100us;
        {
          std::unique_lock lock(m);
          const bool got = changed.wait_until(lock, stop.get_token(), due, [&] { return ready; });
          EXPECT_EQ(got, ready);
          if (!got) {
            EXPECT_TRUE(stop.stop_requested() || fiber_clock::now() >= due);
          }
        }
        over.count_down();
      });
      std::thread second([&] {
        begin.count_down();
        const moment due = fiber_clock::now() + 100us;
        if (value.wait_until(due) == future_status::timeout) {
          EXPECT_GE(fiber_clock::now(), due);
        }
        EXPECT_EQ(value.get(), i);
        over.count_down();
      });
      begin.wait();
      this_fiber::sleep_for(i * 2us);
      fiber stops([&] { stop.request_stop(); });
      {
        const std::lock_guard hold(m);
        ready = true;
      }
      changed.notify_all();
      p.set_value(i);
      over.wait();
      first.join();
      second.join();
    });
}

} // namespace
} // namespace tern
