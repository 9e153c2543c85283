// SPDX-License-Identifier: Apache-2.0
/// \file
/// Several schedulers in one simulation.
#include <tern/task/sim.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/task_group.hpp>

#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::text_of;
using testing::HasSubstr;

struct crowd {
  explicit crowd(int n, sim::settings s = {}, int workers = 1) : world(s) {
    for (int i = 0; i < n; ++i)
      all.push_back(std::make_unique<scheduler>(
          scheduler::settings{.workers = workers, .name = "s" + std::to_string(i), .simulation = &world}));
  }
  std::vector<std::exception_ptr> run(const std::function<void(int)>& main) {
    std::vector<sim::simulation::member> members;
    for (std::size_t i = 0; i < all.size(); ++i)
      members.push_back({all[i].get(), [&main, i] { main(static_cast<int>(i)); }});
    return world.run(members);
  }
  sim::simulation world;
  std::vector<std::unique_ptr<scheduler>> all; // go before their world
};

TEST(simulated_together, each_runs_its_main_on_its_own_workers) {
  crowd c(10, {}, 2);
  std::set<int> ran;
  for (const auto& e : c.run([&](int i) {
         EXPECT_EQ(scheduler::current(), c.all[static_cast<std::size_t>(i)].get());
         tern::this_fiber::sleep_for(1us);
         EXPECT_EQ(scheduler::current(), c.all[static_cast<std::size_t>(i)].get());
         std::atomic<int> sum{0};
         tern::parallel_for(0, 100, [&](int k) { sum += k; });
         EXPECT_EQ(sum, 4950);
         ran.insert(i);
       }))
    EXPECT_EQ(e, nullptr);
  EXPECT_EQ(ran.size(), 10u);
}

// The worker that is behind in virtual time comes first, whatever scheduler it belongs to.
TEST(simulated_together, time_is_common) {
  crowd c(5, {.seed = 3});
  std::vector<std::int64_t> moments;
  c.run([&](int i) {
    for (int k = 0; k < 50; ++k) {
      sim::charge(1e-6 * (i + 1));
      moments.push_back(fiber_clock::now().time_since_epoch().count());
    }
  });
  EXPECT_EQ(moments.size(), 250u);
  for (std::size_t i = 1; i < moments.size(); ++i) EXPECT_GE(moments[i], moments[i - 1]);
  EXPECT_NEAR(c.world.seconds(), 250e-6, 20e-6); // they work at the same time
}

TEST(simulated_together, fibers_of_different_schedulers_meet) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    crowd c(3, {.seed = seed}, 2);
    channel<int> to_next[3] = {channel<int>(1), channel<int>(1), channel<int>(1)};
    int last = 0;
    for (const auto& e : c.run([&](int i) {
           for (int k = 0; k < 20; ++k) {
             const int x = i == 0 && k == 0 ? 0 : to_next[i].pop().value();
             last = x + 1;
             if (k < 19 || i < 2) to_next[(i + 1) % 3].push(x + 1);
           }
         }))
      ASSERT_EQ(e, nullptr) << seed;
    EXPECT_EQ(last, 60);
  }
}

TEST(simulated_together, equal_seeds_give_equal_hashes) {
  const auto once = [](std::uint64_t seed) {
    crowd c(20, {.seed = seed}, 2);
    c.run([&](int i) {
      fiber other([i] { tern::this_fiber::sleep_for(std::chrono::microseconds(i)); });
      other.join();
    });
    return std::pair(c.world.trace_hash(), c.world.events());
  };
  EXPECT_EQ(once(4), once(4));
  EXPECT_NE(once(4), once(5));
}

TEST(simulated_together, each_tells_its_own_trouble) {
  crowd c(3);
  channel<int> never(1);
  const auto failed = c.run([&](int i) {
    if (i == 0) throw std::runtime_error("broke");
    if (i == 1) never.pop();
  });
  ASSERT_EQ(failed.size(), 3u);
  EXPECT_THROW(std::rethrow_exception(failed[0]), std::runtime_error);
  EXPECT_THAT(text_of(errc::deadlock, [&] { std::rethrow_exception(failed[1]); }),
              testing::AllOf(HasSubstr("main waits and nothing can run"), HasSubstr("waits for channel")));
  EXPECT_EQ(failed[2], nullptr);
}

TEST(simulated_together, one_after_the_other_in_a_world_that_goes_on) {
  sim::simulation world;
  for (int i = 1; i <= 5; ++i) {
    scheduler a({.simulation = &world}), idle({.simulation = &world}), b({.simulation = &world});
    idle.spawn([] { ADD_FAILURE() << "it was not to run"; });
    sim::simulation::member both[2] = {{&a, [] { sim::charge(1); }}, {&b, [] { sim::charge(0.5); }}};
    for (const auto& e : world.run(both)) EXPECT_EQ(e, nullptr);
    EXPECT_NEAR(world.seconds(), i, 1e-3);
  }
}

TEST(simulated_together, strangers_and_second_runs_are_refused) {
  sim::simulation world;
  scheduler stranger({});
  sim::simulation::member one[1] = {{&stranger, [] {}}};
  EXPECT_THAT(text_of(errc::invalid_argument, [&] { world.run(one); }), HasSubstr("not in this simulation"));
  sim::simulation::member none[1] = {};
  EXPECT_THAT(text_of(errc::invalid_argument, [&] { world.run(none); }), HasSubstr("not in this simulation"));
  scheduler s({.simulation = &world}), other({.simulation = &world});
  s.run([&] {
    sim::simulation::member inner[1] = {{&other, [] {}}};
    EXPECT_THAT(text_of(errc::invalid_state, [&] { world.run(inner); }), HasSubstr("one scheduler at a time"));
  });
  sim::simulation::member again[1] = {{&s, [] {}}};
  EXPECT_THAT(text_of(errc::invalid_state, [&] { world.run(again); }), HasSubstr("called twice"));
  bool ran = false;
  scheduler third({.simulation = &world});
  sim::simulation::member both[3] = {{&other, [&] { ran = true; }}, {&third, [] {}}, {&other, [&] { ran = true; }}};
  EXPECT_THAT(text_of(errc::invalid_state, [&] { world.run(both); }), HasSubstr("called twice"));
  EXPECT_FALSE(ran); // before any has begun
  for (const auto& e : world.run(std::span(both).first(2))) EXPECT_EQ(e, nullptr);
  EXPECT_TRUE(ran);
}

// What a scheduler's given-up fibers own may be what another's wait for, in whatever order they go.
TEST(simulated_together, given_up_ones_may_own_what_others_wait_for) {
  for (const bool first : {true, false}) {
    crowd c(2);
    channel<int> never(1);
    promise<int> p;
    auto f = p.get_future();
    const auto failed = c.run([&](int i) {
      if (i == 0) f.get();
      fiber keeper([p = std::move(p), &never]() mutable {
        never.pop();
        p.set_value(1);
      });
      keeper.join();
    });
    EXPECT_TRUE(failed[0] && failed[1]);
    c.all[first ? 0 : 1].reset();
    c.all[first ? 1 : 0].reset();
  }
}

// Runs alone, but belongs here: many tasklets, of a spawner that may run on one worker only.
TEST(simulated_together, a_bound_spawner_pauses_and_goes_on) {
  for (const int workers : {1, 2}) {
    sim::simulation world({.seed = 3});
    scheduler s({.workers = workers, .simulation = &world});
    std::atomic<int> ran{0};
    s.run([&] {
      fiber spawner(
          [&] {
            task_group g;
            for (int i = 0; i < 20'000; ++i) g.run([&] { ++ran; });
            g.wait();
          },
          {.worker = 0});
      spawner.join();
    });
    EXPECT_EQ(ran, 20'000);
  }
}

// How a loop is cut must not depend on how long its parts really take.
TEST(simulated_together, loops_are_cut_the_same_each_time) {
  const auto once = [] {
    sim::simulation world({.seed = 3});
    scheduler s({.workers = 4, .simulation = &world});
    volatile double sink = 0;
    s.run([&] {
      tern::parallel_for(0, 20'000, [&](int i) {
        double x = i;
        for (int k = 0; k < 300; ++k) x = x * 1.0000001 + 1;
        if (x < 0) sink = x;
      });
    });
    return world.trace_hash();
  };
  const auto hash = once();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(once(), hash);
}

TEST(simulated_together, no_fiber_goes_back_in_time) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    crowd c(2, {.seed = seed}, 2);
    channel<int> a(4), b(4);
    c.run([&](int i) {
      auto last = fiber_clock::now();
      for (int k = 0; k < 100; ++k) {
        sim::charge(i == 0 ? 1e-6 : 1e-9);
        i == 0 ? a.push(k) : b.push(k);
        (i == 0 ? b : a).pop();
        ASSERT_GE(fiber_clock::now(), last) << seed;
        last = fiber_clock::now();
      }
    });
  }
}

} // namespace
} // namespace tern
