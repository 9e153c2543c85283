// SPDX-License-Identifier: Apache-2.0
// Policies that go by expected times, beside `dmda` (dmda_test.cpp): `steal` and `energy`.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/placed.hpp"
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero {
namespace {

using namespace placed;
using testing::AllOf;
using testing::HasSubstr;

void warm_all(int devices) {
  for (int d = 0; d < devices; ++d) {
    warm("simulated" + std::to_string(d));
    for (int i = 0; i < 4; ++i) { // copies of that size, there and back
      object x({rows, columns}, 0u);
      x.prefetch("simulated" + std::to_string(d));
      wait_all();
      hetero_task t = adding(x);
      t.on("simulated" + std::to_string(d)).submit().wait();
      EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 1u);
    }
  }
}

// Stealing ------------------------------------------------------------------------------------------------------------

TEST(steal, like_devices_share_what_lies_on_one) {
  simulate(devices(4, "", "steal"), [] {
    warm_all(4);
    double taken = 0;
    auto ran = tasks_in([&] { taken = independent(400, "simulated0"); });
    ran[1] -= 400; // prefetches
    for (std::size_t d = 1; d < 5; ++d) EXPECT_NEAR(static_cast<double>(ran[d]), 100, 8) << d;
    EXPECT_LT(taken, 1.05 * 100 * kernel_seconds);
  });
}

TEST(steal, not_what_takes_longer_to_copy_than_it_would_wait) {
  simulate(devices(2, "", "steal", "10k"), [] { // a tenth of a second for each object, both ways
    warm_all(2);
    EXPECT_EQ(tasks_in([] { independent(40, "simulated0"); })[2], 0u) << "ten milliseconds in all";
  });
}

TEST(steal, takes_those_from_the_end) {
  simulate(devices(2, "", "steal"), [] {
    warm_all(2);
    std::vector<object> all;
    for (int i = 0; i < 100; ++i) all.emplace_back(extents<2>{rows, columns}, 0u);
    for (const object& o : all) o.prefetch("simulated0");
    wait_all();
    for (const object& o : all) {
      hetero_task t = adding(o);
      t.submit();
    }
    wait_all();
    const auto where = [&](int i) { // what is on one device only was written there
      const auto before = count().bytes_from_devices;
      static_cast<void>(all[static_cast<std::size_t>(i)].host(access_mode::read).get());
      return count().bytes_from_devices - before;
    };
    EXPECT_GT(where(0), 0u);
  });
}

TEST(steal, among_unlike_devices_it_goes_by_expected_ends) {
  simulate(devices(2, ",speed=1,speed=4@1", "steal"), [] {
    warm_all(2);
    double taken = 0;
    const auto ran = tasks_in([&] { taken = independent(400); });
    EXPECT_NEAR(static_cast<double>(ran[2]), 320, 16);
    EXPECT_LT(taken, 1.1 * 400 * kernel_seconds / 5);
  });
}

TEST(steal, a_lost_device_leaves_its_tasks_to_others) {
  lose_the_second_of_two(devices(2, ",lose=60@1", "steal"), [] { warm_all(2); });
}

TEST(steal, a_seed_gives_one_simulation) {
  const auto once = [](std::uint64_t seed) {
    return simulate(
        devices(3, "", "steal"),
        [] {
          for (int round = 0; round < 4; ++round) independent(60, "simulated1");
        },
        seed);
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(once(seed), once(seed));
}

// Energy --------------------------------------------------------------------------------------------------------------

constexpr const char* frugal_is_fast = ",power=100,power=300@1,speed=1,speed=20@1";

TEST(energy, takes_the_device_that_needs_less_if_the_whole_is_hardly_longer) {
  std::uint64_t slow = 0;
  double dmda_taken = 0, energy_taken = 0;
  simulate(devices(2, frugal_is_fast, "dmda"), [&] {
    warm_all(2);
    slow = tasks_in([&] { dmda_taken = independent(420); })[1];
  });
  EXPECT_NEAR(static_cast<double>(slow), 20, 3) << "a slow one of 100 W takes 20 times as long";
  simulate(devices(2, frugal_is_fast, "energy:slack=0.1"), [&] {
    warm_all(2);
    slow = tasks_in([&] { energy_taken = independent(420); })[1];
  });
  EXPECT_EQ(slow, 0u);
  EXPECT_LT(energy_taken, 1.1 * dmda_taken);
}

TEST(energy, the_slack_bounds_how_much_longer) {
  // The frugal one is half as fast: alone it would take three times as long as both.
  for (const auto& [slack, least, most] : {std::tuple{"0", 10, 45}, {"100", 100, 100}}) {
    std::uint64_t frugal = 0;
    simulate(devices(2, ",power=10,power=300@1,speed=1,speed=2@1", std::string("energy:slack=") + slack), [&] {
      warm_all(2);
      frugal = tasks_in([&] { independent(100); })[1];
    });
    EXPECT_GE(frugal, static_cast<std::uint64_t>(least)) << slack;
    EXPECT_LE(frugal, static_cast<std::uint64_t>(most)) << slack;
  }
}

TEST(energy, idling_counts_where_the_whole_gets_longer) {
  // All of it on the frugal one costs less by itself, but the other takes 200 W meanwhile.
  const auto on_frugal = [](const std::string& idle) {
    std::uint64_t frugal = 0;
    simulate(devices(2, ",power=210,power=300@1,idle-power=200,idle-power=" + idle + "@1,speed=1,speed=2@1",
                     "energy:slack=100"),
             [&] {
               warm_all(2);
               frugal = tasks_in([&] { independent(100); })[1];
             });
    return frugal;
  };
  EXPECT_LT(on_frugal("200"), 60u);
}

TEST(energy, where_power_is_not_known_it_says_so_and_goes_by_ends) {
  testing::internal::CaptureStderr();
  simulate(devices(2, ",speed=1,speed=4@1", "energy"), [] {
    warm_all(2);
    EXPECT_NEAR(static_cast<double>(tasks_in([] { independent(400); })[2]), 320, 16);
  });
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string text = "policy energy: what power simulated0 takes is not known, so tasks that could run there go "
                           "where they end first; its driver does not tell (tern info)";
  EXPECT_THAT(said, HasSubstr(text));
  EXPECT_EQ(said.find(text), said.rfind(text)) << "once";
}

TEST(energy, the_option_says_what_the_host_takes) {
  options opts = devices(1, ",power=300,idle-power=30", "energy");
  opts.set(hetero_devices, "host,simulated");
  opts.set(hetero_host_power, "120,20");
  simulate(opts, [] {
    object x({rows, columns}, 0u);
    hetero_task t = adding(x);
    t.submit().wait();
    detail::task_sampler& s = detail::runtime::here("the test").sampler();
    EXPECT_DOUBLE_EQ(s.expected_joules(0, 3).value(), 3 * 100 / 2.0) << "a task takes one of two workers";
    EXPECT_EQ(s.idle_watts(0), 20);
    EXPECT_DOUBLE_EQ(s.expected_joules(1, 3).value(), 3 * 270);
    EXPECT_EQ(s.idle_watts(1), 30);
  });
  for (const char* text : {"x", "-1", "10,20", "10,", "10,5,1", "inf"})
    EXPECT_THAT(text_of_error([&] { opts.set(hetero_host_power, text); }),
                AllOf(HasSubstr("option hetero-host-power cannot be \"" + std::string(text) + "\""),
                      HasSubstr("BUSY or BUSY,IDLE, watts, IDLE not above BUSY, or nothing")));
}

TEST(energy, a_seed_gives_one_simulation) {
  const auto once = [](std::uint64_t seed) {
    return simulate(
        devices(2, frugal_is_fast, "energy"),
        [] {
          for (int round = 0; round < 4; ++round) independent(60);
        },
        seed);
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(once(seed), once(seed));
}

TEST(policy_parameters, of_steal_and_energy) {
  EXPECT_STREQ(make_policy("steal")->name(), "steal");
  EXPECT_STREQ(make_policy("energy:slack=0.25")->name(), "energy");
  const auto text = [](const char* policy) { return text_of_error([=] { make_policy(policy); }); };
  EXPECT_THAT(text("energy:slack=-1"), AllOf(HasSubstr("policy energy: parameter slack cannot be \"-1\""),
                                             HasSubstr("allowed: a number from 0 to 100")));
  EXPECT_THAT(text("steal:slack=1"), AllOf(HasSubstr("policy steal has no parameter \"slack\""), HasSubstr("none")));
}

} // namespace
} // namespace tern::hetero
