// SPDX-License-Identifier: Apache-2.0
// Kernels that are several at a time, on CUDA devices: each finds its own arguments, and they give
// what they give alone.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/fused_kernels.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/opencl.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(fused_kernels)
typedef struct {
  double x, y;
} two;
typedef struct {
  char a[3];
} three;
typedef struct {
  int a, b, c;
} twelve;
// Arguments of all sizes, which lie where they must.
TERN_KERNEL(sizes, char a, TERN_GLOBAL double* to, three b, two c, int d, twelve e, double f, short g) {
  TERN_REGION {
    if (item.local_linear == 0 && group.z == 0 && group.count_z == 1)
      to[group.y * group.count_x + group.x] =
          a + 10.0 * b.a[2] + 100 * c.x + 1000 * c.y + 1e4 * d + 1e5 * e.c + 1e6 * f + 1e7 * g;
  };
}
TERN_KERNELS_END(fused_kernels)

namespace tern::hetero {
namespace detail {
namespace {

namespace f = fused_kernels;

class fused_kernels_on_cuda : public testing::Test {
protected:
  void SetUp() override {
    device_ = first_cuda_device(cuda_options());
    ASSERT_TRUE(device_);
    device_->open();
  }
  void TearDown() override { EXPECT_EQ(device_->open_tickets(), 0u); }
  cuda_device& d() { return *device_; }
  launch_fuser& fuser() { return *static_cast<device&>(*device_).fuser(); }
  void run(const std::vector<launch_request>& all) {
    ASSERT_GE(fuser().fuses(all.front()), all.size());
    ASSERT_TRUE(fuser().prepare_fused(all.front()));
    wait(d(), fuser().launch_fused(2, all));
  }
  const mock_cuda driver_;
  std::unique_ptr<cuda_device> device_;
};

TEST_F(fused_kernels_on_cuda, find_their_arguments) {
  constexpr std::size_t n = 5;
  const grid shape{{3, 2, 1}, {4, 1, 1}};
  std::vector<double> out(6 * n, -1.0);
  {
    given there(d(), out);
    struct set {
      char a;
      f::three b;
      f::two c;
      int d;
      f::twelve e;
      double f;
      short g;
    };
    std::vector<set> values;
    for (std::size_t i = 0; i < n; ++i) {
      const int v = static_cast<int>(i);
      values.push_back({static_cast<char>(v),
                        {{0, 0, static_cast<char>(v + 1)}},
                        {v + 2.0, v + 3.0},
                        v + 4,
                        {0, 0, v + 5},
                        v + 6.0,
                        static_cast<short>(v + 7)});
    }
    std::vector<std::vector<argument>> arguments;
    std::vector<launch_request> all;
    for (std::size_t i = 0; i < n; ++i) {
      const set& s = values[i];
      arguments.push_back({by_value(s.a), there.as_argument(6 * i), by_value(s.b), by_value(s.c), by_value(s.d),
                           by_value(s.e), by_value(s.f), by_value(s.g)});
      all.push_back({&code_of<f::sizes>(), shape, 0, arguments.back()});
    }
    run(all);
    there.fetch();
  }
  for (std::size_t i = 0; i < 6 * n; ++i) {
    const int v = static_cast<int>(i / 6);
    EXPECT_EQ(out[i], v + 10.0 * (v + 1) + 100 * (v + 2) + 1000 * (v + 3) + 1e4 * (v + 4) + 1e5 * (v + 5) +
                          1e6 * (v + 6) + 1e7 * (v + 7));
  }
}

TEST_F(fused_kernels_on_cuda, have_barriers_and_memory_of_their_groups) {
  expect_barriers_and_memory_of_groups(d(), [this](const auto& all) { run(all); });
}

TEST_F(fused_kernels_on_cuda, are_small_and_of_the_dialect) {
  const auto most = [&](const kernel_code& code, const grid& shape) { return fuser().fuses({&code, shape, 0, {}}); };
  EXPECT_GT(most(code_of<k::nothing>(), {{2, 2, 1}, {32, 1, 1}}), 16u);
  EXPECT_EQ(most(code_of<k::nothing>(), {{2, 2, 2}, {32, 1, 1}}), 0u); // planes are the tasks
  EXPECT_EQ(most(code_of<k::nothing>(), {{1 << 20, 1, 1}, {32, 1, 1}}), 0u);
  static const cuda_source source("own", "extern \"C\" __global__ void own() {}");
  EXPECT_EQ(most(source, {{1, 1, 1}, {32, 1, 1}}), 0u);
  const auto without = first_cuda_device(cuda_options({}, "no-fuse"));
  EXPECT_EQ(static_cast<device&>(*without).fuser(), nullptr);
}

} // namespace
} // namespace detail

namespace {

using object = hetero_object<unsigned, 2>;

tern_mock_counters many_small_tasks(const std::string& without, int rounds = 30) {
  const mock_cuda driver("delay=20us");
  on({.devices = "cuda", .cuda = true, .without = without}, [&] {
    std::vector<object> objects;
    for (int i = 0; i < 100; ++i) objects.emplace_back(extents<2>{4, 4}, static_cast<unsigned>(i));
    for (int r = 0; r < rounds; ++r)
      for (const object& o : objects) submit(graph_kernels::add, items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
    wait_all();
    for (unsigned i = 0; i < 100; ++i)
      ASSERT_EQ(objects[i].host(access_mode::read).get()(1, 2), i + static_cast<unsigned>(rounds * (2 + 3 + 1)));
  });
  return mock_cuda::counters();
}

TEST(cuda_fused, small_tasks_give_what_they_give_alone) {
  EXPECT_EQ(many_small_tasks("no-fuse").launches, 3000u);
  EXPECT_LT(many_small_tasks("").launches, 3000u); // at least while it is tried
}

} // namespace
} // namespace tern::hetero
