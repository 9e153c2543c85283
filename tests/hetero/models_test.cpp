// SPDX-License-Identifier: Apache-2.0
// Tasks that run teach the performance models of their runtime, which the next run finds.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using detail::kernel_model;
using detail::model_set;
using object = hetero_object<unsigned, 2>;

constexpr const char* device = "simulated device / Tern / 1:launch=50us,item=10ns,latency=20us,bandwidth=1G";

options on_devices(const std::string& models) {
  options opts;
  opts.set(hetero_devices, "host,simulated");
  opts.set(hetero_simulated, "1:launch=50us,item=10ns,latency=20us,bandwidth=1G");
  opts.set(hetero_models, models);
  opts.set(hetero_policy, "locality"); // others ask for models where nothing has run
  return opts;
}

hetero_task adding(const object& o) {
  return hetero_task(graph_kernels::add, tern::items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
                     static_cast<int>(o.extent(0)), 1u, pitch(o), read_write(o));
}

/// \return what the runtime has learned from 20 such tasks there.
model_set after_tasks(const std::string& where) {
  object x({8, 32}, 0u);
  for (int i = 0; i < 20; ++i) {
    hetero_task t = adding(x);
    t.on(where).submit();
  }
  wait_all();
  return detail::runtime::here("the test").sampler().models().all();
}

const kernel_model& only_kernel(const model_set& of) {
  EXPECT_EQ(of.kernels.size(), 1u);
  static const kernel_model none;
  return of.kernels.empty() ? none : of.kernels.begin()->second;
}

TEST(models, a_kernel_on_a_simulated_device_takes_what_its_words_say) {
  const options opts = on_devices("");
  sim::simulation world;
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
  model_set found;
  EXPECT_EQ(s.run([&] { found = after_tasks("simulated0"); }), 0u);
  const kernel_model& m = only_kernel(found);
  EXPECT_EQ(m.times.size(), 19u) << "the first does not count";
  EXPECT_NEAR(m.times.median(), 50'000 + 8 * 32 * 10, 1);
  EXPECT_EQ(m.size.bytes, 8u * 32 * 4);
  EXPECT_EQ(m.size.text.substr(0, 11), "rw 4x8x32; ");
  const auto& key = found.kernels.begin()->first;
  EXPECT_EQ(key.kernel.name, "add");
  EXPECT_EQ(key.device, device);
}

// What decides beside sizes is in the key, and in what `tern models` shows.
TEST(models, a_number_of_the_users_makes_models_of_its_own) {
  const options opts = on_devices("");
  sim::simulation world;
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
  model_set found;
  EXPECT_EQ(s.run([&] {
    const object x({8, 32}, 0u);
    for (int round = 0; round < 8; ++round)
      for (const std::uint64_t number : {0, 7, 8}) {
        hetero_task t = adding(x);
        if (number != 0 || round % 2 == 0) t.size_class(number);
        t.on("simulated0").submit();
      }
    wait_all();
    EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 24u);
    found = detail::runtime::here("the test").sampler().models().all();
  }),
            0u);
  EXPECT_EQ(found.kernels.size(), 3u);
  std::multiset<std::string> ends;
  for (const auto& [key, m] : found.kernels) {
    EXPECT_EQ(m.times.size(), 7u);
    EXPECT_EQ(key.kernel.name, "add");
    ends.insert(m.size.text.substr(m.size.text.size() - 3));
  }
  EXPECT_EQ(ends.count("; 7") + ends.count("; 8"), 2u);
}

TEST(models, sizes_of_one_number_say_nothing_of_another) {
  const options opts = on_devices("");
  sim::simulation world;
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    for (const std::int64_t rows : {4, 8, 32}) {
      const object x({rows, 32}, 0u);
      for (int i = 0; i < 5; ++i) {
        hetero_task t = adding(x);
        t.size_class(7).on("simulated0").submit();
      }
      wait_all();
    }
    const object x({16, 32}, 0u);
    const auto known = [&](std::uint64_t number) {
      hetero_task t = adding(x);
      t.size_class(number).on("simulated0");
      const auto seconds = ready_task(t.inside()).expected_time(1);
      t.submit().wait();
      return seconds.has_value();
    };
    EXPECT_TRUE(known(7)) << "between two sizes that are known";
    EXPECT_FALSE(known(8));
    EXPECT_FALSE(known(0));
  }),
            0u);
}

TEST(models, a_number_of_a_task_that_uses_many_objects) {
  on({}, [] {
    std::vector<object> from;
    for (int i = 0; i < 20; ++i) from.emplace_back(extents<2>{1, 4}, 1u);
    const object sum({1, 4}, 0u);
    hetero_task t(
        [](std::span<const host_view<const unsigned, 2>> all, unsigned* to) {
          for (const auto& v : all) to[0] += v(0, 0);
        },
        reads(from), read_write(sum));
    t.size_class(~std::uint64_t{0}).submit();
    EXPECT_THAT(text_of_error([&] { t.size_class(1); }), testing::HasSubstr("hetero_task::size_class"));
    t.wait();
    EXPECT_EQ(sum.host(access_mode::read).get()(0, 0), 20u);
    hetero_task next = adding(sum);
    EXPECT_EQ(next.inside()->size_number(), 0u);
    next.submit().wait();
  });
}

// Noise, outliers, a slow first launch; and when all get slower, soon that.
TEST(models, follow_times_that_are_not_steady) {
  options opts = on_devices("");
  opts.set(hetero_simulated,
           "1:launch=50us,item=0ns,latency=0us,noise=0.05,outlier=0.01x100,slow-first=50,drift=2@20ms");
  sim::simulation world;
  scheduler s({.workers = 1, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    EXPECT_NEAR(only_kernel(after_tasks("simulated0")).times.median(), 50'000, 50'000 * 0.05);
    while (world.seconds() < 0.02) after_tasks("simulated0");
    after_tasks("simulated0");
    EXPECT_NEAR(only_kernel(after_tasks("simulated0")).times.median(), 100'000, 100'000 * 0.08);
  }),
            0u);
}

TEST(models, copies_teach_links) {
  const options opts = on_devices("");
  sim::simulation world;
  scheduler s({.workers = 1, .simulation = &world, .opts = &opts});
  model_set found;
  EXPECT_EQ(s.run([&] {
    for (int i = 0; i < 4; ++i) {
      object x({1024, 1024}, 0u);
      x.prefetch("simulated0");
      wait_all();
    }
    found = detail::runtime::here("the test").sampler().models().all();
  }),
            0u);
  const auto link = found.links.find({"host:1 workers", device});
  ASSERT_NE(link, found.links.end());
  EXPECT_NEAR(link->second.link.at(4 << 20).value(), 20'000 + 1e9 * 4 / 1024, 1000);
}

TEST(models, what_a_run_has_learned_the_next_one_finds) {
  const test::temporary folder;
  const options opts = on_devices(folder.path.string());
  for (int run = 0; run < 2; ++run) {
    scheduler s({.workers = 2, .opts = &opts});
    EXPECT_EQ(s.run([&] { EXPECT_EQ(only_kernel(after_tasks("simulated0")).times.size(), run == 0 ? 19u : 38u); }), 0u);
  }
  detail::model_file file(opts);
  const model_set stored = file.read(detail::date_now());
  EXPECT_EQ(only_kernel(stored).times.size(), 38u);
  EXPECT_EQ(stored.links.size(), 2u) << "from a look at the links when the device was opened";
}

TEST(models, links_are_measured_once_when_a_device_is_opened) {
  const test::temporary folder;
  const options opts = on_devices(folder.path.string());
  std::size_t samples = 0;
  for (int run = 0; run < 2; ++run) {
    scheduler s({.workers = 2, .opts = &opts});
    EXPECT_EQ(s.run([&] {
      hetero_task t(graph_kernels::add, tern::items(1), 1, 1, 1u, 1, read_write(object({1, 1}, 0u)));
      t.on("simulated0").submit().wait();
      const model_set found = detail::runtime::here("the test").sampler().models().all();
      ASSERT_EQ(found.links.size(), 2u);
      std::size_t all = 0;
      for (const auto& [ends, link] : found.links) {
        EXPECT_NEAR(link.link.at(100'000).value_or(0), 20'000 + 1e9 / 1024 / 1024 / 1024 * 100'000, 8'000);
        for (const auto& [k, range] : link.link.ranges()) all += range.times.size();
      }
      if (run == 0)
        samples = all;
      else
        EXPECT_LT(all, samples + 8) << "but for what the task copied";
      EXPECT_GE(all, 16u) << "two sizes at least";
      EXPECT_EQ(count().copies_to_devices, 1u) << "the program's own";
    }),
              0u);
  }
}

// Without a copy, so that neither time passes nor a fault strikes: the same for each seed.
TEST(models, links_are_known_in_simulations_when_a_device_is_opened) {
  const auto simulate = [](std::uint64_t seed, const std::string& models, const std::string& words, double& seconds) {
    options opts = on_devices(models);
    opts.set(hetero_simulated, words);
    sim::settings settings;
    settings.seed = seed;
    sim::simulation world(settings);
    scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
    std::map<std::string, double> found; // of 1 MiB
    EXPECT_EQ(s.run([&] {
      hetero_task t(graph_kernels::add, tern::items(1), 1, 1, 1u, 1, read_write(object({1, 1}, 0u)));
      t.on("simulated0").submit().wait();
      EXPECT_EQ(count().copies_to_devices, 1u) << "the program's own";
      seconds = world.seconds();
      for (const auto& [ends, link] : detail::runtime::here("the test").sampler().models().all().links)
        found[ends.first + " to " + ends.second] = link.link.at(1 << 20).value_or(0);
    }),
              0u);
    return found;
  };
  const std::string words = "1:bandwidth=1G,latency=20us,launch=10us,noise=0.05,fail-copy=2";
  double with = 0, without = 0, again = 0;
  const auto found = simulate(7, "", words, with);
  ASSERT_EQ(found.size(), 2u);
  for (const auto& [ends, nanoseconds] : found) EXPECT_NEAR(nanoseconds, 20'000 + 1e9 / 1024, 1'000) << ends;
  EXPECT_EQ(simulate(7, "", words, again), found);
  EXPECT_EQ(again, with);
  const auto of_the_task = simulate(7, "read:none", words, without);
  EXPECT_EQ(without, with) << "no time has passed";
  for (const auto& [ends, nanoseconds] : of_the_task) EXPECT_EQ(nanoseconds, 0) << "one copy tells nothing of " << ends;
  EXPECT_EQ(simulate(8, "", words, again).size(), 2u);
}

TEST(models, a_kernel_that_a_policy_placed_on_the_host_is_measured) {
  const options opts = on_devices("read:none");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    const model_set found = after_tasks("host");
    const kernel_model& m = only_kernel(found);
    EXPECT_GE(m.times.size(), 8u) << "19, but for what a change on the machine may leave";
    EXPECT_GT(m.times.median(), 0);
    EXPECT_EQ(found.kernels.begin()->first.device, "host:2 workers");
    EXPECT_FALSE(std::filesystem::exists("none"));
  }),
            0u);
}

TEST(models, opencl_devices_tell_how_long_kernels_and_copies_took) {
  if (!there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  options opts = on_devices("read:none");
  opts.set(hetero_devices, "host,opencl");
  opts.set(detail::hetero_opencl_memory, "buffers"); // so that there are copies
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    const model_set found = after_tasks("opencl0");
    const kernel_model& m = only_kernel(found);
    EXPECT_GE(m.times.size(), 8u) << "19, but for what a change on the machine may leave";
    EXPECT_GT(m.times.median(), 0);
    EXPECT_LT(m.times.median(), 1e9);
    EXPECT_FALSE(found.links.empty());
  }),
            0u);
}

TEST(models, off_is_off) {
  const options opts = on_devices("off");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    EXPECT_TRUE(after_tasks("simulated0").empty());
    EXPECT_TRUE(after_tasks("host").empty());
  }),
            0u);
}

TEST(models, a_task_that_fails_teaches_nothing) {
  options opts = on_devices("read:none");
  opts.set(hetero_simulated, "1:launch=50us,fail-kernel=3");
  sim::simulation world;
  scheduler s({.workers = 1, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    for (int i = 0; i < 6; ++i) {
      object x({8, 32}, 0u);
      hetero_task t = adding(x);
      t.on("simulated0").submit();
      if (i == 2)
        EXPECT_ANY_THROW(t.wait());
      else
        t.wait();
    }
    EXPECT_EQ(only_kernel(detail::runtime::here("the test").sampler().models().all()).times.size(), 4u);
  }),
            0u);
}

} // namespace
} // namespace tern::hetero
