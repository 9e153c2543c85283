// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of policies that go by expected times: equal tasks on unlike devices, in virtual time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero::placed {

using object = hetero_object<unsigned, 2>;

constexpr int rows = 8, columns = 32;
constexpr double kernel_seconds = rows * columns * 1e-6; // at speed 1

/// So many devices, each with one queue. \param words of the option hetero-simulated.
inline options devices(int count, const std::string& words, const std::string& policy,
                       const std::string& bandwidth = "0") {
  options opts;
  opts.set(hetero_devices, "simulated");
  opts.set(hetero_simulated, std::to_string(count) + ":latency=1us,launch=0us,item=1us,bandwidth=" + bandwidth + words);
  opts.set(hetero_queues, 1);
  opts.set(hetero_policy, policy);
  return opts;
}

inline hetero_task adding(const object& o) {
  return hetero_task(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(o), read_write(o));
}

/// Five tasks there: four times are known then.
inline void warm(const std::string& device) {
  object x({rows, columns}, 0u);
  for (int i = 0; i < 5; ++i) {
    hetero_task t = adding(x);
    t.on(device).submit();
  }
  wait_all();
}

inline std::vector<std::uint64_t> tasks_of_devices() {
  std::vector<std::uint64_t> all;
  for (const auto& d : count().devices) all.push_back(d.tasks);
  return all;
}

/// \return how many tasks each device has run in `f`.
template <class F> std::vector<std::uint64_t> tasks_in(F&& f) {
  const auto before = tasks_of_devices();
  f();
  auto after = tasks_of_devices();
  for (std::size_t d = 0; d < after.size(); ++d) after[d] -= before[d];
  return after;
}

/// Runs `f` in a simulation. \return its hash.
inline std::uint64_t simulate(const options& opts, const std::function<void()>& f, std::uint64_t seed = 1) {
  sim::simulation world({.seed = seed});
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run(f), 0u);
  return world.trace_hash();
}

inline double now() { return std::chrono::duration<double>(fiber_clock::now().time_since_epoch()).count(); }

/// \param at where the data are first; empty: on the host. \return how long so many tasks took that
/// have nothing to do with each other.
inline double independent(int n, const std::string& at = "") {
  std::vector<object> all;
  for (int i = 0; i < n; ++i) all.emplace_back(extents<2>{rows, columns}, 0u);
  for (const object& o : all)
    if (!at.empty()) o.prefetch(at);
  wait_all();
  const double begin = now();
  for (const object& o : all) {
    hetero_task t = adding(o);
    t.submit();
  }
  wait_all();
  const double taken = now() - begin;
  for (const object& o : all) EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 1u);
  return taken;
}

/// 100 tasks on two devices, of which the second one is lost after 40 tasks or more: the failure is
/// told, and its other tasks run on the first. \param warm_up makes times known.
template <class F> void lose_the_second_of_two(const options& opts, F&& warm_up) {
  simulate(opts, [&] {
    warm_up();
    std::vector<object> all;
    for (int i = 0; i < 100; ++i) all.emplace_back(extents<2>{rows, columns}, 0u);
    for (const object& o : all) {
      hetero_task t = adding(o);
      t.submit();
    }
    EXPECT_THAT(text_of_error([] { wait_all(); }), testing::HasSubstr("lost"));
    EXPECT_GT(tasks_of_devices()[1], 60u);
  });
}

} // namespace tern::hetero::placed
