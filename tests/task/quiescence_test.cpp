// SPDX-License-Identifier: Apache-2.0
// Waiting until nothing goes on: scheduler::quiesce.
#include <tern/task/scheduler.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include <tern/base/error.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/task_group.hpp>

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere;

scheduler& here() { return *scheduler::current(); }

TEST(rest, is_there_at_once_for_one_that_is_alone) {
  everywhere([] {
    for (const bool timers : {false, true})
      for (int i = 0; i < 20; ++i) here().quiesce(timers);
  });
}

TEST(rest, comes_when_all_have_ended_or_wait) {
  everywhere([] {
    semaphore never(0);
    std::vector<future<void>> waiting;
    std::atomic<int> done{0};
    for (int i = 0; i < 20; ++i) {
      waiting.push_back(async([&] { never.acquire(); }));
      here().spawn([&] {
        for (int k = 0; k < 20; ++k) this_fiber::yield();
        async([&] { this_fiber::yield(); }).get();
        ++done;
      });
    }
    here().quiesce();
    EXPECT_EQ(done, 20);
    for (const auto& w : waiting) EXPECT_FALSE(w.ready());
    never.release(20);
    for (auto& w : waiting) w.get();
  });
}

TEST(rest, of_fibers_does_not_wait_for_timers_and_that_of_timers_does) {
  everywhere(
      [] {
        std::atomic<int> woken{0};
        // Long enough that the first rest comes before on any machine; in a simulation no time
        // passes otherwise.
        const auto asleep = [&] {
          this_fiber::sleep_for(300ms);
          ++woken;
        };
        for (int i = 0; i < 10; ++i) here().spawn(asleep);
        semaphore never(0);
        bool in_time = true;
        auto limited = async([&] { in_time = never.try_acquire_for(300ms); });
        here().quiesce();
        EXPECT_EQ(woken, 0);
        EXPECT_FALSE(limited.ready());
        here().quiesce(true);
        EXPECT_EQ(woken, 10);
        EXPECT_TRUE(limited.ready());
        EXPECT_FALSE(in_time);
      },
      1);
}

TEST(rest, several_that_wait_for_it_do_not_wait_for_each_other) {
  everywhere([] {
    std::atomic<int> rested{0}, busy{0};
    std::vector<future<void>> all;
    for (int i = 0; i < 8; ++i)
      all.push_back(async([&, i] {
        ++busy;
        for (int k = 0; k < 10 * i; ++k) this_fiber::yield();
        --busy;
        here().quiesce(i % 2 == 0);
        EXPECT_EQ(busy, 0);
        ++rested;
      }));
    for (auto& f : all) f.get();
    EXPECT_EQ(rested, 8);
  });
}

// Tasklets, loops, fibers that wake each other, by chance; then none may be at anything.
TEST(rest, is_never_early) {
  everywhere([] {
    static std::minstd_rand random(7); // other numbers each time
    for (int round = 0; round < 4; ++round) {
      auto at_work = std::make_shared<std::atomic<int>>(0);
      const int fibers = static_cast<int>(random() % 10);
      for (int i = 0; i < fibers; ++i) {
        ++*at_work;
        here().spawn([at_work, i] {
          std::atomic<int> sum{0};
          if (i % 3 == 0) parallel_for(0, 200, [&](int k) { sum += k; });
          semaphore a(0), b(0);
          auto other = async([&] {
            for (int k = 0; k < 20; ++k) {
              a.acquire();
              b.release();
            }
          });
          for (int k = 0; k < 20; ++k) {
            a.release();
            b.acquire();
          }
          other.get();
          if (i % 4 == 0) {
            ++*at_work;
            here().spawn([at_work] {
              this_fiber::yield();
              --*at_work;
            });
          }
          --*at_work;
        });
      }
      here().quiesce(round % 2 == 0);
      ASSERT_EQ(*at_work, 0) << "round " << round;
    }
  });
}

TEST(rest, is_for_fibers_of_the_scheduler_only) {
  scheduler one({.workers = 1}), other({.workers = 1});
  EXPECT_THROW(one.quiesce(), error);
  one.run([&] {
    EXPECT_THROW(other.quiesce(), error);
    one.quiesce();
  });
}

} // namespace
} // namespace tern
