// SPDX-License-Identifier: Apache-2.0
// Objects that lie otherwise on devices; and copies straight from a device to the program's memory.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(layout_test_kernels)
typedef struct {
  float x, y, z;
} particle;
// x += y, as an array of structures or as a structure of arrays
TERN_KERNEL(advance, int n, int apart, TERN_GLOBAL particle* p) {
  TERN_REGION_IN(n, 1, 1) {
    if (apart) {
      TERN_GLOBAL float* const x = (TERN_GLOBAL float*)p;
      x[item.x] += x[n + item.x];
    } else {
      p[item.x].x += p[item.x].y;
    }
  };
}
TERN_KERNEL(count_up, int n, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] += 1; };
}
TERN_KERNELS_END(layout_test_kernels)

namespace tern::hetero {
namespace {

namespace k = layout_test_kernels;
using k::particle;
using testing::AllOf;
using testing::HasSubstr;

constexpr int n = 100;
constexpr const char* quick = "2:launch=0us,item=0ns,latency=0us,bandwidth=0";

void apart(const particle* from, particle* to) {
  auto* const f = reinterpret_cast<float*>(to);
  for (int i = 0; i < n; ++i) {
    f[i] = from[i].x;
    f[n + i] = from[i].y;
    f[2 * n + i] = from[i].z;
  }
}
void together(const particle* from, particle* to) {
  const auto* const f = reinterpret_cast<const float*>(from);
  for (int i = 0; i < n; ++i) to[i] = {f[i], f[n + i], f[2 * n + i]};
}

hetero_object<particle> particles() {
  hetero_object<particle> p(n);
  p.layout_on(device_kind::simulated, apart, together);
  p.name("particles");
  auto host = p.host(access_mode::write).get();
  for (int i = 0; i < n; ++i) host[i] = {1.0f * static_cast<float>(i), 0.5f, -1.0f};
  return p;
}
void advance_on(const hetero_object<particle>& p, const char* device) {
  hetero_task(k::advance, items(n), n, own_layout(p), read_write(p)).on(device).submit();
}
void expect_advanced(const particle* p, int times) {
  for (int i = 0; i < n; ++i) {
    ASSERT_EQ(p[i].x, static_cast<float>(i) + 0.5f * static_cast<float>(times)) << i;
    ASSERT_EQ(p[i].y, 0.5f);
    ASSERT_EQ(p[i].z, -1.0f);
  }
}

TEST(layouts, are_as_each_device_wants_them) {
  for (const bool threads : {false, true})
    on({.devices = "all", .simulated = quick, .threads = threads}, [] {
      auto p = particles();
      for (const char* device : {"host", "simulated0", "simulated1", "simulated1", "host", "simulated0"})
        advance_on(p, device);
      std::vector<particle> out(n);
      auto copied = p.copy_to(out.data()); // straight from the device, and as the host has it
      advance_on(p, "simulated0");
      copied.get();
      expect_advanced(out.data(), 6);
      auto host = p.host(access_mode::read).get();
      expect_advanced(host.data(), 7);
    });
}

TEST(layouts, of_devices_that_work_in_the_hosts_memory_are_its_own) {
  on({.devices = "all"}, [] {
    const auto all = count().devices;
    if (all.size() < 2) GTEST_SKIP() << "no OpenCL device";
    hetero_object<particle> p(n);
    p.layout_on(device_kind::opencl, apart, together);
    {
      auto host = p.host(access_mode::write).get();
      std::fill(host.begin(), host.end(), particle{0, 0.5f, -1.0f});
    }
    for (const char* device : {"opencl0", "host", "opencl0"}) advance_on(p, device);
    auto host = p.host(access_mode::read).get();
    EXPECT_EQ(host[n - 1].x, 1.5f);
  });
}

TEST(layouts, and_reductions) {
  on({.devices = "simulated", .simulated = quick}, [] {
    hetero_object<int> sum(n, 5);
    const auto backwards = [](const int* from, int* to) { std::reverse_copy(from, from + n, to); };
    sum.layout_on(device_kind::simulated, backwards, backwards);
    for (int i = 0; i < 10; ++i)
      hetero_task(k::count_up, items(n / 2), n / 2, reduce(sum, std::plus<>(), 0)).on(device_kind::simulated).submit();
    auto host = sum.host(access_mode::read).get();
    for (int i = 0; i < n; ++i) ASSERT_EQ(host[i], i < n / 2 ? 5 : 15) << i;
  });
}

TEST(layouts, what_is_wrong_is_said) {
  on({.devices = "all", .simulated = quick}, [] {
    auto p = particles();
    EXPECT_THAT(text_of_error([&] { p.rows(0, 5); }),
                AllOf(HasSubstr("a part of hetero_object<"),
                      HasSubstr("'particles' of 100, which has layouts of its own"),
                      HasSubstr("make several objects")));
    EXPECT_THAT(text_of_error([&] { p.tiles({5}); }), HasSubstr("which has layouts of its own"));
    EXPECT_THAT(text_of_error([&] { p.layout_on(device_kind::host, apart, together); }),
                HasSubstr("the layout of the host is that of the object"));
    hetero_object<particle> late(n, particle{});
    advance_on(late, "simulated0");
    wait_all();
    EXPECT_THAT(text_of_error([&] { late.layout_on(device_kind::simulated, apart, together); }),
                AllOf(HasSubstr("layout_on comes too late"), HasSubstr("before the object is used")));
    hetero_object<particle> cut(n, particle{});
    const auto part = cut.rows(0, 5);
    EXPECT_THAT(text_of_error([&] { cut.layout_on(device_kind::simulated, apart, together); }), HasSubstr("too late"));

    hetero_object<particle> bad(n, particle{});
    bad.layout_on(
        device_kind::simulated, [](const particle*, particle*) { throw std::runtime_error("cannot pack"); }, together);
    hetero_task t(k::advance, items(n), n, own_layout(bad), read_write(bad));
    t.on("simulated0").submit();
    try {
      t.wait();
      ADD_FAILURE();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "cannot pack");
    }
    hetero_object<particle> worse(n, particle{});
    worse.layout_on(device_kind::simulated, apart,
                    [](const particle*, particle*) { throw std::runtime_error("cannot unpack"); });
    advance_on(worse, "simulated0");
    std::vector<particle> out(n);
    for (int i = 0; i < 2; ++i) try {
        i == 0 ? static_cast<void>(worse.host(access_mode::read).get()) : worse.copy_to(out.data()).get();
        ADD_FAILURE();
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "cannot unpack");
      }
  });
}

// copy_to -------------------------------------------------------------------------------------------------------------

TEST(copy_out, takes_each_piece_from_where_it_is) {
  for (const bool threads : {false, true})
    on({.devices = "all", .simulated = quick, .threads = threads}, [] {
      hetero_object<int, 2> x({8, 10});
      {
        auto host = x.host(access_mode::write).get();
        for (int i = 0; i < 80; ++i) host.data()[i] = i;
      }
      const auto up = [&](std::int64_t row, const char* device) {
        hetero_task(k::count_up, items(10), 10, read_write(x.rows(row, row + 1))).on(device).submit();
      };
      up(1, "simulated0");
      up(2, "simulated0");
      up(5, "simulated1");
      const auto before = count();
      std::vector<int> out(6 * 4, -1);
      auto copied = x.part({1, 3}, {7, 7}).copy_to(out.data());
      up(1, "simulated1"); // what comes later is not seen
      copied.get();
      for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 4; ++j)
          ASSERT_EQ(out[static_cast<std::size_t>(i * 4 + j)],
                    (i + 1) * 10 + j + 3 + (i + 1 == 1 || i + 1 == 2 || i + 1 == 5 ? 1 : 0));
      wait_all();
      // Two rows of one device, one of the other, and the first row once more, on its way to the
      // other.
      EXPECT_EQ(count().copies_from_devices - before.copies_from_devices, 4u);
      out.assign(80, -1);
      x.copy_to(out.data()).get();
      EXPECT_EQ(out[10], 12);
      EXPECT_EQ(out[0], 0);
    });
}

TEST(copy_out, does_not_bring_the_data_to_the_host) {
  on({.devices = "all", .simulated = quick}, [] {
    hetero_object<int> x(n, 1);
    const auto up = [&] { hetero_task(k::count_up, items(n), n, read_write(x)).on("simulated0").submit(); };
    up();
    std::vector<int> out(n);
    for (int i = 0; i < 3; ++i) {
      x.copy_to(out.data()).get();
      EXPECT_EQ(out, std::vector<int>(n, 2 + i));
      up();
    }
    const auto c = count();
    EXPECT_EQ(c.copies_to_devices, 1u);
    EXPECT_EQ(c.copies_from_devices, 3u);
    // In pieces of one instance: one copy.
    const auto left = x.part({0}, {30}), right = x.part({30}, {n});
    hetero_task(k::count_up, items(30), 30, read_write(left)).on("simulated0").submit();
    x.copy_to(out.data()).get();
    EXPECT_EQ(out[29], 6);
    EXPECT_EQ(out[30], 5);
    EXPECT_EQ(count().copies_from_devices, 4u);
    (void)right;
  });
}

TEST(copy_out, says_why_not) {
  on({.devices = "all", .simulated = "1:launch=0us,item=0ns,latency=0us,bandwidth=0,fail-copy=2"}, [] {
    std::vector<int> out(n);
    hetero_object<int> nothing(n);
    EXPECT_THAT(text_of_error([&] { nothing.copy_to(out.data()).get(); }),
                HasSubstr("task 'copy_to' reads hetero_object<int> of 100, which nothing has written yet"));
    hetero_object<int> x(n, 1);
    hetero_task(k::count_up, items(n), n, read_write(x)).on("simulated0").submit();
    EXPECT_THAT(text_of_error([&] { x.copy_to(out.data()).get(); }), HasSubstr("simulated0"));
    x.copy_to(out.data()).get(); // once more
    EXPECT_EQ(out[0], 2);
    hetero_task bad([](host_view<int, 1>) { throw std::runtime_error("no"); }, read_write(x));
    bad.submit();
    EXPECT_THROW(bad.wait(), std::runtime_error);
    EXPECT_THAT(text_of_error([&] { x.copy_to(out.data()).get(); }), HasSubstr("'copy_to' was not run"));
  });
}

} // namespace
} // namespace tern::hetero
