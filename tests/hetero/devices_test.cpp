// SPDX-License-Identifier: Apache-2.0
// Tasks on devices with memory of their own: how many copies there are, what fails, and what goes
// on at once.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/graph/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using ::testing::HasSubstr;
using object = hetero_object<unsigned, 2>;

/// In a simulation. \return the virtual seconds that it took.
template <class F> double simulate(const std::string& devices, const std::string& simulated, F&& f, int workers = 2) {
  options opts;
  opts.set(hetero_devices, devices);
  opts.set(hetero_simulated, simulated);
  sim::simulation world;
  scheduler s({.workers = workers, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run(std::forward<F>(f)), 0u);
  return world.seconds();
}

void add_to(const object& o, const char* device, unsigned a = 1) {
  hetero_task t(graph_kernels::add, tern::items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
                static_cast<int>(o.extent(0)), a, pitch(o), read_write(o));
  if (device) t.on(device);
  t.submit();
}
void mix_to(const object& x, const object& y, const char* device) {
  hetero_task(graph_kernels::mix, tern::items(x.extent(1), x.extent(0)), static_cast<int>(x.extent(1)),
              static_cast<int>(x.extent(0)), 1u, pitch(x), read(x), pitch(y), read_write(y))
      .on(device)
      .submit();
}
void fill_it(const object& o, const char* device) {
  hetero_task(graph_kernels::fill, tern::items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
              static_cast<int>(o.extent(0)), 5u, pitch(o), write(o))
      .on(device)
      .submit();
}

TEST(devices, data_go_there_once_and_come_back_when_asked_for) {
  simulate("host,simulated", "1", [] {
    object o({10, 10}, 0u);
    for (int i = 0; i < 5; ++i) add_to(o, "simulated0");
    wait_all();
    EXPECT_EQ(count().copies_to_devices, 1u);
    EXPECT_EQ(count().bytes_to_devices, 400u);
    EXPECT_EQ(count().copies_from_devices, 0u);
    EXPECT_EQ(count().devices[1].tasks, 5u);
    EXPECT_EQ(count().devices[1].memory_bytes, 400);
    EXPECT_EQ(o.host(access_mode::read).get()(2, 1), 5u * (1 + 3 * 2 + 1));
    EXPECT_EQ(o.host(access_mode::read).get()(2, 1), 40u);
    EXPECT_EQ(count().copies_from_devices, 1u);
    add_to(o, "simulated0"); // its copy is still right
    wait_all();
    EXPECT_EQ(count().copies_to_devices, 1u);
  });
}

TEST(devices, what_is_only_written_is_not_fetched) {
  simulate("host,simulated", "2", [] {
    object o({10, 10});
    fill_it(o, "simulated0");
    fill_it(o, "simulated1");
    EXPECT_EQ(o.host(access_mode::read).get()(0, 3), graph_kernels::stir(5, 3));
    EXPECT_EQ(count().copies_to_devices, 0u);
    EXPECT_EQ(count().copies_from_devices, 1u);
    o.host(access_mode::write).get()(0, 0) = 1;
    EXPECT_EQ(count().copies_from_devices, 1u);
  });
}

TEST(devices, views_of_a_row_or_a_halo_are_copied_alone) {
  simulate("host,simulated", "1", [] {
    object o({100, 16}, 1u);
    const auto row = o.rows(40, 41), halo = row.halo(1);
    EXPECT_EQ(halo.extent(0), 3);
    EXPECT_EQ(halo.extent(1), 16);
    hetero_task(graph_kernels::add, tern::items(16, 3), 16, 3, 1u, pitch(halo), read_write(halo))
        .on("simulated0")
        .submit();
    wait_all();
    EXPECT_EQ(count().bytes_to_devices, 3u * 16 * 4);
    auto h = o.host(access_mode::read).get();
    EXPECT_EQ(count().bytes_from_devices, 3u * 16 * 4);
    EXPECT_EQ(h(39, 0), 2u);
    EXPECT_EQ(h(41, 2), 10u);
    EXPECT_EQ(h(38, 0), 1u);
    EXPECT_EQ(h(42, 15), 1u);
  });
}

TEST(devices, prefetch_pin_and_drop) {
  simulate("host,simulated", "1", [] {
    object o({10, 10}, 3u);
    o.prefetch("simulated0");
    wait_all();
    EXPECT_EQ(count().copies_to_devices, 1u);
    add_to(o, "simulated0");
    o.drop("simulated0");
    wait_all();
    EXPECT_EQ(count().copies_from_devices, 1u);
    EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 4u);
    o.prefetch("host");
    add_to(o, "simulated0");
    wait_all();
    EXPECT_EQ(count().copies_to_devices, 2u);
    EXPECT_EQ(count().devices[1].memory_bytes, 400); // the old memory has gone
  });
}

/// Copies that MSI cannot do without, if each task runs where it is told: a device that reads what
/// it does not have needs one from the host, and the host one from somewhere if it has none.
class least_copies {
public:
  explicit least_copies(std::size_t objects) : valid_(objects, std::set<int>{0}) {}
  void read(std::size_t o, int device) {
    if (valid_[o].contains(device)) return;
    if (!valid_[o].contains(0)) {
      ++from_;
      valid_[o].insert(0);
    }
    if (device != 0) ++to_;
    valid_[o].insert(device);
  }
  void write(std::size_t o, int device) { valid_[o] = {device}; }
  std::uint64_t to_ = 0, from_ = 0;

private:
  std::vector<std::set<int>> valid_;
};

TEST(devices, copies_are_as_few_as_possible) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulate("host,simulated", "3", [seed] {
      std::mt19937_64 dice(seed);
      std::vector<object> objects;
      for (int i = 0; i < 6; ++i) objects.emplace_back(extents<2>{8, 8}, 1u);
      least_copies least(objects.size());
      const char* const ids[] = {"host", "simulated0", "simulated1", "simulated2"};
      for (int i = 0; i < 80; ++i) {
        const std::size_t a = dice() % 6, b = (a + 1 + dice() % 5) % 6;
        const int d = static_cast<int>(dice() % 4);
        switch (dice() % 3) {
        case 0:
          fill_it(objects[a], ids[d]);
          least.write(a, d);
          break;
        case 1:
          add_to(objects[a], ids[d]);
          least.read(a, d);
          least.write(a, d);
          break;
        default:
          mix_to(objects[a], objects[b], ids[d]);
          least.read(a, d);
          least.read(b, d);
          least.write(b, d);
        }
      }
      wait_all();
      EXPECT_EQ(count().copies_to_devices, least.to_);
      EXPECT_EQ(count().copies_from_devices, least.from_);
    });
    if (HasFailure()) return;
  }
}

TEST(devices, four_take_a_quarter_of_the_time_of_one) {
  const auto run = [](const std::string& simulated) {
    return simulate(
        "simulated", simulated + ":launch=1ms,latency=20us,bandwidth=1G",
        [] {
          std::vector<object> objects;
          for (int i = 0; i < 400; ++i) objects.emplace_back(extents<2>{16, 16}, 1u);
          for (const object& o : objects) add_to(o, nullptr);
          wait_all();
        },
        1);
  };
  const double one = run("1"), four = run("4");
  EXPECT_GE(one / four, 3.8);
}

TEST(devices, copies_and_kernels_overlap) {
  // One after the other each task takes 3 ms: 1 there, 1 for the kernel; the way back at the end.
  const double seconds = simulate("simulated", "1:launch=1ms,latency=1ms,bandwidth=0", [] {
    std::vector<object> objects;
    for (int i = 0; i < 50; ++i) objects.emplace_back(extents<2>{16, 16}, 1u);
    for (const object& o : objects) add_to(o, nullptr);
    for (const object& o : objects) o.prefetch("host");
    wait_all();
  });
  EXPECT_LT(seconds, 0.5 * 50 * 0.003);
}

// What goes wrong -----------------------------------------------------------------------------------------------------

TEST(devices, a_kernel_that_fails_fails_its_task_and_those_after_it) {
  simulate("host,simulated", "1:fail-kernel=2", [] {
    object a({4, 4}, 1u), b({4, 4}, 1u), c({4, 4}, 1u);
    add_to(c, "simulated0");
    wait_all();
    hetero_task bad(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(a), read_write(a));
    bad.on("simulated0").submit();
    mix_to(a, b, "simulated0");
    const std::string text = text_of_error([&] { bad.wait(); });
    add_to(c, "simulated0");
    EXPECT_THAT(text, HasSubstr("simulated0"));
    EXPECT_THAT(text, HasSubstr("'add'"));
    EXPECT_THAT(text_of_error([&] { b.host(access_mode::read).get(); }),
                HasSubstr("task 'mix' was not run, as 'add' before it failed: "));
    EXPECT_EQ(c.host(access_mode::read).get()(0, 0), 3u);
  });
}

TEST(devices, a_copy_that_fails_fails_who_waits_for_it) {
  simulate("host,simulated", "1:fail-copy=1", [] {
    object a({4, 4}, 1u);
    hetero_task bad(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(a), read_write(a));
    bad.on("simulated0").submit();
    EXPECT_THROW(bad.wait(), error);
    fill_it(a, "simulated0");
    EXPECT_EQ(a.host(access_mode::read).get()(0, 0), graph_kernels::stir(5, 0));
  });
}

TEST(devices, memory_that_runs_out_makes_room) {
  simulate("host,simulated", "1:memory=4k", [] {
    std::vector<object> objects;
    for (int i = 0; i < 20; ++i) objects.emplace_back(extents<2>{16, 16}, static_cast<unsigned>(i)); // 1 KiB each
    for (int round = 0; round < 3; ++round)
      for (const object& o : objects) add_to(o, "simulated0");
    for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(objects[i].host(access_mode::read).get()(0, 0), i + 3);
    EXPECT_LE(count().devices[1].memory_bytes, 4096);
  });
}

TEST(devices, more_parts_than_an_object_may_have_copies_of) {
  simulate("host,simulated", "2", [] {
    object o({200, 4}, 1u);
    o.tiles({1, 4});
    for (int round = 0; round < 2; ++round)
      for (int i = 0; i < 200; ++i) {
        const auto row = o.rows(i, i + 1);
        hetero_task(graph_kernels::add, tern::items(4, 1), 4, 1, 1u, pitch(row), read_write(row))
            .on((i + round) % 2 == 0 ? "simulated0" : "simulated1")
            .submit();
      }
    auto h = o.host(access_mode::read).get();
    for (int i = 0; i < 200; ++i) ASSERT_EQ(h(i, 1), 1u + 2 * 2) << i;
  });
}

TEST(devices, what_is_written_anew_is_not_overwritten_by_a_copy_that_makes_room) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    simulate("host,simulated", "2:memory=2k,latency=50us", [seed] {
      std::vector<object> objects;
      for (int i = 0; i < 6; ++i) objects.emplace_back(extents<2>{16, 16}, 0u); // 1 KiB each
      std::mt19937_64 dice(seed);
      std::vector<unsigned> expected(6, 0);
      for (int i = 0; i < 60; ++i) {
        const std::size_t k = dice() % 6;
        const unsigned value = static_cast<unsigned>(i);
        switch (dice() % 3) {
        case 0:
          submit([value](host_view<unsigned, 2> v) { std::fill(v.data(), v.data() + 256, value); }, write(objects[k]));
          expected[k] = value;
          break;
        case 1:
          fill_it(objects[k], dice() % 2 == 0 ? "simulated0" : "simulated1");
          expected[k] = graph_kernels::stir(5, 0);
          break;
        default:
          add_to(objects[k], dice() % 2 == 0 ? "simulated0" : "simulated1");
          expected[k] += 1;
        }
      }
      for (std::size_t k = 0; k < 6; ++k)
        ASSERT_EQ(objects[k].host(access_mode::read).get()(0, 0), expected[k]) << seed;
    });
}

TEST(devices, lent_memory_is_left_alone_once_its_object_has_gone) {
  simulate("host,simulated", "1:memory=1k,latency=50us", [] {
    std::vector<unsigned> lent(256, 0);
    object other({16, 16}, 0u);
    {
      const object o = object::adopt(lent.data(), {16, 16});
      fill_it(o, "simulated0");
      wait_all();
      EXPECT_EQ(lent[0], 0u);      // only the device has it
      add_to(other, "simulated0"); // so that has to come home first
      this_fiber::sleep_for(std::chrono::microseconds(20));
    } // waits for it
    const std::vector<unsigned> seen = lent;
    EXPECT_EQ(seen[0], graph_kernels::stir(5, 0));
    wait_all();
    EXPECT_EQ(lent, seen);
  });
}

TEST(devices, what_can_never_fit_says_so) {
  simulate("host,simulated", "1:memory=4k", [] {
    object large({64, 64}, 1u);
    add_to(large, "simulated0");
    EXPECT_THAT(
        text_of_error([] { wait_all(); }),
        HasSubstr("task 'add' uses 16384 bytes on simulated0, which has room for 4096; cut it into smaller tasks with "
                  "views, or run it on the host (hetero-devices) [out_of_memory"));
  });
}

TEST(devices, a_lost_device_takes_what_it_alone_had) {
  simulate("host,simulated", "2:lose=5@0", [] {
    object alone({4, 4}, 1u), both({4, 4}, 1u), other({4, 4}, 1u);
    both.prefetch("simulated0"); // operation 1
    add_to(alone, "simulated0"); // 2, 3
    wait_all();
    std::vector<object> more;
    for (int i = 0; i < 4; ++i) more.emplace_back(extents<2>{4, 4}, 1u);
    for (const object& o : more) {
      hetero_task t(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
      t.on("simulated0").submit();
      try {
        t.wait();
      } catch (const error& e) {
        EXPECT_TRUE(e.code() == errc::device_lost || e.code() == errc::not_found) << e.what();
      }
    }
    EXPECT_THAT(text_of_error([&] { alone.host(access_mode::read).get(); }),
                HasSubstr("of which the only valid copy was lost with its device"));
    EXPECT_EQ(both.host(access_mode::read).get()(0, 0), 1u);
    add_to(other, nullptr); // elsewhere
    EXPECT_EQ(other.host(access_mode::read).get()(0, 0), 2u);
    fill_it(alone, "simulated1");
    EXPECT_EQ(alone.host(access_mode::read).get()(0, 0), graph_kernels::stir(5, 0));
    hetero_task late(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(other), read_write(other));
    late.on("simulated0").submit();
    EXPECT_THAT(text_of_error([&] { late.wait(); }),
                HasSubstr("task 'add' can run on simulated, and there is no such device; there are: host, simulated0 "
                          "(lost), simulated1"));
  });
}

TEST(devices, wrong_launches_are_told) {
  simulate("host,simulated", "1", [] {
    object o({4, 4}, 1u);
    EXPECT_THAT(text_of_error([] { tern::items(0); }),
                HasSubstr("items: 0 in dimension x; a kernel runs for at least"));
    EXPECT_THAT(text_of_error([] { tern::items(4).group(64, 64); }),
                HasSubstr("groups of 64 x 64 x 1; a group has from 1 to 1024 items"));
    EXPECT_THAT(text_of_error([&] { hetero_task([] {}).on(device_kind::simulated); }),
                HasSubstr("task 'task' has nothing that runs on simulated; a function runs on the host only"));
    EXPECT_THAT(text_of_error([&] { hetero_task([] {}).on("simulated3"); }),
                HasSubstr("no device 'simulated3'; there are: host, simulated0"));
    object p({4, 4}, 1u);
    EXPECT_THAT(
        text_of_error([&] { hetero_task(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(p), read_write(o)); }),
        HasSubstr("pitch(): hetero_object<unsigned int> of 4 x 4 is no argument of the task"));
    hetero_task t(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
    t.on(device_kind::opencl).submit();
    EXPECT_THAT(text_of_error([&] { t.wait(); }),
                HasSubstr("task 'add' can run on opencl, and there is no such device"));
  });
  options opts;
  EXPECT_THAT(
      text_of_error([&] { opts.set(hetero_devices, "host,gpu"); }),
      HasSubstr("option hetero-devices cannot be \"host,gpu\" (by the program): there is no device 'gpu'; names "
                "are like: all, host, "));
  opts.set(hetero_simulated, "2");
  opts.set(hetero_devices, "host,simulated2");
  EXPECT_THAT(
      text_of_error([&] { tern::hetero::devices(opts); }),
      AllOf(
          HasSubstr(
              "there is no device 'simulated2' here; did you mean simulated0? there are: host, simulated0, simulated1"),
          HasSubstr(there_is_opencl() ? ", opencl0" : "simulated1"))); // which the option did not name
  EXPECT_THAT(
      text_of_error([&] { opts.set(hetero_policy, "egaer"); }),
      AllOf(HasSubstr("option hetero-policy cannot be \"egaer\" (by the program): there is no policy 'egaer'; did "
                      "you mean eager? there are: "),
            HasSubstr("dmda, eager, energy, locality, random, round-robin"), HasSubstr(", steal")));
  EXPECT_THAT(text_of_error([&] { opts.set(hetero_simulated, "2:bandwith=4G"); }),
              HasSubstr("option hetero-simulated cannot be \"2:bandwith=4G\" (by the program): there is no word "
                        "\"bandwith\"; did you mean bandwidth? there are: "));
}

TEST(devices, simulations_have_no_real_ones) {
  options opts;
  opts.set(hetero_devices, "opencl0");
  sim::simulation world;
  scheduler s({.simulation = &world, .opts = &opts});
  s.run([] {
    EXPECT_THAT(text_of_error([] {
                  object o({4, 4}, 1u);
                }),
                HasSubstr("there is no device 'opencl0' here; a simulation has the host and simulated devices only"));
  });
}

TEST(devices, a_policy_of_the_programs_is_accepted) {
  static const policy_registration mine("the tests' own",
                                        [](std::uint64_t seed) { return make_policy("round-robin", seed); });
  on({.policy = "the tests' own"}, [] { object o({4, 4}, 1u); });
}

TEST(devices, policies_do_what_they_say) {
  const auto tasks = [](const std::string& policy, int n) {
    std::vector<std::uint64_t> of_device;
    options opts;
    opts.set(hetero_devices, "simulated");
    opts.set(hetero_simulated, "3:launch=100us");
    opts.set(hetero_policy, policy);
    sim::simulation world;
    scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
    EXPECT_EQ(s.run([&] {
      object o({4, 4}, 1u);
      o.prefetch("simulated1");
      wait_all();
      std::vector<object> many;
      for (int i = 0; i < n; ++i) {
        object y({4, 4}, 1u);
        hetero_task(graph_kernels::mix, tern::items(4, 4), 4, 4, 1u, pitch(o), read(o), pitch(y), read_write(y))
            .submit();
        many.push_back(y);
        if (policy == "locality") wait_all();
      }
      wait_all();
      for (std::size_t d = 1; d < 4; ++d) of_device.push_back(count().devices[d].tasks);
    }),
              0u);
    return of_device;
  };
  EXPECT_EQ(tasks("round-robin", 30), (std::vector<std::uint64_t>{10, 11, 10})); // and the prefetch
  EXPECT_EQ(tasks("locality", 30), (std::vector<std::uint64_t>{0, 31, 0}));
  for (const std::uint64_t n : tasks("random", 60)) EXPECT_GT(n, 5u);
  for (const std::uint64_t n : tasks("eager", 60)) EXPECT_GT(n, 5u);
}

TEST(devices, a_kernel_may_have_a_function_of_the_hosts_beside_it) {
  simulate("host,simulated", "1", [] {
    object o({4, 4}, 1u);
    int calls = 0;
    const auto on_host = [&calls](int nx, int ny, unsigned a, int py, unsigned* y) {
      ++calls;
      for (int i = 0; i < ny; ++i)
        for (int j = 0; j < nx; ++j) y[i * py + j] += a * static_cast<unsigned>(j + 3 * i + 1);
    };
    for (const char* device : {"host", "simulated0", "host"})
      hetero_task(variants(graph_kernels::add, on_host), tern::items(4, 4), 4, 4, 1u, pitch(o), read_write(o))
          .on(device)
          .submit();
    submit(variants(graph_kernels::add, on_host), tern::items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
    EXPECT_EQ(o.host(access_mode::read).get()(1, 1), 1u + 4 * 5);
    EXPECT_GE(calls, 2);
    EXPECT_LE(calls, 3);
  });
}

TEST(devices, memory_of_tasks_and_copies_is_used_again) {
  simulate("host,simulated", "2", [] {
    object x({4, 4}, 0u);
    std::size_t transfers = 0;
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 100; ++i) {
        const char* const devices[] = {"simulated0", "host", "simulated1"};
        hetero_task(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(x), read_write(x))
            .on(devices[i % 3])
            .submit();
      }
      wait_all();
      auto& r = detail::runtime::here("test");
      if (round == 1) transfers = r.copies().transfers().made();
      if (round > 1) {
        EXPECT_EQ(r.copies().transfers().made(), transfers);
      }
      EXPECT_LE(r.records().records_made(), 2048u);
    }
    EXPECT_LE(transfers, 8u); // one after the other
  });
}

TEST(devices, fixed_groups_and_dynamic_memory) {
  simulate("host,simulated", "1", [] {
    for (const char* device : {"host", "simulated0"}) {
      hetero_object<int> out(20 * 6 * 4, -1);
      hetero_task(test_kernels::who, tern::items(6, 4).group(3, 2), write(out)).on(device).submit();
      auto h = out.host(access_mode::read).get();
      EXPECT_EQ(h[20 * (3 * 6 + 5) + 0], 5);
      EXPECT_EQ(h[20 * (3 * 6 + 5) + 7], 1);
      EXPECT_EQ(h[20 * (3 * 6 + 5) + 10], 3);
    }
  });
}

} // namespace
} // namespace tern::hetero
