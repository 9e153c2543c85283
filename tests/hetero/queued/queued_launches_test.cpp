// SPDX-License-Identifier: Apache-2.0
// Tasks that are launched behind what they follow, before that has ended (hetero-ahead).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/queued/machine.hpp"
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using namespace queued; // NOLINT(google-build-using-namespace)
using testing::HasSubstr;
using testing::StartsWith;

/// \return seconds of so many tasks, each of which follows the one before; they take their data to
/// the device first.
double chain(int n) {
  const object x = made();
  adding(x).submit();
  wait_all();
  const double begin = now();
  for (int i = 0; i < n; ++i) adding(x).submit();
  wait_all();
  const double taken = now() - begin;
  EXPECT_EQ(first_of(x), static_cast<unsigned>(n + 1));
  return taken;
}

TEST(queued_launches, keep_a_device_busy_that_tells_of_ends_late) {
  constexpr int n = 300;
  simulate(machine_with(64), [] {
    EXPECT_LT(chain(n), 1.05 * n * kernel_seconds + 60e-6);
    EXPECT_GE(behind(), static_cast<std::uint64_t>(n - 5));
  });
  simulate(machine_with(0), [] {
    EXPECT_GT(chain(n), 2.9 * n * kernel_seconds);
    EXPECT_EQ(behind(), 0u);
  });
}

TEST(queued_launches, are_as_many_as_the_option_says) {
  const auto seconds = [](int ahead) {
    double taken = 0;
    simulate(machine_with(ahead), [&] { taken = chain(100); });
    return taken;
  };
  EXPECT_GT(seconds(1), 1.4 * seconds(64)); // one kernel does not bridge the time of a notice
  EXPECT_LT(seconds(8), 1.1 * seconds(64));
}

// Known to take 2 ms: what is queued could still go elsewhere.
TEST(queued_launches, are_no_more_than_a_millisecond_where_times_are_known) {
  simulate(machine_with(64, "1:latency=0us,bandwidth=0,launch=2ms,item=0ns,notice=20us"), [] {
    chain(6);
    const std::uint64_t before = behind();
    chain(20);
    EXPECT_EQ(behind(), before);
  });
}

TEST(queued_launches, begin_while_the_worker_sleeps_for_what_runs) {
  simulate(machine_with(64, "1:latency=0us,bandwidth=0,launch=10ms,item=0ns"), [] {
    const object x = made();
    adding(x).submit();
    this_fiber::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(behind(), 0u);
    adding(x).submit();
    this_fiber::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(behind(), 1u);
    EXPECT_EQ(first_of(x), 2u);
  });
}

TEST(queued_launches, refuse_an_option_that_makes_no_sense) {
  options opts;
  EXPECT_THAT(text_of_error([&] { opts.set(hetero_ahead, -1); }), HasSubstr("hetero-ahead"));
}

TEST(queued_launches, follow_several_tasks_in_several_streams) {
  simulate(machine_with(64, "1" + std::string(slow_to_tell) + ",waits=1us"), [] {
    const object a = made(), b = made(), c = made();
    for (const object* o : {&a, &b, &c}) adding(*o).submit();
    wait_all();
    unsigned x = 1, y = 1, z = 1;
    const auto mixed = [](unsigned to, unsigned from) { return graph_kernels::stir(to, from + 1); };
    const double begin = now();
    for (int i = 0; i < 40; ++i) {
      adding(a).submit(), ++x;
      adding(b).submit(), ++y;
      mixing(a, c).submit(), z = mixed(z, x);
      mixing(b, c).submit(), z = mixed(z, y);
    }
    wait_all();
    EXPECT_LT(now() - begin, 40 * 4 * kernel_seconds); // in part at the same time
    EXPECT_GT(behind(), 100u);
    EXPECT_EQ(first_of(a), x);
    EXPECT_EQ(first_of(b), y);
    EXPECT_EQ(first_of(c), z);
  });
}

TEST(queued_launches, wait_for_copies_of_what_is_missing) {
  simulate(machine_with(64, "1:latency=5us,bandwidth=0,launch=0us,item=39.0625ns,notice=20us"), [] {
    const object x = made(), y = made();
    adding(y, 5).submit();
    wait_all();
    y.host(access_mode::read_write).get()(0, 0) = 3; // the device has an old copy
    adding(x).submit();
    mixing(x, y).submit(); // the device can be no other one: y is copied while x is worked at
    wait_all();
    EXPECT_EQ(behind(), 1u);
    EXPECT_EQ(first_of(y), graph_kernels::stir(3, 1 + 1));
  });
}

TEST(queued_launches, find_what_is_only_written_where_it_is_written) {
  simulate(machine_with(64), [] {
    const object x = made();
    filling(x, 3).submit();
    adding(x).submit();
    wait_all();
    EXPECT_EQ(behind(), 1u);
    EXPECT_EQ(first_of(x), graph_kernels::stir(3, 0) + 1);
  });
}

// Parts that overlap have copies of their own, also on one device. What would have to be copied
// from the one to the other is written by a task that has not ended.
TEST(queued_launches, do_not_copy_what_is_not_written_yet) {
  for (std::ptrdiff_t wide = 4; wide < rows; ++wide)
    simulate(machine_with(64, "1" + std::string(slow_to_tell) + ",launch=1us@0"), [wide] {
      const object x = made(), y = made();
      const auto upper = x.rows(0, wide), lower = x.rows(rows - wide, rows), other = y.rows(0, wide);
      const int n = static_cast<int>(wide);
      std::vector<unsigned> expected(rows, 0), mixed(static_cast<std::size_t>(wide), 0); // the first column
      const auto add_to = [&](const auto& part, std::ptrdiff_t first) {
        submit(graph_kernels::add, tern::items(columns, n), columns, n, 1u, pitch(part), read_write(part));
        for (std::size_t r = 0; r < mixed.size(); ++r)
          expected[static_cast<std::size_t>(first) + r] += 1 + 3 * static_cast<unsigned>(r);
      };
      const auto mix_from = [&](const auto& part, std::ptrdiff_t first) {
        submit(graph_kernels::mix, tern::items(columns, n), columns, n, 1u, pitch(part), read(part), pitch(other),
               read_write(other));
        for (std::size_t r = 0; r < mixed.size(); ++r)
          mixed[r] = graph_kernels::stir(mixed[r], expected[static_cast<std::size_t>(first) + r] + 1);
      };
      for (int i = 0; i < 6; ++i) {
        add_to(upper, 0);
        mix_from(upper, 0);
        add_to(lower, rows - wide);
        mix_from(lower, rows - wide);
      }
      wait_all();
      const auto seen = x.host(access_mode::read).get(), also = y.host(access_mode::read).get();
      for (int r = 0; r < rows; ++r) EXPECT_EQ(seen(r, 0), expected[static_cast<std::size_t>(r)]) << wide << ' ' << r;
      for (int r = 0; r < n; ++r) EXPECT_EQ(also(r, 0), mixed[static_cast<std::size_t>(r)]) << wide << ' ' << r;
      EXPECT_GT(behind(), 0u);
    });
}

TEST(queued_launches, are_not_for_tasks_that_commute_or_reduce) {
  simulate(machine_with(64), [] {
    const object x = made();
    for (int i = 0; i < 10; ++i)
      submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(x), commute(x));
    for (int i = 0; i < 10; ++i)
      submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, columns,
             reduce(x, std::plus<unsigned>(), 0u));
    wait_all();
    EXPECT_EQ(behind(), 0u);
    EXPECT_EQ(first_of(x), 20u);
  });
}

TEST(queued_launches, are_for_recorded_tasks) {
  simulate(machine_with(64), [] {
    const object x = made(), y = made();
    recorded step("step");
    unsigned a = 0, b = 0;
    for (int i = 0; i < 10; ++i) {
      step.submit([&] {
        submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(x), read_write(x));
        submit(graph_kernels::mix, tern::items(columns, rows), columns, rows, 1u, pitch(x), read(x), pitch(y),
               read_write(y));
      });
      a += 1;
      b = graph_kernels::stir(b, a + 1);
    }
    wait_all();
    EXPECT_GE(behind(), 8u);
    EXPECT_EQ(first_of(x), a);
    EXPECT_EQ(first_of(y), b);
  });
}

TEST(queued_launches, cannot_be_cancelled) {
  for (const int ahead : {0, 64})
    simulate(machine_with(ahead), [ahead] {
      const object x = made();
      hetero_task first = adding(x), second = adding(x);
      first.submit();
      second.submit();
      this_fiber::sleep_for(std::chrono::microseconds(25)); // the first has its data, and runs
      EXPECT_EQ(second.cancel(), ahead == 0);
      EXPECT_THAT(text_of_error([&] { second.wait(); }), HasSubstr(ahead == 0 ? "cancelled" : "nothing was thrown"));
      if (ahead > 0) {
        EXPECT_EQ(first_of(x), 2u);
      }
    });
}

// Failures ------------------------------------------------------------------------------------------------------------

constexpr std::array<const char*, 8> names{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};

/// What the tasks of a chain say, of which one fails.
std::vector<std::string> errors_of_chain(int ahead, const std::string& fault, std::uint64_t& launched) {
  std::vector<std::string> all;
  simulate(machine_with(ahead, "1" + std::string(slow_to_tell) + "," + fault), [&] {
    const object x = made();
    std::vector<hetero_task> tasks;
    for (const char* name : names) {
      tasks.push_back(adding(x));
      tasks.back().name(name).submit();
    }
    const std::regex stream("in stream [0-9]+"); // which one is another matter
    for (const hetero_task& t : tasks)
      all.push_back(std::regex_replace(text_of_error([&] { t.wait(); }), stream, "in a stream"));
    launched = behind();
  });
  return all;
}

TEST(queued_launches, that_fail_name_the_same_causes) {
  for (std::size_t n = 1; n <= names.size(); ++n) {
    const std::string word = "fail-kernel=" + std::to_string(n);
    SCOPED_TRACE(word);
    std::uint64_t before = 0, behind = 0;
    const std::vector<std::string> expected = errors_of_chain(0, word, before);
    EXPECT_EQ(errors_of_chain(64, word, behind), expected);
    EXPECT_EQ(before, 0u);
    EXPECT_GT(behind, 0u);
    for (std::size_t i = 0; i < names.size(); ++i)
      EXPECT_THAT(expected[i], HasSubstr(i + 1 < n    ? "nothing was thrown"
                                         : i + 1 == n ? "it was to: fail-kernel"
                                                      : "was not run"));
  }
}

// What had ended, and was not known to have, is lost, too.
TEST(queued_launches, that_are_lost_name_the_first_that_was) {
  for (std::size_t n = 1; n <= names.size(); ++n) {
    std::uint64_t behind = 0;
    const std::vector<std::string> texts = errors_of_chain(64, "lose=" + std::to_string(n + 1), behind); // after a copy
    SCOPED_TRACE(n);
    EXPECT_GT(behind, 0u);
    std::size_t first = 0;
    while (first < texts.size() && texts[first] == "nothing was thrown") ++first;
    ASSERT_LT(first, n);
    EXPECT_THAT(texts[first], StartsWith("task '" + std::string(names[first]) + "': simulated0 is lost"));
    for (std::size_t i = first + 1; i < names.size(); ++i) {
      EXPECT_THAT(texts[i], StartsWith("task '" + std::string(names[i]) + "' was not run"));
      EXPECT_THAT(texts[i], HasSubstr("task '" + std::string(names[first]) + "': simulated0 is lost"));
    }
  }
}

// It did not need what the failed task was to write.
TEST(queued_launches, are_launched_again_if_they_only_came_later) {
  simulate(machine_with(64, "1" + std::string(slow_to_tell) + ",fail-kernel=2"), [] {
    const object x = made(), y = made();
    const auto row = x.rows(0, 1); // a shorter task
    hetero_task first = adding(x), bad = adding(x), over = filling(x, 7),
                last(graph_kernels::add, tern::items(columns), columns, 1, 1u, pitch(row), read_write(row)),
                reads = mixing(x, y, 0);
    for (hetero_task* t : {&first, &bad, &over, &last, &reads}) t->submit();
    first.wait();
    EXPECT_THAT(text_of_error([&] { bad.wait(); }), HasSubstr("it was to: fail-kernel"));
    over.wait();
    last.wait();
    reads.wait();
    EXPECT_GE(behind(), 4u);
    const unsigned value = graph_kernels::stir(7, 0) + 1;
    EXPECT_EQ(first_of(x), value);
    EXPECT_EQ(first_of(y), graph_kernels::stir(0, value));
  });
}

// Of two in one stream, the first is not done, and the second is: what follows both must know.
TEST(queued_launches, are_not_launched_on_what_was_not_done) {
  options opts = machine_with(64, "1" + std::string(slow_to_tell) + ",fail-kernel=1");
  opts.set(hetero_queues, 1);
  simulate(opts, [] {
    const object x = made(), y = made();
    hetero_task bad = adding(x), over = filling(x, 7), beside = adding(y), reads = mixing(x, y, 0);
    for (hetero_task* t : {&bad, &over, &beside, &reads}) t->submit();
    EXPECT_THAT(text_of_error([&] { bad.wait(); }), HasSubstr("it was to: fail-kernel"));
    reads.wait();
    EXPECT_GE(behind(), 2u);
    EXPECT_EQ(first_of(y), graph_kernels::stir(1, graph_kernels::stir(7, 0)));
  });
}

TEST(queued_launches, are_lost_with_their_device) {
  simulate(machine_with(64, "2" + std::string(slow_to_tell) + ",lose=4@0"), [] {
    const object x = made(), y = made();
    std::vector<hetero_task> tasks;
    for (int i = 0; i < 20; ++i) {
      tasks.push_back(adding(x));
      tasks.back().submit();
    }
    filling(y, 3).on("simulated1").submit();
    std::size_t failed = 0;
    for (const hetero_task& t : tasks) failed += text_of_error([&] { t.wait(); }).find("lost") != std::string::npos;
    EXPECT_GE(failed, 17u);
    EXPECT_EQ(first_of(y), graph_kernels::stir(3, 0));
    filling(x, 4).submit(); // elsewhere
    EXPECT_EQ(first_of(x), graph_kernels::stir(4, 0));
  });
}

// Several devices -----------------------------------------------------------------------------------------------------

TEST(queued_launches, leave_work_to_devices_that_have_none) {
  simulate(machine_with(64, "2" + std::string(slow_to_tell)), [] {
    const object x = made();
    std::vector<object> all;
    for (int i = 0; i < 60; ++i) all.push_back(made());
    adding(x).submit();
    for (const object& o : all) mixing(x, o).submit();
    wait_all();
    for (const auto& d : count().devices) EXPECT_TRUE(d.id == "host" || d.tasks >= 15) << d.id << ": " << d.tasks;
  });
}

TEST(queued_launches, follow_each_other_on_two_devices) {
  for (std::uint64_t seed = 1; seed <= 50 && !testing::Test::HasFailure(); ++seed)
    simulate(
        machine_with(static_cast<int>(seed % 3) * 4 + 1, "2" + std::string(slow_to_tell) + ",waits=1us"),
        [] {
          const object x = made(), y = made();
          unsigned a = 0, b = 0;
          for (int i = 0; i < 20; ++i) {
            mixing(x, y).on("simulated0").submit();
            b = graph_kernels::stir(b, a + 1);
            adding(y).on("simulated0").submit();
            ++b;
            mixing(y, x).on("simulated1").submit();
            a = graph_kernels::stir(a, b + 1);
            adding(x).on("simulated1").submit();
            ++a;
          }
          EXPECT_EQ(first_of(x), a);
          EXPECT_EQ(first_of(y), b);
          EXPECT_GT(behind(), 10u);
        },
        seed);
}

TEST(queued_launches, go_to_opencl_where_kernels_run_in_threads_of_the_drivers) {
  if (!there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  options opts;
  opts.set(hetero_devices, "opencl");
  opts.set(detail::hetero_opencl_pocl, "pthread");
  opts.set(hetero_models, "read:none");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    {
      const object x = made(), y = made();
      unsigned a = 0, b = 0;
      for (int i = 0; i < 200; ++i) {
        adding(x).submit();
        ++a;
        mixing(x, y).submit();
        b = graph_kernels::stir(b, a + 1);
      }
      wait_all();
      EXPECT_EQ(first_of(x), a);
      EXPECT_EQ(first_of(y), b);
      const bool can = detail::runtime::here("the test").devices().queue(1)->of().launches_behind();
      EXPECT_EQ(behind() > 0, can); // what the driver has read from the environment before stays
    }
    expect_nothing_left();
  }),
            0u);
}

class stands_back final : public policy {
public:
  const char* name() const noexcept override { return "stands-back"; }
  void push(ready_task t, std::span<const device_load>) override { queue_.push(t); }
  std::optional<placement> pop(std::span<const device_load> devices) override {
    for (std::size_t d = 1; d < devices.size(); ++d)
      if (devices[d].free_slots > 0)
        if (const auto t = queue_.take([](const ready_task&) { return true; }))
          return placement{*t, static_cast<int>(d)};
    return std::nullopt;
  }
  bool follow(ready_task, int, std::span<const device_load>) override { return false; }

private:
  ready_queue queue_;
};
const policy_registration registered("stands-back", [](std::uint64_t) -> std::unique_ptr<policy> {
  return std::make_unique<stands_back>();
});

TEST(queued_launches, are_the_policys_to_refuse) {
  options opts = machine_with(64);
  opts.set(hetero_policy, "stands-back");
  simulate(opts, [] {
    const object x = made();
    for (int i = 0; i < 5; ++i) adding(x).submit();
    EXPECT_EQ(first_of(x), 5u);
    EXPECT_EQ(behind(), 0u);
  });
}

// A task that waits for memory comes before those that could follow.
TEST(queued_launches, let_others_have_memory) {
  simulate(machine_with(64, "1" + std::string(slow_to_tell) + ",memory=2k"), [] { // two objects
    const object x = made(), y = made(), z = made();
    for (int i = 0; i < 20; ++i) {
      adding(x).submit();
      adding(y).submit();
      adding(z).submit();
      mixing(x, y).submit();
    }
    wait_all();
    EXPECT_EQ(first_of(x), 20u);
    EXPECT_EQ(first_of(z), 20u);
  });
}

} // namespace
} // namespace tern::hetero
