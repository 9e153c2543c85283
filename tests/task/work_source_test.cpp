// SPDX-License-Identifier: Apache-2.0
// Where workers without work ask for more; what looks after events only; and how long a fiber has
// run.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

#include "tests/task/support/executors.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::on_workers;

/// So many pieces of work, each a fiber.
struct shelf final : work_source {
  explicit shelf(unique_function<void()> w) : work(std::move(w)) {}
  bool produce(int worker) override {
    int n = left.load();
    while (n > 0 && !left.compare_exchange_weak(n, n - 1)) {
    }
    if (n <= 0) return false;
    {
      const std::lock_guard hold(guard);
      by.push_back(worker);
    }
    scheduler::current()->spawn([this] { work(); });
    return true;
  }
  bool has_work() const noexcept override { return left.load() > 0; }
  std::atomic<int> left{0};
  unique_function<void()> work;
  std::mutex guard;
  std::vector<int> by;
};

TEST(work_source, is_asked_until_it_has_nothing) {
  for (const int workers : {1, 2, 4}) {
    std::atomic<int> done{0};
    shelf s([&] { ++done; });
    scheduler sched({.workers = workers, .source = &s});
    sched.run([&] {
      for (int round = 1; round <= 20; ++round) {
        s.left += 50;
        scheduler::current()->notify();
        wait_until([&] { return done == 50 * round; });
      }
    });
    EXPECT_EQ(done, 1000);
    EXPECT_EQ(s.by.size(), 1000u);
  }
}

TEST(work_source, counts_for_the_end_and_for_rest) {
  std::atomic<int> done{0};
  shelf s([&] { ++done; });
  scheduler sched({.workers = 2, .source = &s});
  sched.run([&] {
    s.left += 100;
    scheduler::current()->notify();
    scheduler::current()->quiesce();
    EXPECT_EQ(done, 100);
    s.left += 100;
    scheduler::current()->notify();
  });
  EXPECT_EQ(done, 200); // main did not wait for them
}

// Twelve seconds of work for four workers; no worker begins before there is something.
TEST(work_source, is_shared_in_virtual_time) {
  for (int seed = 1; seed <= 20; ++seed) {
    sim::simulation world({.seed = static_cast<std::uint64_t>(seed), .preempt = 0});
    shelf s([] { sim::charge(1); });
    scheduler sched({.workers = 4, .source = &s, .simulation = &world});
    sched.run([&] {
      sim::charge(5);
      s.left = 12;
      scheduler::current()->notify();
    });
    EXPECT_NEAR(world.seconds(), 8, 1e-3) << "seed " << seed;
  }
}

// One of three looks after events only.
TEST(work_source, is_nothing_for_who_polls_apart) {
  sim::simulation world({.seed = 3, .preempt = 0});
  shelf s([] { sim::charge(1); });
  std::atomic<int> on_first{0};
  scheduler sched({.workers = 3, .poll_apart = true, .source = &s, .simulation = &world});
  sched.run([&] {
    std::vector<future<void>> some;
    for (int i = 0; i < 4; ++i)
      some.push_back(async([&] {
        if (scheduler::current_worker() == 0) ++on_first;
        sim::charge(1);
      }));
    for (auto& f : some) f.get();
    s.left = 6;
    scheduler::current()->notify();
    fiber bound([] { EXPECT_EQ(scheduler::current_worker(), 0); }, {.worker = 0});
    bound.join();
  });
  EXPECT_EQ(on_first, 0);
  for (const int w : s.by) EXPECT_NE(w, 0);
  EXPECT_NEAR(world.seconds(), 2 + 3, 1e-3);
}

TEST(run_timer, counts_what_a_fiber_runs_and_not_what_it_waits) {
  on_workers(2, [] {
    const auto spin = [](std::chrono::milliseconds time) {
      const auto end = std::chrono::steady_clock::now() + time;
      while (std::chrono::steady_clock::now() < end) {
      }
    };
    async([&] {
      const detail::run_timer all;
      spin(3ms);
      this_fiber::sleep_for(40ms);
      const detail::run_timer inner;
      spin(2ms);
      EXPECT_GE(inner.seconds(), 2e-3);
      EXPECT_GE(all.seconds(), 5e-3);
      EXPECT_LT(all.seconds() - inner.seconds(), 39e-3);
    }).get();
  });
}

TEST(run_timer, counts_in_simulations_what_is_charged) {
  sim::simulation world({.preempt = 0.5});
  scheduler sched({.workers = 2, .simulation = &world});
  sched.run([] {
    std::vector<future<void>> all;
    for (int i = 1; i <= 5; ++i)
      all.push_back(async([i] {
        const detail::run_timer time;
        for (int k = 0; k < i; ++k) {
          sim::charge(0.5);
          this_fiber::sleep_for(2s);
        }
        EXPECT_NEAR(time.seconds(), 0.5 * i, 1e-3);
      }));
    for (auto& f : all) f.get();
  });
}

} // namespace
} // namespace tern
