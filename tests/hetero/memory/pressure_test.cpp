// SPDX-License-Identifier: Apache-2.0
// Devices with too little memory: no data are lost that a task needs, no task livelocks, and a task
// that cannot fit fails with a message.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/variants.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using object = hetero_object<unsigned, 2>;
using view = hetero_view<unsigned, 2>;
using std::chrono::milliseconds;

items over(const view& v) { return items(v.extent(1), v.extent(0)); }
int columns(const view& v) { return static_cast<int>(v.extent(1)); }
int rows(const view& v) { return static_cast<int>(v.extent(0)); }

hetero_task add(const view& v, const char* device) {
  hetero_task t(graph_kernels::add, over(v), columns(v), rows(v), 1u, pitch(v), read_write(v));
  t.on(device).submit();
  return t;
}
hetero_task fill(const view& v, const char* device) {
  hetero_task t(graph_kernels::fill, over(v), columns(v), rows(v), 5u, pitch(v), write(v));
  t.on(device).submit();
  return t;
}
hetero_task mix(const view& x, const view& y, const char* device) {
  hetero_task t(graph_kernels::mix, over(x), columns(x), rows(x), 1u, pitch(x), read(x), pitch(y), read_write(y));
  if (device) t.on(device);
  t.submit();
  return t;
}

template <class F> void simulate(const std::string& simulated, F&& f, int workers = 2, std::uint64_t seed = 1) {
  options opts;
  opts.set(hetero_devices, "host,simulated");
  opts.set(hetero_simulated, simulated);
  opts.set(hetero_policy, "random");
  sim::settings how;
  how.seed = seed;
  sim::simulation world(how);
  scheduler s({.workers = workers, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run(std::forward<F>(f)), 0u);
}

/// Tasks that each fit, on devices that hold two objects of eight.
std::vector<unsigned> push_and_shove(std::uint64_t seed) {
  std::mt19937 dice(static_cast<unsigned>(seed));
  std::vector<object> all;
  for (std::int64_t i = 0; i < 8; ++i) all.emplace_back(extents<2>{2 + i % 4, 256}, 0u);
  for (int i = 0; i < 200; ++i) {
    const std::size_t a = dice() % 8, b = (a + 1 + dice() % 7) % 8;
    const std::int64_t n = std::min(all[a].extent(0), all[b].extent(0));
    mix(all[a].rows(0, n), all[b].rows(0, n), nullptr);
  }
  wait_all();
  std::vector<unsigned> sums;
  for (const object& o : all) {
    const auto host = o.host(access_mode::read).get();
    unsigned sum = 0;
    for (std::int64_t y = 0; y < o.extent(0); ++y)
      for (std::int64_t x = 0; x < 256; ++x) sum = sum * 31 + host(y, x);
    sums.push_back(sum);
  }
  return sums;
}

TEST(pressure, loses_nothing_and_gets_on) {
  for (std::uint64_t seed = 0; seed < test_support::some<std::uint64_t>(60) && !HasFailure(); ++seed) {
    std::vector<unsigned> expected, found;
    on({.workers = 1}, [&] { expected = push_and_shove(seed); });
    const std::string simulated = seed % 2 ? "2:memory=10k,latency=1ms" : "2:memory=10k";
    simulate(
        simulated, [&] { found = push_and_shove(seed); }, 1 + static_cast<int>(seed % 2), seed);
    EXPECT_EQ(found, expected) << "seed " << seed;
    on({.workers = 1 + static_cast<int>(seed / 2 % 2),
        .devices = "host,simulated",
        .simulated = "2:memory=10k",
        .policy = "random"},
       [&] { found = push_and_shove(seed); });
    EXPECT_EQ(found, expected) << "seed " << seed << ", on threads";
  }
}

TEST(pressure, what_is_pinned_stays_and_is_named) {
  simulate("1:memory=10k", [] {
    object kept({6, 256}, 1u), a({3, 256}, 2u), b({3, 256}, 3u);
    kept.pin("simulated0");
    wait_all();
    const auto both = mix(a, b, "simulated0"); // 6 KiB beside 6 KiB
    EXPECT_THAT(text_of_error([&] { both.wait(); }),
                AllOf(HasSubstr("task 'mix' uses 6144 bytes on simulated0"),
                      HasSubstr("10240, of which 6144 are pinned"), HasSubstr("unpin")));
    kept.rows(0, 1).unpin("simulated0"); // any part of it
    object c({3, 256}, 4u);
    mix(a, c, "simulated0").wait();
  });
}

TEST(pressure, a_copy_that_makes_room_and_fails_does_not_harm_what_is_written_anew) {
  simulate("1:memory=10k,latency=50ms,fail-copy=1", [] {
    object a({6, 256}), b({6, 256});
    fill(a, "simulated0");
    wait_all();
    const auto other = fill(b, "simulated0"); // `a` has to go home first
    this_fiber::sleep_for(milliseconds(20));
    hetero_task anew(
        [](host_view<unsigned, 2> v) {
          for (int y = 0; y < 6; ++y)
            for (int x = 0; x < 256; ++x) v(y, x) = 7;
        },
        write(a));
    anew.submit().wait();
    EXPECT_EQ(a.host(access_mode::read).get()(5, 255), 7u);
    other.wait();
  });
}

TEST(pressure, memory_that_is_lent_may_go_with_a_closure_in_the_middle_of_making_room) {
  simulate("1:memory=10k,latency=200ms,launch=100ms", [] {
    std::vector<unsigned> mine(6 * 256);
    object b({6, 256}), small({1, 256});
    {
      const auto lent = object::adopt(mine.data(), {6, 256});
      fill(lent, "simulated0");
      wait_all();
      const auto with = [lent](int, int, unsigned, int, unsigned*) {};
      hetero_task t(variants(graph_kernels::fill, with), items(256), 256, 1, 1u, pitch(small), write(small));
      t.on("simulated0").submit();
    }
    this_fiber::sleep_for(milliseconds(30)); // its kernel runs
    fill(b, "simulated0");                   // what was lent is saved, and its last handle goes meanwhile
    wait_all();
  });
}

// More than any host has; but a part of it has room on a device.
const extents<2> very_large{1 << 30, 1 << 20};

TEST(pressure, what_the_host_has_no_memory_for_stays_and_is_told) {
  simulate("1:memory=14k", [] {
    object large(very_large), b({9, 256}), out({6, 256}, 0u);
    large.name("large");
    const auto v = large.part({0, 0}, {6, 256});
    fill(v, "simulated0").wait();
    const auto t = fill(b, "simulated0");
    EXPECT_THAT(text_of_error([&] { t.wait(); }),
                AllOf(HasSubstr("what is there cannot be saved"), HasSubstr("'large'"),
                      HasSubstr("needs 4503599627370496 bytes of the host's memory"), HasSubstr("smaller objects")));
    mix(v, out, "simulated0").wait(); // it is still there
  });
}

TEST(pressure, what_could_not_be_fetched_is_not_forgotten_afterwards) {
  simulate("2:memory=14k", [] {
    object large(very_large), b({9, 256}), out({6, 256}, 0u);
    const auto v = large.part({0, 0}, {6, 256});
    fill(v, "simulated0").wait();
    const auto away = add(v, "simulated1"); // through the host
    EXPECT_THAT(text_of_error([&] { away.wait(); }), HasSubstr("of the host's memory"));
    fill(v, "simulated0").wait();
    const auto t = fill(b, "simulated0");
    EXPECT_THAT(text_of_error([&] { t.wait(); }), HasSubstr("cannot be saved"));
    mix(v, out, "simulated0").wait();
  });
}

TEST(pressure, what_cannot_be_saved_is_tried_once) {
  simulate("1:memory=10k", [] {
    object a({6, 256}), b({6, 256});
    int tried = 0;
    a.layout_on(
        device_kind::simulated, [](const unsigned*, unsigned*) {},
        [&tried](const unsigned*, unsigned*) {
          ++tried;
          throw std::runtime_error("cannot unpack");
        });
    for (int i = 1; i < 3; ++i) {
      fill(a, "simulated0").wait();
      for (int k = 0; k < 3; ++k) {
        const auto t = fill(b, "simulated0");
        EXPECT_THAT(text_of_error([&] { t.wait(); }), AllOf(HasSubstr("cannot be saved"), HasSubstr("cannot unpack")));
      }
      EXPECT_EQ(tried, i); // anew once it has been written anew
    }
  });
}

TEST(pressure, a_part_gets_a_copy_of_its_own_if_that_of_the_whole_has_no_room) {
  simulate("1:memory=10k", [] {
    object a({6, 256}), b({6, 256}, 0u);
    fill(a, "simulated0").wait();
    const auto part = a.rows(0, 1);
    hetero_task t(graph_kernels::mix, over(part), columns(part), rows(part), 1u, pitch(part), read(part), pitch(b),
                  read_write(b));
    t.on("simulated0").submit().wait(); // 1 + 6 KiB of 10
    EXPECT_EQ(a.host(access_mode::read).get()(5, 255), graph_kernels::stir(5u, 5 * 1000 + 255));
  });
}

TEST(pressure, memory_that_was_lent_and_has_no_handle_is_left) {
  simulate("1:memory=10k", [] {
    std::vector<unsigned> mine(6 * 256);
    object b({6, 256}), gate({1, 1}, 0u);
    auto held = gate.host(access_mode::read_write).get();
    hetero_task later;
    {
      const auto lent = object::adopt(mine.data(), {6, 256});
      fill(lent, "simulated0").wait();
      later = hetero_task([](const unsigned*, const unsigned*) {}, read(lent), read(gate));
      later.submit();
    }
    const auto t = fill(b, "simulated0");
    t.wait();
    held.release();
    later.wait();
    fill(b, "simulated0").wait();
  });
}

// The device has no room, and the launches that it waits for fail at once.
TEST(pressure, launches_that_fail_at_once_let_go_of_what_others_wait_for) {
  for (int n = 132; n < 142; ++n) {
    const mock_cuda driver("quiet,seed=1,delay=300us,fail-launch=" + std::to_string(n));
    options opts = cuda_options("64K", "no-pool");
    opts.set(hetero_devices, "cuda");
    opts.set(hetero_queues, 1);
    scheduler s({.workers = 1, .opts = &opts});
    s.run([&] {
      const auto fill_row = [](const object& o) {
        hetero_task t(graph_kernels::fill, items(256), 256, 1, 1u, pitch(o), write(o));
        t.submit();
        return t.done();
      };
      std::vector<future<void>> done;
      object big({60, 256}), first({1, 256}, 0u);
      first.pin("cuda0");
      wait_all();
      {
        std::vector<object> small; // of which it learns that they are faster together
        for (int i = 0; i < 16; ++i) small.emplace_back(extents<2>{1, 256});
        for (std::size_t i = 0; i < 140; ++i) done.push_back(fill_row(small[i % 16]));
        for (future<void>& f : done) f.wait();
      }
      for (int k = 0; k < 12; ++k) {
        std::vector<object> some;
        const auto launches = mock_cuda::counters().launches;
        done.push_back(fill_row(first));
        // It runs, and what follows is gathered; or its launch has failed.
        while (mock_cuda::counters().launches == launches && !done.back().ready()) this_fiber::yield();
        for (int i = 0; i < 4; ++i) done.push_back(fill_row(some.emplace_back(extents<2>{1, 256})));
        future<void> last = fill(big, "cuda0").done();
        ASSERT_EQ(last.wait_for(std::chrono::seconds(20)), future_status::ready) << "launch " << n << " fails";
      }
    });
    mock_cuda::forget_misuse();
  }
}

TEST(pressure, copies_that_other_devices_make_are_waited_for) {
  const mock_cuda driver("devices=2,delay=3ms");
  options opts = cuda_options("10K");
  opts.set(hetero_devices, "host,cuda");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    object x({6, 256}), y({1, 256}, 0u), z({6, 256});
    for (int i = 0; i < 20; ++i) {
      fill(x, "cuda0");
      wait_all();
      const auto reader = mix(x.rows(0, 1), y, "cuda1"); // copied from cuda0, by cuda1
      const auto writer = fill(z, "cuda0");              // where x is in the way
      reader.wait();
      writer.wait();
    }
  }),
            0u);
}

TEST(pressure, parts_of_one_object_without_number_are_one_in_a_recorded_step) {
  for (const int n : {31, 32, 33, 63, 64, 200})
    simulate("1", [n] {
      object o({n, 16}, 0u);
      recorded step("step");
      step.on("simulated0");
      for (int round = 0; round < 2; ++round)
        step.submit([&] {
          for (int i = 0; i < n; ++i) {
            const auto v = o.rows(i, i + 1);
            submit(graph_kernels::add, items(16), 16, 1, 1u, pitch(v), read_write(v));
          }
        });
      wait_all();
      EXPECT_EQ(o.host(access_mode::read).get()(n - 1, 15), 2u * 16);
    });
}

TEST(pressure, what_a_recorded_step_writes_piece_by_piece_it_may_read) {
  on({}, [] {
    object o({4, 16}), sum({4, 16}, 0u);
    const auto body = [&] {
      for (int i = 0; i < 2; ++i) {
        const auto v = o.rows(2 * i, 2 * i + 2);
        submit(graph_kernels::fill, items(16, 2), 16, 2, 5u, pitch(v), write(v));
      }
      submit(graph_kernels::mix, items(16, 4), 16, 4, 1u, pitch(o), read(o), pitch(sum), read_write(sum));
    };
    recorded step("step");
    step.submit(body); // nothing has been written before
    wait_all();
    body();
    wait_all();
  });
}

class aligned : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(memory, aligned, testing::Values("auto", "buffers"));

// A part lies where the device takes addresses, whatever else is there of the object.
TEST_P(aligned, parts_of_objects_on_opencl) {
  options opts;
  opts.set(hetero_cache, "off");
  const auto there = devices(opts);
  if (std::none_of(there.begin(), there.end(), [](const device_info& i) { return i.kind == device_kind::opencl; }))
    GTEST_SKIP() << "no OpenCL device";
  on({.devices = "host,opencl", .opencl_memory = GetParam()}, [] {
    const auto value = [](const object& o) { return o.host(access_mode::read).get()(1, 3); };
    object alone({4, 7}, 0u), after_all({4, 7}, 0u), after_some({4, 7}, 0u);
    add(alone.rows(1, 2), "opencl0").wait();
    EXPECT_EQ(value(alone), 4u);
    add(after_all, "opencl0").wait();
    add(after_all.rows(1, 2), "opencl0").wait();
    EXPECT_EQ(value(after_all), 7u + 4);
    add(after_some.rows(0, 3), "opencl0").wait();
    add(after_some.rows(1, 2), "opencl0").wait();
    EXPECT_EQ(value(after_some), 7u + 4);
  });
}

} // namespace
} // namespace tern::hetero
