// SPDX-License-Identifier: Apache-2.0
// The dialect's words on the host.
#include <tern/hetero/dialect.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/kernels.hpp"
#include <tern/hetero/kernel/host_groups.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::hetero {
namespace {

using detail::grid;

template <class Group, class... Params>
void run(const kernel<Group, Params...>& k, const grid& s, std::type_identity_t<Params>... params) {
  alignas(64) char dynamic[16 * 1024];
  detail::run_groups<Group, Params...>(k, s, 0, s.count(), dynamic, params...);
}

std::vector<double> some(std::size_t n, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<double> all(n);
  for (double& x : all) x = std::uniform_real_distribution<double>(-1, 1)(random);
  return all;
}

TEST(dialect, items_and_groups_know_where_they_are) {
  const grid s{{3, 2, 4}, {5, 3, 2}};
  std::vector<int> out(static_cast<std::size_t>(20 * 15 * 6 * 8), -7);
  run(test_kernels::who, s, out.data());
  for (int z = 0; z < 8; ++z)
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 15; ++x) {
        const int* const o = out.data() + 20 * ((z * 6 + y) * 15 + x);
        const int lx = x % 5, ly = y % 3, lz = z % 2;
        const std::vector<int> expected{x, y, z, lx, ly, lz, (lz * 3 + ly) * 5 + lx, x / 5, y / 3, z / 2, 5, 3, 2, 30,
                                        3, 2, 4, -1, -1, -1};
        ASSERT_EQ(std::vector<int>(o, o + 20), expected) << x << " " << y << " " << z;
      }
}

TEST(dialect, regions_stop_at_an_end_inside_a_group) {
  const auto x = some(100), before = some(128, 2);
  auto y = before;
  run(test_kernels::axpy, {{4, 1, 1}, {32, 1, 1}}, 100, 2.5, x.data(), y.data());
  for (std::size_t i = 0; i < 128; ++i) {
    if (i < 100)
      EXPECT_NEAR(y[i], 2.5 * x[i] + before[i], 1e-15);
    else
      EXPECT_EQ(y[i], before[i]);
  }
  run(test_kernels::axpy, {{4, 1, 1}, {32, 1, 1}}, 0, 2.5, x.data(), y.data()); // none at all
}

TEST(dialect, a_kernel_without_parameters) { run(test_kernels::nothing, {{2, 2, 2}, {4, 1, 1}}); }

TEST(dialect, shared_and_private_memory) {
  constexpr int n = 64;
  const auto a = some(n * n), b = some(n * n, 2);
  std::vector<double> c(n * n, -1);
  run(test_kernels::dgemm_tiled, {{n / 16, n / 16, 1}, {16, 16, 1}}, n, a.data(), b.data(), c.data());
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int k = 0; k < n; ++k)
        sum += a[static_cast<std::size_t>(i * n + k)] * b[static_cast<std::size_t>(k * n + j)];
      ASSERT_NEAR(c[static_cast<std::size_t>(i * n + j)], sum, 1e-13);
    }
}

TEST(dialect, dynamic_memory) {
  std::vector<int> in(96), out(96);
  std::iota(in.begin(), in.end(), 0);
  run(test_kernels::reverse_groups, {{4, 1, 1}, {24, 1, 1}}, in.data(), out.data());
  for (int i = 0; i < 96; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], i / 24 * 24 + 23 - i % 24);
}

TEST(dialect, reductions_of_groups_cover_everything_once) {
  for (const int n : {0, 1, 7, 100, 1000, 12345}) {
    const auto in = some(static_cast<std::size_t>(n));
    std::vector<int> ints(static_cast<std::size_t>(n));
    std::iota(ints.begin(), ints.end(), -n / 2);
    for (int& i : ints) i %= 100;
    for (const grid& s : {grid{{1, 1, 1}, {64, 1, 1}}, grid{{7, 1, 1}, {33, 1, 1}}}) {
      const auto groups = static_cast<std::size_t>(s.groups[0]);
      std::vector<double> sums(groups, 99);
      std::vector<int> squares(groups, 99);
      std::vector<float> most(groups, 99);
      run(test_kernels::sums, s, n, in.data(), ints.data(), sums.data(), squares.data(), most.data());
      EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), std::accumulate(in.begin(), in.end(), 0.0), 1e-10);
      EXPECT_EQ(std::accumulate(squares.begin(), squares.end(), 0),
                std::inner_product(ints.begin(), ints.end(), ints.begin(), 0));
      float largest = -1e30F;
      for (const double x : in) largest = std::max(largest, static_cast<float>(x));
      EXPECT_EQ(*std::max_element(most.begin(), most.end()), largest);
    }
  }
}

void expect_atomics(int n, int groups, const std::vector<int>& ints, const std::vector<unsigned>& uints,
                    const std::vector<float>& floats) {
  const auto m = static_cast<float>(n);
  EXPECT_EQ(ints, (std::vector<int>{n * (n - 1) / 2, -(n - 1), n - 1, ints[3], n}));
  EXPECT_EQ(uints, (std::vector<unsigned>{static_cast<unsigned>(n), 1000U - static_cast<unsigned>(n - 1),
                                          static_cast<unsigned>(n - 1), uints[3]}));
  EXPECT_EQ(floats, (std::vector<float>{m, -(m - 1), m - 1, 7}));
  // Each can only have gone up by one when it met its number.
  EXPECT_GE(ints[3], 1);
  EXPECT_LE(ints[3], n);
  EXPECT_GE(groups, 1);
}

TEST(dialect, atomics) {
  std::vector<int> ints(5);
  std::vector<unsigned> uints{0, 2000, 0, 0};
  std::vector<float> floats(4);
  run(test_kernels::atomics, {{4, 1, 1}, {32, 1, 1}}, 100, ints.data(), uints.data(), floats.data());
  expect_atomics(100, 4, ints, uints, floats);
}

TEST(dialect, atomics_of_groups_that_run_at_once) {
  scheduler({.workers = 4}).run([] {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<int> ints(5);
      std::vector<unsigned> uints{0, 2000, 0, 0};
      std::vector<float> floats(4);
      const grid s{{100, 1, 1}, {8, 1, 1}};
      parallel_for(std::int64_t{0}, s.count(), [&](std::int64_t g) {
        alignas(64) char dynamic[64];
        detail::run_groups(test_kernels::atomics, s, g, g + 1, dynamic, 800, ints.data(), uints.data(), floats.data());
      });
      expect_atomics(800, 100, ints, uints, floats);
    }
  });
}

TEST(dialect, functions_are_those_of_the_standard_library) {
  std::vector<double> in = some(50);
  for (double& x : in) x = std::fabs(x) + 0.1;
  std::vector<double> out(50);
  std::vector<float> outf(50);
  run(test_kernels::functions, {{1, 1, 1}, {50, 1, 1}}, 50, in.data(), out.data(), outf.data());
  for (std::size_t i = 0; i < 50; ++i) {
    const double x = in[i];
    const auto f = static_cast<float>(x);
    EXPECT_NEAR(out[i],
                std::sqrt(x) + std::exp(-x) + std::log(x) + std::sqrt(x) + std::sin(x) * std::cos(x) + std::tan(x) +
                    std::atan2(x, 2.0) + x + std::floor(x) + std::ceil(x) + std::min(x, 1.0) + std::max(x, 1.0) +
                    (x * x + 1.0) + std::fmod(x, 0.7) + std::hypot(x, 1.0) + 1 / std::sqrt(x) + std::cbrt(x) +
                    std::clamp(x, 0.5, 0.75) + std::min(x, 0.25) + std::max(x, 0.25),
                1e-12);
    EXPECT_NEAR(outf[i],
                std::sqrt(f) + std::exp(-f) + std::log(f) + 1 / std::sqrt(f) + std::min(f, 1.0F) +
                    std::clamp(f, 0.5F, 0.75F) + 3,
                1e-4);
  }
}

TEST(dialect, structs) {
  constexpr int n = 64;
  const auto x = some(n), m = some(n, 3);
  std::vector<test_kernels::body> bodies(n);
  for (std::size_t i = 0; i < n; ++i) bodies[i] = {static_cast<float>(x[i]), 0, 0, static_cast<float>(m[i])};
  std::vector<float> ax(n);
  run(test_kernels::nbody, {{2, 1, 1}, {32, 1, 1}}, n, bodies.data(), ax.data());
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (const auto& b : bodies) {
      const double d = b.x - bodies[i].x;
      sum += b.m * d / (d * d + 1e-2);
    }
    EXPECT_NEAR(ax[i], sum, 1e-3);
  }
}

} // namespace
} // namespace tern::hetero
