// SPDX-License-Identifier: Apache-2.0
// Kernels give on devices what they give on the host; copies of any shape; order between streams.
// Of OpenCL in the host's memory and in buffers, and of CUDA.
#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/opencl.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

TERN_KERNELS_BEGIN(large_blocks)

#define LARGE 5120
TERN_KERNEL(turn_all, TERN_GLOBAL const double* in, TERN_GLOBAL double* out) {
  TERN_SHARED(double, first, [64]);
  TERN_SHARED(double, large, [2][LARGE]); // 80 KiB
  TERN_DYNAMIC(int, numbers);
  TERN_SHARED(double, small, [64]);
  TERN_SHARED(float, other, [3 * LARGE + 1]); // with what comes before more than 48 KiB
  TERN_REGION {
    const int i = item.local_linear;
    first[i] = in[item.x];
    large[0][LARGE - 64 + i] = in[item.x];
    large[1][LARGE - 1 - i] = in[item.x];
    small[i] = in[item.x];
    other[3 * LARGE - i] = (float)in[item.x];
    numbers[i] = i;
  };
  TERN_REGION {
    const int i = 63 - item.local_linear;
    out[item.x] = first[i] + large[0][LARGE - 64 + i] + large[1][LARGE - 1 - i] + small[i] + other[3 * LARGE - i] -
                  other[3 * LARGE - i] + numbers[i];
  };
}
#undef LARGE

// A reduction of a type of more than 48 bytes.
typedef struct {
  double of[8];
} eight;
TERN_FN eight plus_eight(eight a, eight b) {
  for (int k = 0; k < 8; ++k) a.of[k] += b.of[k];
  return a;
}
TERN_KERNEL(add_all, int n, TERN_GLOBAL const eight* in, TERN_GLOBAL eight* out) {
  eight zero;
  for (int k = 0; k < 8; ++k) zero.of[k] = 0;
  TERN_GROUP_REDUCE(eight, all, zero, plus_eight, i, n, in[i]);
  TERN_REGION {
    if (item.local_linear == 0) out[group.x] = all;
  };
}

TERN_KERNELS_END(large_blocks)

namespace tern::hetero::detail {
namespace {

/// \return null: there is none.
std::unique_ptr<device> open_device(const std::string& kind, const std::string& memory = {}) {
  const bool cuda = kind == "cuda";
  options opts = cuda ? cuda_options() : options_for(kind == "opencl" ? "auto" : "buffers");
  opts.set(hetero_memory, memory);
  std::unique_ptr<device> d;
  if (cuda)
    d = first_cuda_device(opts);
  else
    d = first_device(opts);
  if (d) d->open();
  return d;
}

class kernels : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (GetParam() == std::string("cuda")) mock_.emplace();
    device_ = open_device(GetParam());
    if (!device_) GTEST_SKIP() << "no such device";
  }
  void TearDown() override {
    if (auto* const opencl = dynamic_cast<opencl_device*>(device_.get())) {
      EXPECT_EQ(opencl->open_tickets(), 0u);
    }
    if (auto* const cuda = dynamic_cast<cuda_device*>(device_.get())) {
      EXPECT_EQ(cuda->open_tickets(), 0u);
    }
  }
  device& d() { return *device_; }
  std::optional<mock_cuda> mock_;
  std::unique_ptr<device> device_;
};
INSTANTIATE_TEST_SUITE_P(on, kernels, testing::Values("opencl", "opencl_buffers", "cuda"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(kernels, runs_nothing) {
  wait(d(), launch<k::nothing>(d(), {}, {}));
  wait(d(), launch<k::nothing>(d(), {{0, 1, 1}, {1, 1, 1}}, {})); // no groups at all
  EXPECT_TRUE(d().done(0));
}

TEST_P(kernels, axpy) {
  const int n = 1000;
  const double a = 1.5;
  std::vector<double> x(n), y(n, 2.0);
  std::iota(x.begin(), x.end(), 0.0);
  auto expected = y;
  const grid shape{{4, 1, 1}, {256, 1, 1}};
  on_host(k::axpy, shape, n, a, x.data(), expected.data());
  given on_x(d(), x), on_y(d(), y);
  wait(d(), launch<k::axpy>(d(), shape, {by_value(n), by_value(a), on_x.as_argument(), on_y.as_argument()}));
  on_y.fetch();
  EXPECT_EQ(y, expected); // all numbers are exact
}

TEST_P(kernels, items_know_where_they_are) {
  for (const grid& shape : {grid{{3, 2, 2}, {4, 3, 2}}, grid{{5, 1, 1}, {7, 1, 1}}, grid{{1, 3, 1}, {1, 2, 1}}}) {
    const auto items = static_cast<std::size_t>(shape.count() * shape.items[0] * shape.items[1] * shape.items[2]);
    std::vector<int> out(20 * items), expected(out);
    on_host(k::who, shape, expected.data());
    given on_out(d(), out);
    wait(d(), launch<k::who>(d(), shape, {on_out.as_argument()}));
    on_out.fetch();
    EXPECT_EQ(out, expected);
  }
}

TEST_P(kernels, groups_that_nobody_has_chosen_fit) {
  const int n = 1000;
  std::vector<int> in(1024), out(1024);
  std::iota(in.begin(), in.end(), 0);
  given on_in(d(), in), on_out(d(), out);
  // 2,048 items are too many for any device: it becomes two groups, or more.
  wait(d(), launch<k::copy_some>(d(), {{1, 1, 1}, {2048, 1, 1}, true},
                                 {by_value(n), on_in.as_argument(), on_out.as_argument()}));
  on_out.fetch();
  EXPECT_TRUE(std::equal(in.begin(), in.begin() + n, out.begin()));
  const grid g = fitted({{4, 4, 1}, {64, 4, 1}, true}, 100, {1024, 1024, 64});
  EXPECT_LE(g.items[0] * g.items[1], 100);
  EXPECT_GE(g.items[0] * g.groups[0], 256);
  EXPECT_GE(g.items[1] * g.groups[1], 16);
  EXPECT_EQ(fitted({{1, 1, 1}, {7, 5, 3}, true}, 1000, {2, 2, 2}).items, (std::array<int, 3>{2, 2, 2}));
  EXPECT_EQ(fitted({{4, 4, 1}, {64, 4, 1}}, 100, {1024, 1024, 64}).items[0], 64); // said so
}

TEST_P(kernels, dgemm_tiled) {
  const int n = 64;
  std::vector<double> a(n * n), b(a), c(a), expected(a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<double>(i % 17) - 8;
    b[i] = static_cast<double>(i % 13) - 6;
  }
  const grid shape{{4, 4, 1}, {16, 16, 1}};
  on_host(k::dgemm_tiled, shape, n, a.data(), b.data(), expected.data());
  given on_a(d(), a), on_b(d(), b), on_c(d(), c);
  wait(d(),
       launch<k::dgemm_tiled>(d(), shape, {by_value(n), on_a.as_argument(), on_b.as_argument(), on_c.as_argument()}));
  on_c.fetch();
  EXPECT_EQ(c, expected);
}

TEST_P(kernels, dynamic_memory) {
  std::vector<int> in(96), out(96), expected(96);
  std::iota(in.begin(), in.end(), 0);
  const grid shape{{3, 1, 1}, {32, 1, 1}};
  on_host(k::reverse_groups, shape, in.data(), expected.data());
  given on_in(d(), in), on_out(d(), out);
  wait(d(), launch<k::reverse_groups>(d(), shape, {on_in.as_argument(), on_out.as_argument()}, 2, 32 * sizeof(int)));
  on_out.fetch();
  EXPECT_EQ(out, expected);
}

// More of a group's memory than a kernel of CUDA's may have of its own, beside what it may and what
// is dynamic.
TEST_P(kernels, large_blocks_of_a_groups_memory) {
  const int n = 3 * 64;
  std::vector<double> in(n), out(n), expected(n);
  std::iota(in.begin(), in.end(), 1.0);
  const grid shape{{3, 1, 1}, {64, 1, 1}};
  on_host(large_blocks::turn_all, shape, in.data(), expected.data());
  given on_in(d(), in), on_out(d(), out);
  wait(d(), launch<large_blocks::turn_all>(d(), shape, {on_in.as_argument(), on_out.as_argument()}, 2,
                                           64 * sizeof(int) + 4));
  on_out.fetch();
  EXPECT_EQ(out, expected);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], 4 * in[i / 64 * 64 + 63 - i % 64] + 63 - i % 64);

  std::vector<large_blocks::eight> many(500), sums(3), wanted(3);
  for (std::size_t i = 0; i < many.size(); ++i)
    for (std::size_t k = 0; k < 8; ++k) many[i].of[k] = static_cast<double>(i + k);
  on_host(large_blocks::add_all, shape, 500, many.data(), wanted.data());
  given on_many(d(), many), on_sums(d(), sums);
  wait(d(), launch<large_blocks::add_all>(d(), shape, {by_value(500), on_many.as_argument(), on_sums.as_argument()}));
  on_sums.fetch();
  for (std::size_t k = 0; k < 8; ++k)
    EXPECT_EQ(sums[0].of[k] + sums[1].of[k] + sums[2].of[k], wanted[0].of[k] + wanted[1].of[k] + wanted[2].of[k]);
  for (std::size_t k = 0; k < 8; ++k)
    EXPECT_EQ(sums[0].of[k] + sums[1].of[k] + sums[2].of[k], 500 * 499 / 2 + 500.0 * static_cast<double>(k));
}

TEST_P(kernels, sums) {
  const int n = 5000, groups = 6;
  std::vector<double> in(n), of_doubles(groups);
  std::vector<int> ints(n), of_ints(groups);
  std::vector<float> largest(groups);
  for (int i = 0; i < n; ++i) {
    in[static_cast<std::size_t>(i)] = i * 7919 % 1000;
    ints[static_cast<std::size_t>(i)] = i % 11;
  }
  auto doubles_there = of_doubles;
  auto ints_there = of_ints;
  auto largest_there = largest;
  const grid shape{{groups, 1, 1}, {48, 1, 1}}; // not a power of two
  on_host(k::sums, shape, n, in.data(), ints.data(), of_doubles.data(), of_ints.data(), largest.data());
  given on_in(d(), in), on_doubles(d(), doubles_there);
  given on_int(d(), ints), on_ints(d(), ints_there);
  given on_largest(d(), largest_there);
  wait(d(), launch<k::sums>(d(), shape,
                            {by_value(n), on_in.as_argument(), on_int.as_argument(), on_doubles.as_argument(),
                             on_ints.as_argument(), on_largest.as_argument()}));
  on_doubles.fetch();
  on_ints.fetch();
  on_largest.fetch();
  // Which group has which part is the device's.
  EXPECT_EQ(std::accumulate(doubles_there.begin(), doubles_there.end(), 0.0),
            std::accumulate(of_doubles.begin(), of_doubles.end(), 0.0));
  EXPECT_EQ(std::accumulate(ints_there.begin(), ints_there.end(), 0),
            std::accumulate(of_ints.begin(), of_ints.end(), 0));
  EXPECT_EQ(*std::max_element(largest_there.begin(), largest_there.end()),
            *std::max_element(largest.begin(), largest.end()));
}

TEST_P(kernels, atomics) {
  const int n = 100;
  std::vector<int> ints{0, 5, -5, 0, 0}, expected_ints = ints;
  std::vector<unsigned> uints{0, 5000, 0, 0}, expected_uints = uints;
  std::vector<float> floats{0, 5, -5, 0}, expected_floats = floats;
  const grid shape{{4, 1, 1}, {32, 1, 1}};
  on_host(k::atomics, shape, n, expected_ints.data(), expected_uints.data(), expected_floats.data());
  {
    given on_ints(d(), ints);
    given on_uints(d(), uints);
    given on_floats(d(), floats);
    wait(d(), launch<k::atomics>(
                  d(), shape, {by_value(n), on_ints.as_argument(), on_uints.as_argument(), on_floats.as_argument()}));
    on_ints.fetch();
    on_uints.fetch();
    on_floats.fetch();
  }
  // The length of the chain of exchanges depends on the order of the items.
  EXPECT_GE(ints[3], 1);
  EXPECT_LE(ints[3], n);
  EXPECT_GE(uints[3], 1u);
  ints[3] = expected_ints[3];
  uints[3] = expected_uints[3];
  EXPECT_EQ(ints, expected_ints);
  EXPECT_EQ(uints, expected_uints);
  EXPECT_EQ(floats, expected_floats);
}

TEST_P(kernels, functions) {
  const int n = 200;
  std::vector<double> in(n), out(n), expected(n);
  std::vector<float> outf(n), expectedf(n);
  for (int i = 0; i < n; ++i) in[static_cast<std::size_t>(i)] = 0.01 * (i + 1);
  const grid shape{{4, 1, 1}, {64, 1, 1}};
  on_host(k::functions, shape, n, in.data(), expected.data(), expectedf.data());
  given on_in(d(), in), on_out(d(), out);
  given on_outf(d(), outf);
  wait(d(), launch<k::functions>(d(), shape,
                                 {by_value(n), on_in.as_argument(), on_out.as_argument(), on_outf.as_argument()}));
  on_out.fetch();
  on_outf.fetch();
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(out[i], expected[i], 1e-10 * std::abs(expected[i]) + 1e-10) << in[i];
    EXPECT_NEAR(outf[i], expectedf[i], 1e-4f * std::abs(expectedf[i]) + 1e-4f) << in[i];
  }
}

TEST_P(kernels, structs) {
  const int n = 128;
  std::vector<k::body> bodies(n);
  for (int i = 0; i < n; ++i)
    bodies[static_cast<std::size_t>(i)] = {static_cast<float>(i * 37 % 100), 0, 0, 1.0f + static_cast<float>(i % 3)};
  std::vector<float> ax(n), expected(n);
  const grid shape{{2, 1, 1}, {64, 1, 1}};
  on_host(k::nbody, shape, n, bodies.data(), expected.data());
  given on_bodies(d(), bodies);
  given on_ax(d(), ax);
  wait(d(), launch<k::nbody>(d(), shape, {by_value(n), on_bodies.as_argument(), on_ax.as_argument()}));
  on_ax.fetch();
  for (std::size_t i = 0; i < ax.size(); ++i) EXPECT_NEAR(ax[i], expected[i], 1e-3 * (std::abs(expected[i]) + 10)) << i;
}

TEST_P(kernels, streams_are_ordered_by_tickets) {
  const int n = 256;
  const double one = 1;
  std::vector<double> x(n, 1.0), y(n, 0.0);
  given on_x(d(), x), on_y(d(), y);
  const grid shape{{4, 1, 1}, {64, 1, 1}};
  ticket last = 0;
  std::vector<ticket> all;
  // x and y in turn become their sum, each in a stream of its own: Fibonacci's numbers, or none of
  // them.
  for (int i = 0; i < 30; ++i) {
    const int stream = 2 + i % 2;
    d().order(stream, last);
    const given<double>&from = i % 2 ? on_y : on_x, &to = i % 2 ? on_x : on_y;
    last = launch<k::axpy>(d(), shape, {by_value(n), by_value(one), from.as_argument(), to.as_argument()}, stream);
    all.push_back(last);
  }
  d().order(1, last);
  wait(d(), last);
  d().order(1, last); // forgotten by now
  for (const ticket t : all) wait(d(), t);
  EXPECT_TRUE(d().done(last));
  on_x.fetch();
  on_y.fetch();
  EXPECT_EQ(x, std::vector<double>(n, 1346269.0));
  EXPECT_EQ(y, std::vector<double>(n, 832040.0));
}

// Memory of its own ---------------------------------------------------------------------------------------------------

class copies : public kernels {};
INSTANTIATE_TEST_SUITE_P(on, copies, testing::Values("opencl_buffers", "cuda"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(copies, more_than_there_is_is_none) {
  EXPECT_GT(d().memory_limit(), 0u);
  EXPECT_LT(d().memory_limit(), static_cast<std::size_t>(d().info().memory_bytes));
  EXPECT_EQ(d().allocate(d().memory_limit() + 1), nullptr);
  EXPECT_EQ(d().allocate(~std::size_t{0}), nullptr);

  const auto small = open_device(GetParam(), "1M");
  EXPECT_EQ(small->memory_limit(), std::size_t{1} << 20);
  const memory_handle one = small->allocate(1 << 19), two = small->allocate(1 << 19);
  EXPECT_NE(one, nullptr);
  EXPECT_NE(two, nullptr);
  EXPECT_EQ(small->allocate(1), nullptr);
  small->free(one, 1 << 19);
  const memory_handle three = small->allocate(1 << 18);
  EXPECT_NE(three, nullptr);
  small->free(two, 1 << 19);
  small->free(three, 1 << 18);
}

// Copies a box of a host array into one of the device's, within the device, and back into a third.
void round_trip(device& d, std::size_t row, std::size_t rows, std::size_t slices, copy_request layout) {
  SCOPED_TRACE(testing::Message() << row << " x " << rows << " x " << slices << ", pitches " << layout.host_pitch << " "
                                  << layout.pitch << " " << layout.from_pitch << ", slices " << layout.host_slice << " "
                                  << layout.slice << " " << layout.from_slice);
  constexpr std::size_t size = 40000;
  std::vector<std::byte> host(size), zero(size), back(size);
  for (std::size_t i = 0; i < size; ++i) host[i] = static_cast<std::byte>(i * 31 + i / 256);
  const memory_handle a = d.allocate(size), b = d.allocate(size);
  for (const memory_handle m : {a, b})
    wait(d, d.copy(0, {.way = direction::to_device, .host = zero.data(), .device = m, .row_bytes = size}));
  copy_request c = layout;
  c.row_bytes = row;
  c.rows = rows;
  c.slices = slices;
  c.way = direction::to_device;
  c.host = host.data();
  c.device = a;
  const ticket first = d.copy(0, c);
  c.way = direction::within;
  c.host = nullptr;
  c.device = b;
  c.from = a;
  // The layout "of the device" is a's in the first copy; here it becomes the source's.
  std::swap(c.offset, c.from_offset);
  std::swap(c.pitch, c.from_pitch);
  std::swap(c.slice, c.from_slice);
  d.order(2, first);
  const ticket second = d.copy(2, c);
  c.way = direction::from_device;
  c.host = back.data();
  c.from = nullptr;
  d.order(1, second);
  const ticket third = d.copy(1, c);
  for (const ticket t : {first, second, third}) wait(d, t);

  // Each memory holds the box and nothing else.
  std::vector<std::byte> in_a(size), expected_a(size), expected_back(size);
  wait(d, d.copy(1, {.way = direction::from_device, .host = in_a.data(), .device = a, .row_bytes = size}));
  for (std::size_t z = 0; z < slices; ++z)
    for (std::size_t y = 0; y < rows; ++y)
      for (std::size_t x = 0; x < row; ++x) {
        const std::size_t from = z * layout.host_slice + y * layout.host_pitch + x;
        expected_a[layout.offset + z * layout.slice + y * layout.pitch + x] = host[from];
        expected_back[from] = host[from];
      }
  EXPECT_TRUE(in_a == expected_a);
  EXPECT_TRUE(back == expected_back);
  d.free(a, size);
  d.free(b, size);
}

TEST_P(copies, strided_copies) {
  // In one piece.
  round_trip(d(), 1000, 1, 1, {.offset = 17, .from_offset = 5});
  round_trip(d(), 10, 20, 5,
             {.host_pitch = 10,
              .host_slice = 200,
              .offset = 3,
              .pitch = 10,
              .slice = 200,
              .from_pitch = 10,
              .from_slice = 200});
  // Two dimensions.
  round_trip(d(), 10, 20, 1, {.host_pitch = 64, .offset = 130, .pitch = 32, .from_offset = 77, .from_pitch = 12});
  round_trip(d(), 7, 1, 9, {.host_slice = 50, .offset = 1, .slice = 41, .from_slice = 13}); // slices are the rows
  // Three.
  round_trip(d(), 10, 20, 6,
             {.host_pitch = 64,
              .host_slice = 64 * 30,
              .offset = 700,
              .pitch = 16,
              .slice = 16 * 25,
              .from_offset = 33,
              .from_pitch = 12,
              .from_slice = 12 * 20});
  // Rows that join.
  round_trip(d(), 16, 8, 4,
             {.host_pitch = 16, .host_slice = 300, .pitch = 16, .slice = 128, .from_pitch = 16, .from_slice = 131});
  // Slices that are not whole rows apart, and lie between the rows of others: rows fit or not even
  // these.
  round_trip(d(), 10, 20, 6,
             {.host_pitch = 64, .host_slice = 1301, .pitch = 16, .slice = 333, .from_pitch = 12, .from_slice = 250});
  round_trip(d(), 10, 5, 300,
             {.host_pitch = 8000, .host_slice = 11, .pitch = 7000, .slice = 20, .from_pitch = 10, .from_slice = 51});
}

} // namespace
} // namespace tern::hetero::detail
