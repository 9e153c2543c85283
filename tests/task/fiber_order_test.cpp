// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which fiber runs when and where: priorities, yielding, pinned fibers.
#include <tern/task/fiber.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include <tern/task/future.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/task_group.hpp>

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere_briefly;
using test_support::on_workers;

// Priorities and giving way -------------------------------------------------------------------------------------------

TEST(fiber_order, priorities_decide_who_runs_first) {
  std::string order;
  on_workers(1, [&] {
    latch all(30);
    for (int i = 0; i < 10; ++i)
      for (const auto& [level, letter] :
           {std::pair{priority::low, 'l'}, std::pair{priority::normal, 'n'}, std::pair{priority::high, 'h'}})
        scheduler::current()->spawn(
            [&, mine = letter] {
              order += mine;
              all.count_down();
            },
            {.priority = level});
    all.wait();
  });
  EXPECT_EQ(order, "hhhhhhhhhhnnnnnnnnnnllllllllll");
}

TEST(fiber_order, an_awakened_one_goes_by_its_priority_too) {
  std::string order;
  on_workers(1, [&] {
    latch go(1), all(3);
    for (const auto& [level, letter] :
         {std::pair{priority::low, 'l'}, std::pair{priority::normal, 'n'}, std::pair{priority::high, 'h'}})
      scheduler::current()->spawn(
          [&, mine = letter] {
            go.wait();
            order += mine;
            all.count_down();
          },
          {.priority = level});
    this_fiber::sleep_for(1us); // they wait now: it comes back as the others do
    wait_until([&] { return scheduler::current()->live_fibers() == 4; });
    for (int i = 0; i < 10; ++i) this_fiber::yield();
    go.count_down();
    all.wait();
  });
  EXPECT_EQ(order, "hnl");
}

// Pairs of `busy` priority that wake each other for ever, and one of `patient` that must get its
// turns nevertheless.
void expect_no_starvation(priority busy, priority patient, int workers) {
  SCOPED_TRACE("priority " + std::to_string(static_cast<int>(busy)) + " against " +
               std::to_string(static_cast<int>(patient)));
  constexpr long enough = 1'000'000;
  std::atomic<bool> done{false};
  std::atomic<long> rounds{0};
  const auto over = [&] { return done || ++rounds > enough; };
  on_workers(workers, [&] {
    struct two {
      semaphore first{0}, second{0};
    };
    std::deque<two> ready(static_cast<std::size_t>(workers));
    std::vector<fiber> all;
    for (auto& r : ready) {
      all.emplace_back(
          [&] {
            while (!over()) {
              r.second.release();
              r.first.acquire();
            }
            r.second.release();
          },
          fiber_options{.priority = busy});
      all.emplace_back(
          [&] {
            while (!over()) {
              r.second.acquire();
              r.first.release();
            }
            r.first.release();
          },
          fiber_options{.priority = busy});
    }
    fiber waits(
        [&] {
          for (int i = 0; i < 5; ++i) this_fiber::yield();
          done = true;
        },
        {.priority = patient});
    for (auto& f : all) f.join();
    waits.join();
  });
  EXPECT_LE(rounds, enough);
}

TEST(fiber_order, no_priority_starves) {
  for (const int workers : {1, 2})
    for (const priority busy : {priority::high, priority::normal, priority::low})
      for (const priority patient : {priority::high, priority::normal, priority::low})
        expect_no_starvation(busy, patient, workers);
}

TEST(fiber_order, those_that_yield_take_turns) {
  constexpr std::size_t fibers = 5;
  constexpr int turns = 2000;
  std::array<int, fibers> had{};
  int most_ahead = 0;
  on_workers(1, [&] {
    std::vector<fiber> all;
    latch go(1);
    for (std::size_t i = 0; i < fibers; ++i)
      all.emplace_back([&, i] {
        go.wait();
        for (int k = 0; k < turns; ++k) {
          ++had[i];
          most_ahead = std::max(most_ahead, had[i] - *std::min_element(had.begin(), had.end()));
          this_fiber::yield();
        }
      });
    go.count_down();
    for (auto& f : all) f.join();
  });
  EXPECT_EQ(had, (std::array<int, fibers>{turns, turns, turns, turns, turns}));
  EXPECT_LE(most_ahead, 2); // 1, and one that had begun when the worker had a look around
}

// Each fiber waits, by yielding, for what only a fiber of another kind can bring.
TEST(fiber_order, yielding_lets_everybody_run) {
  everywhere_briefly(
      [] {
        std::atomic<int> seen{0};
        const auto ask = [&] {
          while (seen < 5) this_fiber::yield();
        };
        fiber a(ask, {.priority = priority::high}), b(ask, {.worker = 0});
        const auto tell = [&] { ++seen; };
        fiber low(tell, {.priority = priority::low}), pinned(tell, {.worker = 0}), sleeper([&] {
          this_fiber::sleep_for(1us);
          tell();
        });
        task_group g;
        g.run(tell);
        scheduler::current()->spawn(tell);
        ask();
        g.wait();
        EXPECT_EQ(seen, 5);
      },
      5);
  on_workers(1, [] { // a foreign thread
    std::atomic<bool> came{false};
    scheduler& here = *scheduler::current();
    std::thread outside([&] { here.spawn([&] { came = true; }); });
    fiber other([&] {
      while (!came) this_fiber::yield();
    });
    while (!came) this_fiber::yield();
    outside.join();
  });
}

TEST(fiber_order, waits_until_something_is_so) {
  everywhere_briefly(
      [] {
        bool set = false;
        fiber setter(
            [&] {
              for (int i = 0; i < 3; ++i) this_fiber::yield();
              set = true;
            },
            {.worker = 0});
        fiber asker([&] { wait_until([&] { return set; }); }, {.worker = 0}); // one worker: a plain variable will do
        asker.join();
        EXPECT_TRUE(set);
        EXPECT_TRUE(wait_until([&] { return set; }, 0ns));
        EXPECT_FALSE(wait_until([] { return false; }, 1us));
        EXPECT_THROW(wait_until([]() -> bool { throw std::logic_error("asked"); }), std::logic_error);
      },
      5);
  std::atomic<bool> set{false};
  std::thread setter([&] { set = true; });
  wait_until([&] { return set.load(); }); // on a foreign thread
  EXPECT_TRUE(set);
  setter.join();
}

// Pinned fibers -------------------------------------------------------------------------------------------------------

TEST(fiber_order, pinned_ones_stay_where_they_are) {
  constexpr int workers = 4;
  const auto body = [] {
    mutex m;
    latch began(workers * 2);
    semaphore poke(0);
    std::vector<fiber> all;
    for (int i = 0; i < workers * 2; ++i) {
      const int mine = i % workers;
      all.emplace_back(
          [&, mine] {
            const auto here = [&] { return scheduler::current_worker() == mine; };
            EXPECT_TRUE(here());
            began.count_down();
            for (int k = 0; k < 3; ++k) {
              this_fiber::yield();
              EXPECT_TRUE(here());
              this_fiber::sleep_for(1us);
              EXPECT_TRUE(here());
              poke.acquire(); // released by a foreign thread, or by any worker
              EXPECT_TRUE(here());
              std::lock_guard hold(m);
              this_fiber::yield();
              EXPECT_TRUE(here());
            }
            fiber([] {}).join(); // the worker that ends it would go on in us
            EXPECT_TRUE(here());
            fiber([] { this_fiber::yield(); }).join();
            EXPECT_TRUE(here());
            fiber other([] {}, {.worker = (mine + 1) % workers});
            other.join();
            EXPECT_TRUE(here());
            async([] { return 1; }).get();
            EXPECT_TRUE(here());
            task_group g;
            for (int t = 0; t < 5; ++t) g.run([] { this_fiber::yield(); });
            g.wait();
            EXPECT_TRUE(here());
          },
          fiber_options{.worker = mine});
    }
    began.wait();
    if (sim::active())
      poke.release(workers * 2 * 3);
    else
      std::thread([&] {
        for (int i = 0; i < workers * 2 * 3; ++i) poke.release();
      }).join();
    for (auto& f : all) f.join();
  };
  for (int i = 0; i < 10; ++i) on_workers(workers, body);
  test_support::simulated(body, workers, 300);
}

TEST(fiber_order, pinned_ones_are_not_stolen_from_a_busy_worker) {
  for (int i = 0; i < 20; ++i)
    on_workers(4, [] {
      std::atomic<bool> release{false};
      latch holds(1);
      int ran_on = -1;
      fiber holder(
          [&] {
            holds.count_down();
            while (!release) std::this_thread::yield(); // without giving way
          },
          {.worker = 1});
      holds.wait(); // woken there, so another worker must take us from there
      fiber waits([&] { ran_on = scheduler::current_worker(); }, {.worker = 1});
      for (int k = 0; k < 100; ++k) fiber([] { this_fiber::yield(); }).join(); // others have every chance
      EXPECT_EQ(ran_on, -1);
      release = true;
      waits.join();
      EXPECT_EQ(ran_on, 1);
      holder.join();
    });
}

// The last moment: the fiber is sent while its worker lies down, and main ends before that has
// looked once more.
TEST(fiber_order, a_pinned_one_sent_at_the_end_still_runs) {
  struct slow_look final : work_source {
    bool produce(int) override {
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin < 20us) {
      }
      return false;
    }
    bool has_work() const noexcept override { return false; }
  } slow;
  for (int i = 0; i < 2000; ++i) {
    std::atomic<int> sent{0}, ran{0};
    scheduler s({.workers = 2, .spin = std::chrono::microseconds(0), .source = &slow});
    ASSERT_EQ(s.run([&] {
      for (int k = 0; k <= i % 3; ++k) {
        const int here = scheduler::current_worker();
        ++sent;
        s.spawn([&] { ++ran; }, {.worker = 1 - here});
      }
    }),
              0u);
    ASSERT_EQ(ran, sent);
  }
}

} // namespace
} // namespace tern
