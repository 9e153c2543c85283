// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/activations.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/semaphore.hpp>

namespace tern::detail {
namespace {

using namespace std::chrono_literals;

/// Runs a function each time; what is left is counted.
struct piece final : activation {
  explicit piece(unique_function<void()> f)
      : activation([](activation& a) noexcept { static_cast<piece&>(a).body(); },
                   [](activation& a) noexcept { ++static_cast<piece&>(a).times_left; }),
        body(std::move(f)) {}
  unique_function<void()> body;
  std::atomic<int> times_left{0};
};

void run(int workers, const std::function<void(scheduler_core&)>& main) {
  scheduler s({.workers = workers});
  s.run([&] { main(s.inside()); });
}

TEST(activations, run_in_the_order_in_which_they_are_ready) {
  run(1, [](scheduler_core& core) {
    std::vector<int> order;
    semaphore done(0);
    std::vector<std::unique_ptr<piece>> all;
    for (int i = 0; i < 100; ++i)
      all.push_back(std::make_unique<piece>([&, i] {
        order.push_back(i);
        EXPECT_TRUE(activation_fiber::may_continue());
        if (i == 99) done.release(1);
      }));
    for (const auto& a : all) core.activations.ready(*a, 0, false);
    done.acquire();
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
      EXPECT_EQ(all[static_cast<std::size_t>(i)]->times_left, 0);
    }
  });
}

TEST(activations, one_that_waits_is_left_and_the_next_goes_on) {
  run(1, [](scheduler_core& core) {
    semaphore gate(0), done(0);
    bool behind = true;
    piece waits([&] {
      gate.acquire();
      behind = activation_fiber::may_continue();
      done.release(1);
    });
    piece opens([&] { gate.release(1); });
    core.activations.ready(waits, 0, false);
    core.activations.ready(opens, 0, false);
    done.acquire();
    EXPECT_EQ(waits.times_left, 1);
    EXPECT_EQ(opens.times_left, 0);
    EXPECT_FALSE(behind);
  });
}

TEST(activations, one_that_is_given_up_is_left_at_once) {
  run(1, [](scheduler_core& core) {
    semaphore done(0);
    int left_then = -1;
    bool mine = true;
    piece gives([&] {
      activations::give_up();
      left_then = gives.times_left;
      mine = activation_fiber::may_continue();
      activations::give_up(); // has no effect
      done.release(1);
    });
    core.activations.ready(gives, 0, false);
    done.acquire();
    EXPECT_EQ(left_then, 1);
    EXPECT_EQ(gives.times_left, 1);
    EXPECT_FALSE(mine);
  });
}

// Each keeps its worker until the other has begun.
TEST(activations, an_idle_worker_takes_what_a_busy_one_has) {
  for (int round = 0; round < 50; ++round)
    run(2, [&](scheduler_core& core) {
      if (round % 2 != 0) this_fiber::sleep_for(1ms); // the other one sleeps
      std::atomic<int> begun{0};
      semaphore done(0);
      const auto meet = [&] {
        ++begun;
        while (begun < 2) std::this_thread::yield();
        done.release(1);
      };
      piece one(meet), other(meet);
      const int here = scheduler::current_worker();
      core.activations.ready(one, here, false);
      core.activations.ready(other, here, false);
      done.acquire();
      done.acquire();
    });
}

// The last one too, if its owner does not come to it.
TEST(activations, a_fiber_that_keeps_its_worker_keeps_nothing_else) {
  for (int round = 0; round < 50; ++round)
    run(2, [&](scheduler_core& core) {
      if (round % 2 != 0) this_fiber::sleep_for(1ms);
      std::atomic<bool> ran{false};
      piece one([&] { ran = true; });
      core.activations.ready(one, scheduler::current_worker(), false);
      while (!ran) std::this_thread::yield();
    });
}

TEST(activations, threads_that_are_no_workers_make_them_ready) {
  run(2, [](scheduler_core& core) {
    semaphore done(0);
    std::vector<std::unique_ptr<piece>> all;
    for (int i = 0; i < 64; ++i) all.push_back(std::make_unique<piece>([&] { done.release(1); }));
    std::thread other([&] {
      for (std::size_t i = 0; i < all.size(); ++i) core.activations.ready(*all[i], static_cast<int>(i % 2), false);
    });
    for (std::size_t i = 0; i < all.size(); ++i) done.acquire();
    other.join();
  });
}

// The run does not end before.
TEST(activations, what_is_ready_runs_before_the_end) {
  for (const int workers : {1, 2}) {
    std::atomic<int> ran{0};
    std::vector<std::unique_ptr<piece>> all;
    for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<piece>([&] { ++ran; }));
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->level = static_cast<std::uint8_t>(i % 3);
    run(workers, [&](scheduler_core& core) {
      for (const auto& a : all) core.activations.ready(*a, 0, true);
    });
    EXPECT_EQ(ran, 100);
  }
}

} // namespace
} // namespace tern::detail
