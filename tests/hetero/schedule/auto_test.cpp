// SPDX-License-Identifier: Apache-2.0
// The default policy: by bytes at first, by times when most of them are known.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/placed.hpp"
#include <tern/hetero/recorded.hpp>

namespace tern::hetero {
namespace {

using testing::HasSubstr;
using namespace placed;

constexpr const char* said = "policy auto: from now on dmda places tasks, as ";

options two(const std::string& words = ",speed=1,speed=4@1") { return devices(2, words, "auto"); }

/// \return what the simulation has logged.
template <class F> std::string log_of(const options& opts, F&& f) {
  testing::internal::CaptureStderr();
  simulate(opts, std::forward<F>(f));
  return testing::internal::GetCapturedStderr();
}

TEST(auto_policy, is_the_default) { EXPECT_EQ(options()[hetero_policy], "auto"); }

TEST(auto_policy, goes_by_times_once_most_are_known) {
  std::vector<std::uint64_t> early, late;
  const std::string log = log_of(two(), [&] {
    early = tasks_in([] { independent(20, "simulated0"); });
    for (int round = 0; round < 4; ++round) independent(100);
    late = tasks_in([] { independent(400); });
  });
  EXPECT_GE(early[1], 10u) << "where the data are, but for what an idle device takes";
  EXPECT_NEAR(static_cast<double>(late[2]), 320, 16) << "as under dmda";
  EXPECT_THAT(log, HasSubstr(said));
  EXPECT_THAT(log, HasSubstr("% of their time was in kernels with models; --tern-hetero-policy=locality"));
  EXPECT_EQ(log.find(said), log.rfind(said)) << "once";
}

TEST(auto_policy, what_waits_when_it_changes_runs_all_the_same) {
  simulate(two(",speed=1"), [] {
    object one({rows, columns}, 0u);
    std::vector<object> all;
    for (int i = 0; i < 300; ++i) all.emplace_back(extents<2>{rows, columns}, 0u);
    for (const object& o : all) { // all are submitted before the first ends
      adding(o).submit();
      hetero_task t = adding(one);
      t.priority(1).submit();
    }
    for (const object& o : all) EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 1u);
    EXPECT_EQ(one.host(access_mode::read).get()(0, 0), 300u);
  });
}

TEST(auto_policy, stays_where_times_are_not_measured) {
  const auto many = [] {
    for (int round = 0; round < 5; ++round) independent(100);
  };
  options without = two();
  without.set(hetero_models, "off");
  EXPECT_EQ(log_of(without, many).find(said), std::string::npos);
  const std::string functions = log_of(two(), [] {
    object x({rows, columns}, 0u);
    recorded twice("twice");
    for (int i = 0; i < 100; ++i) {
      twice.submit([&] {
        for (int k = 0; k < 2; ++k)
          submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(x), read_write(x));
      });
      wait_all();
    }
  });
  EXPECT_EQ(functions.find(said), std::string::npos) << functions;
}

TEST(auto_policy, a_slow_start_does_not_count_for_good) {
  const std::string log = log_of(two(",slow-first=2000"), [] { // half a second, 2,000 tasks' time
    for (int round = 0; round < 6; ++round) independent(100);
  });
  EXPECT_THAT(log, HasSubstr(said));
}

TEST(auto_policy, a_lost_device_is_left_out) {
  lose_the_second_of_two(two(",lose=40@1"), [] {});
}

TEST(auto_policy, a_seed_gives_one_simulation) {
  const auto once = [](std::uint64_t seed) {
    return simulate(
        two(),
        [] {
          for (int round = 0; round < 8; ++round) independent(60);
        },
        seed);
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(once(seed), once(seed));
}

} // namespace
} // namespace tern::hetero
