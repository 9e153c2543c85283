// SPDX-License-Identifier: Apache-2.0
// The policy that goes by performance models: where tasks run, by what is known of their times.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/placed.hpp"
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace placed;

/// Two devices: only their speed differs, as the words say.
options unlike(const std::string& words, const std::string& policy = "dmda", const std::string& bandwidth = "0") {
  return devices(2, words, policy, bandwidth);
}

TEST(dmda, shares_tasks_by_what_they_take) {
  simulate(unlike(",speed=1,speed=4@1"), [] {
    warm("simulated0");
    warm("simulated1");
    const auto before = tasks_of_devices();
    const double taken = independent(400);
    const auto after = tasks_of_devices();
    EXPECT_NEAR(static_cast<double>(after[2] - before[2]), 320, 12);
    EXPECT_LT(taken, 1.1 * 400 * kernel_seconds / 5);
  });
}

TEST(dmda, what_is_known_from_earlier_tasks_of_the_program_is_enough) {
  simulate(unlike(",speed=1,speed=100@1"), [] {
    for (int round = 0; round < 10; ++round) independent(20);
    const auto before = tasks_of_devices();
    for (int round = 0; round < 10; ++round) independent(20);
    const auto after = tasks_of_devices();
    EXPECT_EQ(after[1], before[1]) << "the slow one would end later than all of them elsewhere";
  });
}

TEST(dmda, a_device_is_tried_by_a_tenth_at_most) {
  simulate(unlike(",speed=1,speed=100@1"), [] {
    warm("simulated1");
    object x({rows, columns}, 0u);
    for (int i = 0; i < 100; ++i) {
      hetero_task t = adding(x);
      t.submit().wait();
    }
    EXPECT_EQ(tasks_of_devices()[1], 4u) << "the first does not count, three are an estimate";
  });
}

TEST(dmda, one_try_at_a_time) {
  simulate(unlike(",speed=1,speed=100@1"), [] {
    warm("simulated1");
    independent(100);
    EXPECT_LE(tasks_of_devices()[1], 2u);
  });
}

TEST(dmda, data_that_are_there_count) {
  simulate(unlike(",speed=1,speed=2@1", "dmda", "1M"), [] { // a kilobyte takes a millisecond, a kernel a quarter
    warm("simulated0");
    warm("simulated1");
    for (int i = 0; i < 4; ++i) { // copies of a like size
      object x({rows, columns}, 0u);
      x.prefetch("simulated0");
      x.prefetch("simulated1");
      wait_all();
    }
    object x({rows, columns}, 0u);
    x.prefetch("simulated0");
    wait_all();
    const auto before = tasks_of_devices();
    for (int i = 0; i < 10; ++i) {
      hetero_task t = adding(x);
      t.submit().wait();
    }
    EXPECT_EQ(tasks_of_devices()[1], before[1] + 10) << "slower, but it has them";
  });
}

TEST(dmda, joules_count_if_they_are_asked_for) {
  const auto on_frugal = [](const std::string& policy) {
    std::uint64_t tasks = 0;
    simulate(unlike(",speed=1,speed=2@1", policy), [&] {
      warm("simulated0");
      warm("simulated1");
      detail::runtime& r = detail::runtime::here("the test");
      const std::string words = r.opts()[hetero_simulated];
      r.sampler().models().set_power(detail::device_model(r.devices().info(1), words), 20, 10);
      r.sampler().models().set_power(detail::device_model(r.devices().info(2), words), 1000, 10);
      const auto before = tasks_of_devices();
      independent(20);
      tasks = tasks_of_devices()[1] - before[1];
    });
    return tasks;
  };
  EXPECT_LT(on_frugal("dmda"), 10u);
  EXPECT_EQ(on_frugal("dmda:gamma=1000"), 20u);
}

// A kernel, or on the host a function that takes `times` as long.
TEST(dmda, functions_go_by_their_times_too) {
  const auto on_the_host = [](auto times) {
    std::uint64_t tasks = 0;
    options opts = devices(1, "", "dmda");
    opts.set(hetero_devices, "host,simulated");
    simulate(opts, [&] {
      const auto either = variants(graph_kernels::add, [](int, int, unsigned by, int, host_view<unsigned, 2> x) {
        sim::charge(decltype(times)::value * 1e-3 * kernel_seconds);
        x(0, 0) += by;
      });
      object x({rows, columns}, 0u);
      for (int i = 0; i < 100; ++i) {
        hetero_task t(either, tern::items(columns, rows), columns, rows, 1u, pitch(x), read_write(x));
        t.submit().wait();
      }
      EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 100u);
      tasks = tasks_of_devices()[0];
    });
    return tasks;
  };
  EXPECT_EQ(on_the_host(std::integral_constant<int, 20'000>()), 1u) << "that took a fifth of the time of all others";
  EXPECT_GE(on_the_host(std::integral_constant<int, 50>()), 60u) << "once three tries have told";
}

TEST(dmda, tasks_that_can_run_in_one_place_go_there) {
  options opts = unlike("");
  opts.set(hetero_devices, "host,simulated");
  simulate(opts, [] {
    object x({rows, columns}, 0u);
    for (int i = 0; i < 20; ++i) {
      hetero_task t([](unsigned* v) { ++v[0]; }, read_write(x));
      t.priority(i % 3).submit();
    }
    EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 20u);
    EXPECT_EQ(tasks_of_devices()[0], 20u);
  });
}

TEST(dmda, without_models_it_goes_as_locality) {
  options opts = unlike("");
  opts.set(hetero_models, "off");
  simulate(opts, [] {
    object x({rows, columns}, 0u);
    x.prefetch("simulated1");
    wait_all();
    for (int i = 0; i < 20; ++i) {
      hetero_task t = adding(x);
      t.submit().wait();
    }
    EXPECT_EQ(tasks_of_devices()[1], 0u);
  });
}

TEST(dmda, a_seed_gives_one_simulation) {
  const auto once = [](std::uint64_t seed) {
    return simulate(
        unlike(",speed=1,speed=3@1"),
        [] {
          for (int round = 0; round < 4; ++round) independent(40);
        },
        seed);
  };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(once(seed), once(seed));
  EXPECT_NE(once(1), once(2));
}

TEST(dmda, a_lost_device_leaves_its_tasks_to_others) {
  lose_the_second_of_two(unlike(",speed=1,speed=4@1,lose=40@1"), [] {
    warm("simulated0");
    warm("simulated1");
  });
}

// Nothing is to be chosen, so its time need not be known.
TEST(dmda, a_task_that_can_run_nowhere_else_follows_its_predecessors) {
  for (const char* const policy : {"dmda", "locality"}) {
    options opts = unlike("", policy);
    opts.set(hetero_models, "off");
    simulate(opts, [&] {
      object x({rows, columns}, 0u);
      for (int i = 0; i < 10; ++i) {
        hetero_task t = adding(x);
        t.on("simulated0").submit();
      }
      wait_all();
      EXPECT_EQ(count().launched_behind, 9u) << policy;
    });
  }
}

// Parameters ----------------------------------------------------------------------------------------------------------

TEST(policy_parameters, are_named_where_they_are_wrong) {
  EXPECT_STREQ(make_policy("dmda")->name(), "dmda");
  EXPECT_STREQ(make_policy("dmda:alpha=2,beta=0.5,gamma=1e-3")->name(), "dmda");
  const auto text = [](const char* policy) { return text_of_error([=] { make_policy(policy); }); };
  EXPECT_THAT(text("dmda:alhpa=2"),
              AllOf(HasSubstr("policy dmda has no parameter \"alhpa\""),
                    HasSubstr("did you mean alpha? it has, by default: alpha=1, beta=1, gamma=0")));
  EXPECT_THAT(text("dmda:beta=-1"), AllOf(HasSubstr("policy dmda: parameter beta cannot be \"-1\""),
                                          HasSubstr("allowed: a number from 0 to 1e+09")));
  EXPECT_THAT(text("dmda:beta"), HasSubstr("give parameters as NAME=VALUE"));
  EXPECT_THAT(text("eager:alpha=1"),
              AllOf(HasSubstr("policy eager has no parameter \"alpha\""), HasSubstr("it has none")));
  EXPECT_THAT(text("dmad:alpha=1"), AllOf(HasSubstr("there is no policy 'dmad'"), HasSubstr("did you mean dmda?")));
}

TEST(policy_parameters, are_checked_with_the_option) {
  options opts;
  opts.set(hetero_policy, "dmda:beta=2");
  EXPECT_THAT(
      text_of_error([&] { opts.set(hetero_policy, "dmda:gama=2"); }),
      HasSubstr("option hetero-policy cannot be \"dmda:gama=2\" (by the program): policy dmda has no parameter"));
  EXPECT_THAT(text_of_error([&] { opts.set(hetero_policy, "locality:x=2"); }), HasSubstr("it has none"));
}

// What policies of programs use ---------------------------------------------------------------------------------------

TEST(ready_queues, give_the_least_of_the_first) {
  std::vector<detail::task_record> records(40);
  ready_queue q;
  EXPECT_FALSE(q.take_least(16, [](const ready_task&) { return 0; }));
  const auto number = [&](const ready_task& t) { return static_cast<int>(t.inside() - records.data()); };
  for (int i = 0; i < 30; ++i) {
    records[static_cast<std::size_t>(i)].priority = i < 5 ? 1 : 0;
    q.push(ready_task(&records[static_cast<std::size_t>(i)]));
  }
  const auto take = [&](std::size_t most, const std::function<int(int)>& cost) {
    const auto t = q.take_least(most, [&](const ready_task& x) { return cost(number(x)); });
    return t ? number(*t) : -1;
  };
  EXPECT_EQ(take(16, [](int i) { return 100 - i; }), 4) << "the others have a lower priority";
  EXPECT_EQ(take(2, [](int i) { return 100 - i; }), 1);
  EXPECT_EQ(take(16, [](int) { return 7; }), 0) << "the first of equal ones";
  EXPECT_EQ(take(1, [](int i) { return 100 - i; }), 2);
  EXPECT_EQ(take(16, [](int i) { return 100 - i; }), 3);
  EXPECT_EQ(take(16, [](int i) { return 100 - i; }), 20) << "5 to 20 are sixteen";
  int asked = 0;
  EXPECT_EQ(take(16, [&](int i) { return ++asked, i == 5 ? 0 : 1; }), 5);
  EXPECT_EQ(asked, 1) << "none is less";
  EXPECT_EQ(q.size(), 23u);
}

} // namespace
} // namespace tern::hetero
