// SPDX-License-Identifier: Apache-2.0
#include <tern/net/rank_failure.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/future.hpp>

#ifdef TERN_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace tern {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Runs a job that a crash leaves waiting for ever. \return what was said of it.
std::string crippled(const std::string& world, const std::function<int()>& main) {
#ifdef TERN_ASAN
  const __lsan::ScopedDisabler stuck; // fibers that are given up are not unwound: what their stacks own is lost
#endif
  try {
    sim::run(sim::parse_world(world), main);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::deadlock);
    return e.what();
  }
  return {};
}

struct event {
  int at, lost;
  double when, heard;
  std::string host, text;
  bool in_fiber;
};
double in_seconds(fiber_clock::time_point t) { return std::chrono::duration<double>(t.time_since_epoch()).count(); }

TEST(rank_failure, survivors_are_told_once) {
  std::vector<event> events;
  crippled("ranks=5,host=2,workers=2,faults=crash=3@2ms:crash=0@4ms", [&] {
    on_rank_failure([&](const rank_failure& f) {
      events.push_back(
          {rank(), f.rank, in_seconds(f.when), in_seconds(fiber_clock::now()), f.host, f.text, scheduler::in_fiber()});
      this_fiber::sleep_for(1us); // it may wait
    });
    this_fiber::sleep_for(20ms);
    barrier();
    return 0;
  });
  std::map<std::pair<int, int>, int> times;
  for (const event& e : events) {
    ++times[{e.at, e.lost}];
    EXPECT_TRUE(e.lost == 3 || e.lost == 0);
    EXPECT_NEAR(e.when, e.lost == 3 ? 2e-3 : 4e-3, 1e-5);
    EXPECT_GT(e.heard, e.when);
    EXPECT_LT(e.heard, e.when + 3e-3);
    EXPECT_EQ(e.host, e.lost == 3 ? "simulated host 1" : "simulated host 0");
    EXPECT_THAT(e.text, HasSubstr("rank " + std::to_string(e.lost) + " crashed at 0.00"));
    EXPECT_TRUE(e.in_fiber);
  }
  // Rank 0 hears of 3 before it crashes itself, or never: at 2 ms and at most 2 ms later.
  times.erase({0, 3});
  std::map<std::pair<int, int>, int> expected;
  for (const int at : {1, 2, 4})
    for (const int lost : {0, 3}) expected[{at, lost}] = 1;
  EXPECT_EQ(times, expected);
}

TEST(rank_failure, who_asks_late_is_told_too_and_all_functions_are_called_in_order) {
  std::vector<int> calls;
  crippled("ranks=2,faults=crash=1@1ms", [&] {
    if (rank() == 0) {
      on_rank_failure([&](const rank_failure&) { calls.push_back(1); });
      on_rank_failure([&](const rank_failure&) { calls.push_back(2); });
      this_fiber::sleep_for(10ms);
      on_rank_failure([&](const rank_failure&) { calls.push_back(3); });
    }
    this_fiber::sleep_for(10ms);
    return 0;
  });
  EXPECT_EQ(calls, (std::vector<int>{1, 2, 3}));
}

TEST(rank_failure, nobody_is_told_without_a_crash) {
  int calls = 0;
  sim::run(sim::parse_world("ranks=6,faults=delay:pause=1@1ms+50ms:slow=2@20"), [&] {
    on_rank_failure([&](const rank_failure&) { ++calls; });
    this_fiber::sleep_for(100ms);
    barrier();
    return 0;
  });
  EXPECT_EQ(calls, 0);
}

// Asking changes nothing else of a run.
TEST(rank_failure, runs_are_the_same_whether_somebody_asks) {
  const auto hash = [](bool asks) {
    return sim::run(sim::parse_world("ranks=4,faults=delay:reorder,seed=5"),
                    [&] {
                      if (asks) on_rank_failure([](const rank_failure&) {});
                      for (int i = 0; i < 5; ++i) barrier();
                      return 0;
                    })
        .trace_hash;
  };
  EXPECT_EQ(hash(true), hash(false));
}

TEST(rank_failure, is_nothing_for_other_threads) {
  EXPECT_THROW(on_rank_failure([](const rank_failure&) {}), error);
}

TEST(rank_failure, does_nothing_where_ranks_are_threads) {
  int argc = 1;
  char name[] = "test";
  char* argv[] = {name, nullptr};
  EXPECT_EQ(run(argc, argv, [] { on_rank_failure([](const rank_failure&) {}); }), 0);
}

} // namespace
} // namespace tern
