// SPDX-License-Identifier: Apache-2.0
#include <tern/net/simulate.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/transport/sim/sim_job.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/sync.hpp>

namespace tern::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

outcome job(const std::string& text, const std::function<int()>& main) { return run(parse_world(text), main); }

/// What the job's error says; empty if it had none.
std::string trouble(const std::string& text, const std::function<int()>& main) {
  try {
    job(text, main);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::deadlock);
    return e.what();
  }
  return {};
}

int handled = 0; // by all ranks, which live on this thread
void count() { ++handled; }
int twice(int x) { return 2 * x; }
void nothing_comes() {
  tern::channel<int> c(1);
  (void)c.pop();
}

TEST(simulate, ranks_know_themselves) {
  std::vector<int> seen;
  const auto o = job("ranks=5", [&] {
    seen.push_back(rank());
    EXPECT_EQ(size(), 5);
    EXPECT_TRUE(active());
    return rank();
  });
  EXPECT_EQ(o.code, 4); // the largest
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_FALSE(active());
  EXPECT_GT(o.messages, 0u);
  EXPECT_GT(o.seconds, 0);
}

TEST(simulate, again_and_again) {
  for (int i = 0; i < 20; ++i) {
    handled = 0;
    job("ranks=3,workers=2", [] {
      for (int r = 0; r < size(); ++r) send<&count>(r);
      EXPECT_EQ(call<&twice>((rank() + 1) % size(), 21).get(), 42);
      return 0;
    });
    EXPECT_EQ(handled, 9);
  }
}

TEST(simulate, a_thousand_ranks) {
  handled = 0;
  const auto o = job("ranks=1000,topology=fat-tree:16:8:8", [] {
    send<&count>((rank() * 7 + 1) % size());
    EXPECT_EQ(allreduce(rank(), std::plus<>()), 999 * 500);
    return 0;
  });
  EXPECT_EQ(handled, 1000);
  EXPECT_GT(o.messages, 10'000u);
}

// Of many ranks the first of each group goes through a barrier's rounds for the others.
TEST(simulate, barriers_of_any_number_of_ranks) {
  for (const int ranks : {1, 2, 3, 63, 64, 65, 71, 72, 73, 80, 127, 128, 200, 1001}) {
    int arrived = 0;
    const auto messages = [&](int barriers) {
      arrived = 0;
      return job("faults=delay,ranks=" + std::to_string(ranks),
                 [&] {
                   for (int i = 1; i <= barriers; ++i) {
                     tern::this_fiber::sleep_for(std::chrono::microseconds((rank() * 37 + i * 11) % 100));
                     ++arrived;
                     barrier();
                     EXPECT_GE(arrived, i * ranks) << "of " << ranks;
                   }
                   return 0;
                 })
          .messages;
    };
    constexpr int further = tern::detail::sanitized ? 2 : 10;
    const std::uint64_t few = messages(2), more = messages(2 + further);
    EXPECT_EQ(arrived, (2 + further) * ranks);
    if (ranks > 64) {
      EXPECT_LT(more, few + further * 4 * static_cast<std::uint64_t>(ranks)) << "of " << ranks;
    }
  }
}

TEST(simulate, equal_seeds_are_equal_and_others_differ) {
  const auto program = [] {
    for (int i = 0; i < 5; ++i) send<&count>((rank() + i) % size());
    tern::this_fiber::sleep_for(std::chrono::microseconds(50 * rank()));
    quiesce();
    return 0;
  };
  std::set<std::uint64_t> hashes;
  for (int seed = 1; seed <= 10; ++seed) {
    const std::string world = "ranks=4,workers=2,faults=delay:reorder,seed=" + std::to_string(seed);
    const auto one = job(world, program), other = job(world, program);
    EXPECT_EQ(one.trace_hash, other.trace_hash);
    EXPECT_EQ(one.events, other.events);
    EXPECT_EQ(one.seconds, other.seconds);
    EXPECT_EQ(one.messages, other.messages);
    hashes.insert(one.trace_hash);
  }
  EXPECT_EQ(hashes.size(), 10u);
}

// Virtual time advances while all fibers sleep.
TEST(simulate, hours_pass_at_once) {
  const auto o = job("ranks=2", [] {
    const auto began = fiber_clock::now();
    tern::this_fiber::sleep_for(std::chrono::hours(rank() + 1));
    EXPECT_GE(fiber_clock::now() - began, std::chrono::hours(rank() + 1));
    barrier();
    return 0;
  });
  EXPECT_GE(o.seconds, 7200);
  EXPECT_LT(o.seconds, 7201);
}

TEST(simulate, latency_is_what_was_said) {
  const auto round_trip = [](const std::string& latency) {
    double seconds = 0;
    job("ranks=2,jitter=0,latency=" + latency, [&] {
      barrier();
      const auto began = fiber_clock::now();
      if (rank() == 0) call<&twice>(1, 1).get();
      if (rank() == 0) seconds = std::chrono::duration<double>(fiber_clock::now() - began).count();
      return 0;
    });
    return seconds;
  };
  const double one = round_trip("1ms"), five = round_trip("5ms");
  EXPECT_NEAR(five - one, 8e-3, 1e-5);
}

// What goes wrong -----------------------------------------------------------------------------------------------------

constexpr bool counts_leaks = tern::detail::address_sanitizer; // and what fibers own that wait for ever is leaked

TEST(simulate, a_job_that_waits_for_ever_ends_at_once) {
  if (counts_leaks) GTEST_SKIP() << "leaks what waiting fibers own";
  const std::string text = trouble("ranks=3,seed=9", [] {
    if (rank() == 1) nothing_comes();
    barrier();
    return 0;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("nothing can happen any more at "), HasSubstr("3 of 3 ranks have not ended"),
                          HasSubstr("rank 1: "), HasSubstr("waits for channel"), HasSubstr("'main'")));
  // The next job is not concerned.
  EXPECT_EQ(job("ranks=3", [] { return 7; }).code, 7);
}

TEST(simulate, a_crash_leaves_the_others_waiting_and_says_why) {
  if (counts_leaks) GTEST_SKIP() << "leaks what waiting fibers own";
  const std::string text = trouble("ranks=4,faults=crash=2@1ms", [] {
    tern::this_fiber::sleep_for(std::chrono::milliseconds(2));
    EXPECT_NE(rank(), 2);
    barrier();
    return 0;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("3 of 4 ranks have not ended"), HasSubstr("s rank 2 crashed"),
                          HasSubstr("ordered by the option 'faults'"), Not(HasSubstr("\nrank 2:"))));
}

TEST(simulate, a_crash_that_comes_too_late_is_none) {
  const auto o = job("ranks=3,faults=crash=1@10s", [] { return 0; });
  EXPECT_EQ(o.code, 0);
  EXPECT_LT(o.seconds, 1);
}

TEST(simulate, a_pause_takes_its_time) {
  const auto o = job("ranks=3,faults=pause=1@10us+500ms", [] {
    tern::this_fiber::sleep_for(std::chrono::milliseconds(1));
    barrier();
    return 0;
  });
  EXPECT_GE(o.seconds, 0.5);
  EXPECT_LT(o.seconds, 0.51);
  ASSERT_EQ(o.faults.size(), 1u);
  EXPECT_THAT(o.faults[0], HasSubstr("rank 1 was paused for 0.5"));
}

TEST(simulate, a_slow_rank_is_slow) {
  std::vector<double> took(3);
  const auto o = job("ranks=3,faults=slow=2@8", [&] {
    const auto began = fiber_clock::now();
    charge(1e-3);
    took[static_cast<std::size_t>(rank())] = std::chrono::duration<double>(fiber_clock::now() - began).count();
    return 0;
  });
  EXPECT_NEAR(took[0], 1e-3, 1e-5);
  EXPECT_NEAR(took[2], 8e-3, 1e-4);
  EXPECT_THAT(o.faults[0], HasSubstr("rank 2 is 8"));
}

std::vector<int> order; // (sender, number) of what arrived at rank 0
void arrive(int sender, int n) { order.push_back(sender * 1000 + n); }

TEST(simulate, delays_reorder_senders_but_no_pair) {
  std::set<std::vector<int>> orders;
  for (int seed = 1; seed <= 30; ++seed) {
    order.clear();
    job("ranks=3,faults=delay:reorder,seed=" + std::to_string(seed), [] {
      for (int i = 0; i < 20 && rank() > 0; ++i) send<&arrive>(0, rank(), i);
      return 0;
    });
    ASSERT_EQ(order.size(), 40u);
    std::vector<int> next(3);
    for (const int x : order) EXPECT_EQ(x % 1000, next[static_cast<std::size_t>(x / 1000)]++);
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 20u);
}

TEST(simulate, an_impossible_world_is_refused) {
  world w;
  w.ranks = 4;
  w.faults.crash.push_back({7, 1});
  try {
    run(w, [] { return 0; });
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_THAT(e.what(), HasSubstr("7"));
  }
}

TEST(replay_command, runs_this_program_in_that_world) {
  const std::string text = detail::replay_command(parse_world("ranks=3,seed=12,faults=delay"), "a b.json");
  EXPECT_THAT(text, AllOf(HasSubstr("TERN_SIM="), HasSubstr("ranks=3"), HasSubstr("seed=12"), HasSubstr("faults="),
                          HasSubstr("tern_net_test"), HasSubstr("TERN_TRACE='a b.json'")));
  setenv("TERN_STARTED", "/gone", 1); // of `tern sim`, which is another each time
  EXPECT_THAT(detail::replay_command({}, ""), AllOf(Not(HasSubstr("TERN_TRACE")), Not(HasSubstr("TERN_STARTED"))));
  unsetenv("TERN_STARTED");
}

} // namespace
} // namespace tern::sim
