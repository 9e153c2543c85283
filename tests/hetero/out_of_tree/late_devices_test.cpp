// SPDX-License-Identifier: Apache-2.0
// Devices are looked for when something could run on one, and not before.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/out_of_tree/own_device.hpp"
#include <tern/base/error.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>

TERN_KERNELS_BEGIN(late)
TERN_KERNEL(increment, int n, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { ++x[item.x]; };
}
TERN_KERNELS_END(late)

namespace tern::hetero {
namespace {

using testing::HasSubstr;

class late_devices : public testing::Test {
protected:
  late_devices() { ::setenv("OCL_ICD_VENDORS", "/nowhere", 1); } // devices of this test only

  void with(const std::string& devices, int workers, const std::function<void()>& f) {
    options opts;
    opts.set(hetero_devices, devices);
    opts.set(hetero_policy, "last");
    begin_ = ::searches;
    scheduler s({.workers = workers, .opts = &opts});
    EXPECT_EQ(s.run(f), 0u);
  }
  int searches() const { return ::searches - begin_; }

private:
  int begin_ = 0;
};

void increment(const hetero_object<int>& x) {
  submit(late::increment, items(x.extent(0)), static_cast<int>(x.extent(0)), read_write(x));
}
std::uint64_t tasks_on(const std::string& id) {
  for (const auto& d : count().devices)
    if (d.id == id) return d.tasks;
  return 0;
}
int first(const hetero_object<int>& x) { return x.host(access_mode::read).get()[0]; }

TEST_F(late_devices, functions_of_the_host_open_none) {
  with("all", 2, [&] {
    hetero_object<int> x(100, 0), sum(1, 0);
    submit([](int* v) { ++v[0]; }, read_write(x));
    hetero_task([](int* v) { ++v[0]; }, read_write(x)).priority(3).on(device_kind::host).submit();
    hetero_task([](int* v) { ++v[0]; }, read_write(x)).on("host").submit().wait();
    hetero_task(late::increment, items(100), 100, read_write(x)).on(device_kind::host).submit();
    for (int i = 0; i < 20; ++i) submit([](int* s) { ++*s; }, reduce(sum, std::plus<>(), 0));
    submit([](int* v) { ++v[0]; }, commute(x));
    recorded step("step");
    step.submit([&] {
      for (int i = 0; i < 3; ++i) submit([](int* v) { ++v[0]; }, read_write(x));
    });
    x.prefetch("host");
    wait_all();
    EXPECT_EQ(first(x), 8);
    EXPECT_EQ(first(sum), 20);
    EXPECT_EQ(searches(), 0);
    EXPECT_EQ(tasks_on("host"), 26u); // it asks for the devices
    EXPECT_EQ(searches(), 1);
  });
}

TEST_F(late_devices, the_first_kernel_opens_them_once) {
  with("all", 2, [&] {
    hetero_object<int> x(100, 0);
    for (int round = 0; round < 3; ++round) {
      submit([](int* v) { v[0] += 10; }, read_write(x));
      hetero_task([](int* v) { v[0] += 10; }, read_write(x)).priority(1).submit();
      increment(x);
      EXPECT_EQ(searches(), 1);
    }
    EXPECT_EQ(first(x), 63);
    EXPECT_EQ(tasks_on("inline0"), 3u); // the policy has it among its devices
    EXPECT_EQ(searches(), 1);
  });
}

TEST_F(late_devices, what_names_a_device_opens_them) {
  with("all", 1, [&] {
    hetero_object<int> x(100, 7);
    x.prefetch("inline0");
    EXPECT_EQ(searches(), 1);
    wait_all();
    EXPECT_EQ(count().copies_to_devices, 1u);
  });
  with("all", 1, [&] {
    hetero_object<int> x(100, 7);
    hetero_task(late::increment, items(100), 100, read_write(x)).on("inline0").submit().wait();
    EXPECT_EQ(searches(), 1);
    EXPECT_EQ(tasks_on("inline0"), 1u);
  });
  with("host,inline", 1, [&] { // to refuse at once what is not there
    const hetero_object<int> x(1, 0);
    EXPECT_EQ(searches(), 1);
  });
}

TEST_F(late_devices, many_first_kernels_open_them_once) {
  for (int round = 0; round < 20; ++round)
    with("all", 4, [&] {
      constexpr int fibers = 8, steps = 50;
      std::vector<hetero_object<int>> objects;
      for (int i = 0; i < fibers; ++i) objects.emplace_back(64, 0);
      std::vector<fiber> all;
      for (int i = 0; i < fibers; ++i)
        all.emplace_back([&, i] {
          auto& x = objects[static_cast<std::size_t>(i)];
          for (int k = 0; k < steps; ++k) {
            submit([](int* v) { ++v[0]; }, read_write(x));
            hetero_task([](int* v) { ++v[0]; }, read_write(x)).priority(k).submit();
            if (k >= i) increment(x);
          }
        });
      for (fiber& f : all) f.join();
      wait_all();
      for (int i = 0; i < fibers; ++i) EXPECT_EQ(first(objects[static_cast<std::size_t>(i)]), 3 * steps - i);
      EXPECT_EQ(searches(), 1);
    });
}

TEST_F(late_devices, a_search_that_fails_is_told_and_made_again) {
  with("all", 2, [&] {
    hetero_object<int> x(100, 0);
    ::next_search_fails = true;
    std::string text;
    try {
      increment(x);
    } catch (const error& e) {
      text = e.what();
    }
    EXPECT_THAT(text, HasSubstr("inline0 does not start"));
    increment(x);
    EXPECT_EQ(first(x), 1);
    EXPECT_EQ(searches(), 2);
  });
}

} // namespace
} // namespace tern::hetero
