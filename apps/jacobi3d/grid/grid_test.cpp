// SPDX-License-Identifier: Apache-2.0
// The problem, its hash, and plain loops.
#include "apps/jacobi3d/grid/serial.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

using namespace jacobi3d;

TEST(problem, rows_are_parts_of_a_grid) {
  const cells n{20, 12, 16};
  std::vector<double> row(20), part(7);
  for (std::int64_t z = 0; z < n[2]; ++z) {
    fill_row(n, 0, 5, z, 20, row.data());
    fill_row(n, 9, 5, z, 7, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), row.begin() + 9)) << z;
  }
}

TEST(problem, has_hot_and_cold_cells) {
  const auto start = run_serially<double>({32, 32, 32}, 0, 0.5).values;
  const auto hot = std::count_if(start.begin(), start.end(), [](double v) { return v > 0; });
  EXPECT_GT(hot, 1000);
  EXPECT_LT(hot, 32000);
  EXPECT_LE(*std::max_element(start.begin(), start.end()), 1);
}

TEST(hash, is_the_sum_of_parts) {
  const std::vector<float> v{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(hash_of(v.data(), 6, 10), hash_of(v.data() + 4, 2, 14) + hash_of(v.data(), 4, 10));
}

TEST(hash, knows_places_and_bits) {
  const std::vector<double> v{1, 2, 2}, exchanged{2, 1, 2}, other{1, 2, std::nextafter(2, 3)};
  const auto of = [](const std::vector<double>& x, std::int64_t first) { return hash_of(x.data(), 3, first); };
  EXPECT_NE(of(v, 0), of(exchanged, 0));
  EXPECT_NE(of(v, 0), of(other, 0));
  EXPECT_NE(of(v, 0), of(v, 1));
}

// One cell, whose neighbours are all beyond the grid: by hand.
TEST(plain_loops, one_cell_goes_to_the_mean_of_its_neighbours) {
  const auto start = run_serially<double>({1, 1, 1}, 0, 0.25).values[0];
  const auto once = run_serially<double>({1, 1, 1}, 1, 0.25).values[0];
  EXPECT_EQ(once, 0.25 * start + 0.125 * 1);
  EXPECT_NEAR(run_serially<double>({1, 1, 1}, 60, 0.25).values[0], 1.0 / 6, 1e-15);
}

// Far from what lies beyond, the sum of all cells stays.
TEST(plain_loops, keep_heat_and_flatten_it) {
  const cells n{32, 32, 32};
  const auto before = run_serially<double>(n, 0, 0.25), after = run_serially<double>(n, 1, 0.25);
  const auto sum = [](const std::vector<double>& v) {
    double s = 0;
    for (const double x : v) s += x;
    return s;
  };
  EXPECT_NEAR(sum(after.values) / sum(before.values), 1, 0.05);
  EXPECT_LE(*std::max_element(after.values.begin(), after.values.end()), 1);
  double largest = 0;
  for (std::size_t i = 0; i < after.values.size(); ++i)
    largest = std::max(largest, std::fabs(after.values[i] - before.values[i]));
  EXPECT_EQ(after.change, largest);
}

TEST(plain_loops, of_floats_are_near_those_of_doubles) {
  const cells n{8, 6, 10};
  const auto exact = run_serially<double>(n, 20, 0.25).values;
  const auto rough = run_serially<float>(n, 20, 0.25).values;
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(static_cast<double>(rough[i]), exact[i], 1e-6) << i;
}
