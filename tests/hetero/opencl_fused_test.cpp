// SPDX-License-Identifier: Apache-2.0
// Kernels that are several at a time, on OpenCL devices: each has its own arguments, and they give
// what they give alone, in the host's memory and in buffers.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/fused_kernels.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/opencl.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(opencl_fused_kernels)
typedef struct {
  double x, y;
} two;
typedef struct {
  char a[3];
} three;
// Arguments of all sizes, some of which change.
TERN_KERNEL(sizes, char a, TERN_GLOBAL double* to, three b, two c, int d, const double f, short g) {
  TERN_REGION {
    if (item.local_linear == 0 && group.z == 0 && group.count_z == 1 && item.z == item.local_z)
      to[group.y * group.count_x + group.x] = a + 10.0 * b.a[2] + 100 * c.x + 1000 * c.y + 1e4 * d + 1e5 * f + 1e6 * g;
  };
}
#define NUMBER(name) int name
TERN_KERNEL(not_plain, NUMBER(n), TERN_GLOBAL uint* to) {
  TERN_REGION { to[item.x] += (uint)n; };
}
TERN_KERNELS_END(opencl_fused_kernels)

namespace tern::hetero {
namespace detail {
namespace {

namespace f = opencl_fused_kernels;

options fusing(const std::string& memory) {
  options opts = options_for(memory);
  opts.set(hetero_opencl_fuse, "on");
  return opts;
}

class fused_kernels_on_opencl : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    device_ = first_device(fusing(GetParam()));
    if (!device_) GTEST_SKIP() << "no OpenCL device";
  }
  void TearDown() override {
    if (device_) {
      EXPECT_EQ(device_->open_tickets(), 0u);
    }
  }
  opencl_device& d() { return *device_; }
  launch_fuser& fuser() { return *static_cast<device&>(*device_).fuser(); }
  void run(const std::vector<launch_request>& all) {
    ASSERT_GE(fuser().fuses(all.front()), all.size());
    ASSERT_TRUE(fuser().prepare_fused(all.front()));
    wait(d(), fuser().launch_fused(2, all));
  }
  std::unique_ptr<opencl_device> device_;
};
INSTANTIATE_TEST_SUITE_P(memory, fused_kernels_on_opencl, testing::Values("auto", "buffers"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(fused_kernels_on_opencl, have_their_arguments) {
  constexpr std::size_t most = 7, each = 256; // where addresses may begin
  const grid shape{{2, 2, 1}, {4, 1, 2}};
  struct set {
    char a;
    f::three b;
    f::two c;
    int d;
    double f;
    short g;
  };
  std::vector<double> out(each * most);
  // More, and then fewer, whose others are not seen again.
  for (const std::size_t n : {std::size_t{3}, most, std::size_t{2}, std::size_t{5}}) {
    out.assign(out.size(), -1.0);
    {
      given there(d(), out);
      std::vector<set> values;
      for (std::size_t i = 0; i < n; ++i) {
        const int v = static_cast<int>(i);
        values.push_back({static_cast<char>(v),
                          {{0, 0, static_cast<char>(v + 1)}},
                          {v + 2.0, v + 3.0},
                          v + 4,
                          v + 5.0,
                          static_cast<short>(v + 6)});
      }
      std::vector<std::vector<argument>> arguments;
      std::vector<launch_request> all;
      for (std::size_t i = 0; i < n; ++i) {
        const set& s = values[i];
        arguments.push_back({by_value(s.a), there.as_argument(each * i), by_value(s.b), by_value(s.c), by_value(s.d),
                             by_value(s.f), by_value(s.g)});
        all.push_back({&code_of<f::sizes>(), shape, 0, arguments.back()});
      }
      run(all);
      there.fetch();
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      const int v = static_cast<int>(i / each);
      ASSERT_EQ(out[i], i % each < 4 && i / each < n ? v + 10.0 * (v + 1) + 100 * (v + 2) + 1000 * (v + 3) +
                                                           1e4 * (v + 4) + 1e5 * (v + 5) + 1e6 * (v + 6)
                                                     : -1.0)
          << i << " of " << n;
    }
  }
}

TEST_P(fused_kernels_on_opencl, have_barriers_and_memory_of_their_groups) {
  expect_barriers_and_memory_of_groups(d(), [this](const auto& all) { run(all); });
}

TEST_P(fused_kernels_on_opencl, are_small_and_plain) {
  const auto most = [&](const kernel_code& code, const grid& shape) { return fuser().fuses({&code, shape, 0, {}}); };
  EXPECT_GT(most(code_of<k::nothing>(), {{2, 2, 1}, {32, 1, 1}}), 16u);
  EXPECT_EQ(most(code_of<k::nothing>(), {{2, 2, 2}, {32, 1, 1}}), 0u); // planes are the tasks
  EXPECT_EQ(most(code_of<k::nothing>(), {{1 << 20, 1, 1}, {32, 1, 1}}), 0u);
  EXPECT_EQ(most(code_of<k::nothing>(), {{0, 1, 1}, {32, 1, 1}}), 0u);
  const std::vector<argument> large(4, {.value = "", .bytes = 1024}); // which nothing reads
  EXPECT_LT(fuser().fuses({&code_of<k::nothing>(), {{1, 1, 1}, {32, 1, 1}}, 0, large}), 2u);
  EXPECT_FALSE(fuser().prepare_fused({&code_of<f::not_plain>(), {{1, 1, 1}, {4, 1, 1}}, 0, {}}));
  // The runtime has chosen a size of groups that here would be another one.
  grid wide{{1, 1, 1}, {4096, 1, 1}};
  wide.automatic = true;
  EXPECT_FALSE(fuser().prepare_fused({&code_of<k::nothing>(), wide, 0, {}}));
  options opts = fusing(GetParam());
  opts.set(hetero_opencl_fuse, "off");
  EXPECT_EQ(static_cast<device&>(*first_device(opts)).fuser(), nullptr);
}

TEST_P(fused_kernels_on_opencl, are_refused_as_alone) {
  const std::vector<argument> none;
  const launch_request wrong{&code_of<k::who>(), {{1, 1, 1}, {4, 1, 1}}, 0, none};
  ASSERT_TRUE(fuser().prepare_fused(wrong));
  EXPECT_THAT(message_of(errc::invalid_argument,
                         [&] {
                           fuser().launch_fused(2, std::vector{wrong, wrong});
                         }),
              testing::HasSubstr("'who': it has 1 parameters, 0 arguments"));
}

} // namespace
} // namespace detail

namespace {

using object = hetero_object<unsigned, 2>;
using graph_kernels::stir;
namespace f = opencl_fused_kernels;

/// Random tasks on small objects, most of which could be in one launch with others, and the same
/// one after the other. \return how many were.
std::uint64_t run_small_graph(std::uint64_t seed, const options& opts, int tasks = 1500) {
  constexpr int size = 4;
  constexpr unsigned numbers = size * size;
  std::uint64_t together = 0;
  scheduler s({.workers = 1 + static_cast<int>(seed % 2), .opts = &opts});
  EXPECT_EQ(s.run([&] {
    {
      std::mt19937_64 dice(seed);
      const auto pick = [&](std::uint64_t n) { return static_cast<std::size_t>(dice() % n); };
      const std::size_t count = 20 + pick(60);
      std::vector<object> objects;
      std::vector<std::vector<unsigned>> expected(count, std::vector<unsigned>(numbers));
      for (std::size_t i = 0; i < count; ++i) {
        objects.emplace_back(extents<2>{size, size}, static_cast<unsigned>(i));
        expected[i].assign(numbers, static_cast<unsigned>(i));
      }
      for (int t = 0; t < tasks; ++t) {
        const std::size_t i = pick(count), k = pick(count);
        const auto a = static_cast<unsigned>(dice());
        const object &from = objects[i], &to = objects[k];
        const tern::items shape = items(size, size);
        std::vector<unsigned>& v = expected[k];
        const std::size_t what = pick(8);
        if (what < 4) {
          submit(graph_kernels::add, shape, size, size, a, pitch(to), read_write(to));
          for (unsigned n = 0; n < numbers; ++n) v[n] += a * (n % size + 3 * (n / size) + 1);
        } else if (what < 7 && i != k) {
          submit(graph_kernels::mix, shape, size, size, a, pitch(from), read(from), pitch(to), read_write(to));
          for (unsigned n = 0; n < numbers; ++n) v[n] = stir(v[n], expected[i][n] + a);
        } else {
          submit(f::not_plain, items(static_cast<int>(numbers)), static_cast<int>(a), read_write(to));
          for (unsigned& n : v) n += a;
        }
        if (pick(400) == 0) wait_all();
      }
      wait_all();
      together = hetero::count().launched_together;
      for (std::size_t i = 0; i < count; ++i) {
        const auto seen = objects[i].host(access_mode::read).get();
        for (unsigned n = 0; n < numbers; ++n)
          EXPECT_EQ(seen(static_cast<int>(n / size), static_cast<int>(n % size)), expected[i][n])
              << "seed " << seed << ", object " << i << ", number " << n;
      }
    }
    expect_nothing_left();
  }),
            0u);
  return together;
}

class opencl_fused_graph : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(memory, opencl_fused_graph, testing::Values("auto", "buffers"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(opencl_fused_graph, of_small_tasks_is_as_in_order) {
  if (!there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  const char* const policies[] = {"locality", "eager", "dmda"};
  const std::uint64_t seeds = std::clamp<std::uint64_t>(test_support::seeds() / 20, 4, 30);
  std::uint64_t together = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    options opts = detail::fusing(GetParam());
    opts.set(hetero_devices, seed % 4 == 3 ? "host,opencl" : "opencl");
    opts.set(hetero_policy, policies[seed % std::size(policies)]);
    opts.set(hetero_ahead, seed % 2 == 0 ? 0 : 64);
    opts.set(hetero_threads, seed / 2 % 2 == 1);
    together += run_small_graph(seed, opts);
  }
  EXPECT_GT(together, seeds * 10) << "at least while it is tried";
}

TEST(opencl_fused, is_not_done_where_launches_cost_little_unless_that_is_wanted) {
  const auto device_of = [](const char* wanted) {
    options opts = detail::options_for("auto");
    opts.set(detail::hetero_opencl_fuse, wanted);
    return detail::first_device(opts);
  };
  const auto usual = device_of("auto");
  if (!usual) GTEST_SKIP() << "no OpenCL device";
  const auto fuses = [](detail::device& d) { return d.fuser() != nullptr; };
  EXPECT_EQ(fuses(*usual), usual->launches_behind()); // not in the thread that launches
  EXPECT_TRUE(fuses(*device_of("on")));
  EXPECT_FALSE(fuses(*device_of("off")));
  EXPECT_THAT(text_of_error([&] { device_of("yes"); }), testing::HasSubstr("auto"));
}

} // namespace
} // namespace tern::hetero
