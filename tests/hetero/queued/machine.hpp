// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A simulated machine that tells of ends late, and tasks for it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero::queued {

using object = hetero_object<unsigned, 2>;

constexpr int rows = 8, columns = 32;
/// A kernel of 10 us, of which the host sees the end 20 us later.
constexpr const char* slow_to_tell = ":latency=0us,bandwidth=0,launch=0us,item=39.0625ns,notice=20us";
constexpr double kernel_seconds = 10e-6, notice_seconds = 20e-6;

inline options machine_with(int ahead, const std::string& words = "1" + std::string(slow_to_tell),
                            const std::string& devices = "simulated") {
  options opts;
  opts.set(hetero_devices, devices);
  opts.set(hetero_simulated, words);
  opts.set(hetero_models, "read:none");
  opts.set(hetero_ahead, ahead);
  return opts;
}

/// Runs `f` in a simulation, after which nothing may be left.
inline void simulate(const options& opts, const std::function<void()>& f, std::uint64_t seed = 1) {
  sim::simulation world({.seed = seed});
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    f();
    expect_nothing_left();
  }),
            0u);
}

inline double now() { return std::chrono::duration<double>(fiber_clock::now().time_since_epoch()).count(); }
inline std::uint64_t behind() { return count().launched_behind; }

inline hetero_task adding(const object& o, unsigned a = 1) {
  return hetero_task(graph_kernels::add, tern::items(columns, rows), columns, rows, a, pitch(o), read_write(o));
}
inline hetero_task filling(const object& o, unsigned a) {
  return hetero_task(graph_kernels::fill, tern::items(columns, rows), columns, rows, a, pitch(o), write(o));
}
inline hetero_task mixing(const object& x, const object& y, unsigned a = 1) {
  return hetero_task(graph_kernels::mix, tern::items(columns, rows), columns, rows, a, pitch(x), read(x), pitch(y),
                     read_write(y));
}
inline object made() { return object({rows, columns}, 0u); }
inline unsigned first_of(const object& o) { return o.host(access_mode::read).get()(0, 0); }

} // namespace tern::hetero::queued
