// SPDX-License-Identifier: Apache-2.0
// What the host is to read is copied behind the tasks that write it, before these have ended.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/queued/machine.hpp"
#include "tests/hetero/support/cuda.hpp"
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero {
namespace {

using queued::adding, queued::filling, queued::machine_with, queued::made, queued::mixing, queued::simulate;
using queued::columns, queued::first_of, queued::kernel_seconds, queued::notice_seconds, queued::rows;
using testing::HasSubstr;
using values = std::vector<unsigned>;

std::string told_late(const std::string& more = {}) { return "1" + std::string(queued::slow_to_tell) + more; }
std::uint64_t copied_behind() { return count().copied_behind; }

/// Seconds for a kernel and what the host does after it, each of which follows the one before.
double seconds_each(int ahead, const std::function<void(const queued::object&, unsigned)>& look) {
  constexpr unsigned n = 50;
  double taken = 0;
  simulate(machine_with(ahead), [&] {
    const queued::object x = made();
    adding(x).submit();
    EXPECT_EQ(first_of(x), 1u);
    const std::uint64_t before = copied_behind(), copies = count().copies_from_devices;
    const double begin = queued::now();
    for (unsigned i = 0; i < n; ++i) {
      adding(x).submit();
      look(x, i + 2);
    }
    wait_all();
    taken = queued::now() - begin;
    EXPECT_EQ(copied_behind() - before, ahead == 0 ? 0u : n);
    EXPECT_EQ(count().copies_from_devices - copies, n);
  });
  return taken / n;
}

// A kernel and the time until an end can be seen; twice that, if the copy begins only then.
void expect_one_wait_instead_of_two(const std::function<void(const queued::object&, unsigned)>& look) {
  EXPECT_LT(seconds_each(64, look), kernel_seconds + 1.1 * notice_seconds);
  EXPECT_GT(seconds_each(0, look), kernel_seconds + 1.9 * notice_seconds);
}

TEST(copies_home, of_what_tasks_read_are_behind_kernels) {
  expect_one_wait_instead_of_two([](const queued::object& x, unsigned value) {
    submit([value](host_view<const unsigned, 2> v) { EXPECT_EQ(v(0, 0), value); }, read(x));
  });
}

TEST(copies_home, of_what_the_program_looks_at_are_behind_kernels) {
  expect_one_wait_instead_of_two([](const queued::object& x, unsigned value) { EXPECT_EQ(first_of(x), value); });
}

TEST(copies_home, to_the_users_memory_are_behind_kernels) {
  expect_one_wait_instead_of_two([](const queued::object& x, unsigned value) {
    values seen(rows * columns);
    x.copy_to(seen.data()).get();
    EXPECT_EQ(seen[0], value);
  });
}

TEST(copies_home, of_parts_are_one_copy_or_several) {
  simulate(machine_with(64, told_late(",latency=1us@0")), [] {
    const queued::object x = made();
    const auto upper = x.rows(0, 3), lower = x.rows(3, rows);
    unsigned up = 0, low = 0;
    for (int i = 0; i < 20; ++i) {
      adding(x).submit();
      submit(graph_kernels::add, tern::items(columns, 3), columns, 3, 5u, pitch(upper), read_write(upper));
      up += 6, low += 10;
      const auto seen = x.host(access_mode::read).get();
      EXPECT_EQ(seen(0, 0), up);
      EXPECT_EQ(seen(3, 0), low);
      values part(static_cast<std::size_t>((rows - 3) * columns));
      lower.copy_to(part.data()).get();
      EXPECT_EQ(part[0], low);
    }
    EXPECT_GE(copied_behind(), 20u);
  });
}

// The writer only comes later than what fails: it is launched again, and what was copied behind it
// is not what it writes.
TEST(copies_home, are_made_again_where_what_they_follow_is_launched_again) {
  const std::vector<std::function<unsigned(const queued::object&)>> ways = {
      first_of,
      [](const queued::object& x) {
        values seen(rows * columns);
        x.copy_to(seen.data()).get();
        return seen[0];
      },
      [](const queued::object& x) {
        unsigned seen = 0;
        hetero_task reader([&seen](host_view<const unsigned, 2> v) { seen = v(0, 0); }, read(x));
        reader.submit();
        reader.wait();
        return seen;
      }};
  for (const auto& way : ways)
    simulate(machine_with(64, told_late(",fail-kernel=2")), [&way] {
      const queued::object x = made();
      hetero_task first = adding(x), bad = adding(x), over = filling(x, 7);
      for (hetero_task* t : {&first, &bad, &over}) t->submit();
      first.wait();
      const std::uint64_t copies = count().copies_from_devices;
      EXPECT_EQ(way(x), graph_kernels::stir(7, 0));
      EXPECT_THAT(text_of_error([&bad] { bad.wait(); }), HasSubstr("it was to: fail-kernel"));
      EXPECT_EQ(copied_behind(), 1u);
      EXPECT_EQ(count().copies_from_devices - copies, 2u);
    });
}

TEST(copies_home, of_what_was_not_written_fail_with_the_writer) {
  for (const int ahead : {0, 64})
    simulate(machine_with(ahead, told_late(",fail-kernel=2")), [ahead] {
      const queued::object x = made();
      adding(x).name("right").submit();
      hetero_task bad = adding(x);
      bad.name("bad").submit();
      values seen(rows * columns, 77u);
      auto copied = x.copy_to(seen.data());
      auto access = x.host(access_mode::read);
      EXPECT_THAT(text_of_error([&] { copied.get(); }), HasSubstr("'bad'"));
      EXPECT_THAT(text_of_error([&] { access.get(); }), HasSubstr("'bad'"));
      EXPECT_THAT(text_of_error([&] { bad.wait(); }), HasSubstr("it was to: fail-kernel"));
      EXPECT_EQ(copied_behind() > 0, ahead > 0);
      filling(x, 3).submit(); // and nothing of it is left
      EXPECT_EQ(first_of(x), graph_kernels::stir(3, 0));
    });
}

TEST(copies_home, that_fail_say_so) {
  for (const int ahead : {0, 64})
    for (const bool out : {false, true})
      simulate(machine_with(ahead, told_late(",fail-copy=2")), [out] {
        const queued::object x = made();
        adding(x).submit(); // the first copy is to the device
        values seen(rows * columns);
        EXPECT_THAT(text_of_error([&] {
                      if (out)
                        x.copy_to(seen.data()).get();
                      else
                        x.host(access_mode::read).get();
                    }),
                    HasSubstr("it was to: fail-copy"));
        EXPECT_EQ(first_of(x), 1u); // once more
      });
}

TEST(copies_home, are_lost_with_their_device) {
  for (int n = 2; n <= 6; ++n)
    simulate(machine_with(64, told_late(",lose=" + std::to_string(n))), [] {
      const queued::object x = made();
      std::string seen;
      for (int i = 0; i < 4; ++i) {
        adding(x).submit();
        const std::string text = text_of_error([&] { first_of(x); });
        if (text != "nothing was thrown") seen = text;
      }
      EXPECT_THAT(seen, HasSubstr("lost"));
      text_of_error([] { wait_all(); });
    });
}

// Memory that the program has lent is its own again when the object has ended.
TEST(copies_home, into_lent_memory_are_over_when_the_object_is) {
  simulate(machine_with(64), [] {
    values lent(rows * columns, 0u);
    {
      const auto x = queued::object::adopt(lent.data(), {rows, columns});
      adding(x).submit();
      hetero_task reader([](host_view<const unsigned, 2>) {}, read(x));
      reader.submit();
      this_fiber::sleep_for(std::chrono::microseconds(25)); // the kernel has its data, and the copy is queued
      EXPECT_EQ(copied_behind(), 1u);
      EXPECT_TRUE(reader.cancel());
      EXPECT_THAT(text_of_error([&] { reader.wait(); }), HasSubstr("cancelled"));
      adding(x).submit();
      EXPECT_EQ(first_of(x), 2u);
    }
    EXPECT_EQ(lent[0], 2u);
    lent.assign(lent.size(), 9u);
    this_fiber::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(lent[0], 9u);
  });
}

TEST(copies_home, wait_for_no_disk) { // the host's memory is limited: as if they were not there
  const test::temporary_on_disk folder;
  options opts = machine_with(64);
  opts.set(hetero_disk, folder.path);
  opts.set(hetero_host_memory, "64k");
  simulate(opts, [] {
    const queued::object x = made();
    for (unsigned i = 1; i <= 10; ++i) {
      adding(x).submit();
      EXPECT_EQ(first_of(x), i);
    }
    EXPECT_EQ(copied_behind(), 0u);
  });
}

// From device to device ------------------------------------------------------------------------------------------------

/// Seconds of a kernel, on two devices in turn, with the way of its data to the next one.
double seconds_to_and_fro(int ahead, const std::string& more, std::uint64_t& copied) {
  constexpr unsigned n = 40;
  double taken = 0;
  simulate(machine_with(ahead, "2" + std::string(queued::slow_to_tell) + more), [&] {
    const queued::object x = made();
    adding(x).on("simulated1").submit();
    wait_all();
    const double begin = queued::now();
    for (unsigned i = 0; i < n; ++i) adding(x).on(i % 2 == 0 ? "simulated0" : "simulated1").submit();
    wait_all();
    taken = queued::now() - begin;
    copied = copied_behind();
    EXPECT_EQ(count().copies_from_devices + count().copies_between_devices, n);
    EXPECT_EQ(first_of(x), n + 1);
  });
  return taken / n;
}

TEST(copies_home, on_the_way_to_another_device_are_behind_kernels) {
  std::uint64_t copied = 0;
  EXPECT_LT(seconds_to_and_fro(64, "", copied), 1.1 * kernel_seconds + 3 * notice_seconds / 40);
  EXPECT_GE(copied, 2 * 39u); // all but the first, and their second halves
  EXPECT_GT(seconds_to_and_fro(0, "", copied), kernel_seconds + 2.9 * notice_seconds);
  EXPECT_EQ(copied, 0u);
  seconds_to_and_fro(64, ",peer-bandwidth=1G", copied); // they go straight there
  EXPECT_GE(copied, 38u);
  EXPECT_LE(copied, 40u);
}

TEST(copies_home, on_the_way_to_another_device_that_fail_say_so) {
  simulate(machine_with(64, "2" + std::string(queued::slow_to_tell) + ",fail-copy=2@0"), [] {
    const queued::object x = made();
    adding(x).on("simulated0").submit();
    hetero_task next = adding(x);
    next.on("simulated1").submit();
    EXPECT_THAT(text_of_error([&next] { next.wait(); }), HasSubstr("it was to: fail-copy"));
    EXPECT_EQ(copied_behind(), 2u);
    filling(x, 3).on("simulated1").submit(); // and nothing of it is left
    EXPECT_EQ(first_of(x), graph_kernels::stir(3, 0));
  });
}

TEST(copies_home, on_the_way_to_another_device_are_made_again) {
  simulate(machine_with(64, "2" + std::string(queued::slow_to_tell) + ",fail-kernel=2@0"), [] {
    const queued::object x = made();
    hetero_task first = adding(x), bad = adding(x), over = filling(x, 7), next = adding(x);
    for (hetero_task* t : {&first, &bad, &over}) t->on("simulated0").submit();
    next.on("simulated1").submit();
    EXPECT_THAT(text_of_error([&] { bad.wait(); }), HasSubstr("it was to: fail-kernel"));
    next.wait();
    EXPECT_EQ(copied_behind(), 2u);
    EXPECT_EQ(first_of(x), graph_kernels::stir(7, 0) + 1);
  });
}

/// A kernel, and a look at what it wrote, again and again.
void look_after_each(int n) {
  const queued::object x = made(), y = made();
  unsigned a = 0, b = 0;
  values seen(rows * columns);
  for (int i = 0; i < n; ++i) {
    adding(x).submit();
    ++a;
    mixing(x, y).submit();
    b = graph_kernels::stir(b, a + 1);
    if (i % 2 == 0) {
      ASSERT_EQ(first_of(x), a);
    } else {
      x.copy_to(seen.data()).get();
      ASSERT_EQ(seen[0], a);
    }
    ASSERT_EQ(first_of(y), b);
  }
}

TEST(copies_home, are_behind_kernels_of_cuda) {
  const mock_cuda driver("delay=3us");
  for (const char* without : {"", "no-ahead", "one-stream", "no-pinned"}) {
    options opts = cuda_options("", without);
    opts.set(hetero_devices, "cuda");
    scheduler s({.workers = 2, .opts = &opts});
    EXPECT_EQ(s.run([without] {
      look_after_each(100);
      EXPECT_EQ(copied_behind() > 0, std::string(without) != "no-ahead");
      expect_nothing_left();
    }),
              0u);
  }
}

TEST(copies_home, are_behind_kernels_of_opencl) {
  if (!there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  options opts;
  opts.set(hetero_devices, "opencl");
  opts.set(detail::hetero_opencl_pocl, "pthread");
  opts.set(detail::hetero_opencl_memory, "buffers");
  opts.set(hetero_models, "read:none");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    look_after_each(100);
    const bool can = detail::runtime::here("the test").devices().queue(1)->of().launches_behind();
    EXPECT_EQ(copied_behind() > 0, can); // what the driver has read from the environment before stays
    expect_nothing_left();
  }),
            0u);
}

} // namespace
} // namespace tern::hetero
