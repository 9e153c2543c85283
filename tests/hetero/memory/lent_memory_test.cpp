// SPDX-License-Identifier: Apache-2.0 Objects in memory that was lent, when devices have too little
// memory and no handle is left; and what is left when a run has ended and its scheduler has not.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/recorded.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using object = hetero_object<unsigned, 2>;
using view = hetero_view<unsigned, 2>;
using testing::HasSubstr;

constexpr std::int64_t rows = 8, columns = 32; // a kilobyte
constexpr std::size_t numbers = rows * columns;

hetero_task add(const view& v) {
  return hetero_task(graph_kernels::add, items(v.extent(1), v.extent(0)), static_cast<int>(v.extent(1)),
                     static_cast<int>(v.extent(0)), 1u, pitch(v), read_write(v));
}

/// On a device with room for two objects.
void simulate(const std::function<void()>& f) {
  options opts;
  opts.set(hetero_devices, "host,simulated");
  opts.set(hetero_simulated, "1:memory=2k");
  sim::simulation world;
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    f();
    expect_nothing_left();
  }),
            0u);
}

/// A task needs all of the device's memory. \return what it failed with; empty: all went well.
std::string fill_device() {
  const object x({rows, columns}, 0u), y({rows, columns}, 0u);
  hetero_task t(graph_kernels::mix, items(columns, rows), static_cast<int>(columns), static_cast<int>(rows), 1u,
                pitch(x), read(x), pitch(y), read_write(y));
  t.on("simulated0").submit();
  try {
    t.wait();
    EXPECT_EQ(y.host(access_mode::read).get()(0, 0), graph_kernels::stir(0u, 1u));
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

/// A task that waits, and another one behind it that adds what is lent on the device to `sum`, and
/// outlives all handles of the lent object. \param prepared of its rows the device has the only
/// copy.
std::string without_a_handle(std::int64_t prepared, unsigned& sum) {
  std::string failed;
  promise<void> opened;
  const object result({1, 1}, 0u);
  std::vector<unsigned> memory(numbers, 1);
  hetero_task gate([&, open = opened.get_future().share()] { open.wait(); });
  hetero_task last;
  {
    const object lent = object::adopt(memory.data(), {rows, columns});
    hetero_task t = add(lent.rows(0, prepared));
    t.on("simulated0").submit().wait();
    last = hetero_task([](host_view<const unsigned, 2> v, unsigned* to) { *to = v(0, 0) + v(rows - 1, columns - 1); },
                       read(lent), write(result));
    last.after(gate).submit();
    gate.submit();
  }
  failed = fill_device();
  opened.set_value();
  last.wait();
  memory.assign(numbers, 77); // and it could go
  sum = result.host(access_mode::read).get()(0, 0);
  wait_all();
  return failed;
}

TEST(lent_memory, makes_room_without_a_handle) {
  simulate([] {
    unsigned sum = 0;
    EXPECT_EQ(without_a_handle(rows, sum), "");
    EXPECT_EQ(sum, 1u + 1 + 1 + (columns - 1 + 3 * (rows - 1) + 1)) << "what the device had";
  });
}

TEST(lent_memory, stays_where_a_part_is_nowhere_else) {
  simulate([] {
    unsigned sum = 0;
    EXPECT_THAT(without_a_handle(rows - 1, sum),
                HasSubstr("cannot go home to the memory that was lent, as no handle is left and a part of it is only "
                          "there, or in use"));
    EXPECT_EQ(sum, 1u + 1 + 1);
  });
}

TEST(lent_memory, is_written_while_there_is_a_handle) {
  simulate([] {
    std::vector<unsigned> memory(numbers, 1);
    {
      const object lent = object::adopt(memory.data(), {rows, columns});
      hetero_task t = add(lent);
      t.on("simulated0").submit().wait();
      EXPECT_EQ(fill_device(), "");
    }
    wait_all();
    EXPECT_EQ(memory[0], 2u) << "saved to make room";
  });
}

// What is left when a run has ended --------------------------------------------------------------------------------------

/// With tasks, copies, views, recorded tasks and a task that fails.
void run_with(const options& opts, recorded& step, const std::function<void()>& then) {
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    {
      std::vector<object> all;
      for (int i = 0; i < 8; ++i) all.emplace_back(extents<2>{rows, columns}, 0u);
      for (int round = 0; round < 3; ++round) {
        for (const object& o : all) {
          add(o).submit();
          add(o.rows(2, 6)).submit();
        }
        step.submit([&] {
          for (const object& o : all)
            submit(graph_kernels::add, items(columns, rows), static_cast<int>(columns), static_cast<int>(rows), 1u,
                   pitch(o), read_write(o));
        });
      }
      hetero_task wrong([](unsigned*) { throw std::runtime_error("as it should"); }, read_write(all[0]));
      wrong.submit();
      add(all[0]).submit();
      EXPECT_ANY_THROW(wait_all());
      for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].host(access_mode::read).get()(0, 0), 6u);
    }
    expect_nothing_left();
  }),
            0u);
  then();
}

TEST(ended_runs, hold_nothing_on_cuda_but_what_is_used_again) {
  using counter = std::uint64_t tern_mock_counters::*;
  constexpr counter held[] = {&tern_mock_counters::live_events,        &tern_mock_counters::live_allocations,
                              &tern_mock_counters::live_bytes,         &tern_mock_counters::live_graphs,
                              &tern_mock_counters::live_modules,       &tern_mock_counters::live_streams,
                              &tern_mock_counters::live_registrations, &tern_mock_counters::live_contexts};
  const mock_cuda driver("devices=2");
  options opts = cuda_options("64k");
  opts.set(hetero_devices, "host,cuda");
  opts.set(hetero_models, "read:none");
  recorded step("step");
  step.on("cuda0");
  for (int i = 0; i < 6; ++i) {
    run_with(opts, step, [] { // the scheduler has not ended
      const tern_mock_counters now = mock_cuda::counters();
      EXPECT_EQ(now.pending, 0u);
      EXPECT_LE(now.live_bytes, 2u * 64 * 1024);
      EXPECT_LE(now.live_graphs, 2u) << "one, and what is launched of it";
      EXPECT_LE(now.live_events, 200u) << "those of 48 tasks are used again";
      EXPECT_LE(now.live_contexts, 2u);
    });
    const tern_mock_counters after = mock_cuda::counters();
    for (const counter c : held) EXPECT_EQ(after.*c, 0u) << "when the scheduler has ended";
  }
}

} // namespace
} // namespace tern::hetero
