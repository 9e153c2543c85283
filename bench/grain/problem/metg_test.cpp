// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/metg.hpp"

#include <algorithm>

#include <gtest/gtest.h>

using namespace tern::bench::grain;

namespace {

constexpr double iteration = 4e-9;

// With a fixed price of each task half of the peak is reached by tasks that compute as long as that
// takes: METG is twice the price.
TEST(metg, is_twice_a_fixed_overhead) {
  for (const double overhead : {0.1e-6, 1e-6, 30e-6, 2e-3}) {
    const auto found = find_metg(iteration, [&](long n) { return static_cast<double>(n) * iteration + overhead; });
    EXPECT_TRUE(found.reached);
    EXPECT_NEAR(found.seconds, 2 * overhead, 0.02 * overhead) << overhead;
  }
}

TEST(metg, has_points_on_both_sides_of_one_half_in_order) {
  const auto found = find_metg(iteration, [&](long n) { return static_cast<double>(n) * iteration + 1e-6; });
  ASSERT_GE(found.points.size(), 4u);
  EXPECT_TRUE(std::is_sorted(found.points.begin(), found.points.end(),
                             [](const point& a, const point& b) { return a.efficiency > b.efficiency; }));
  EXPECT_GT(found.points.front().efficiency, 0.9);
  EXPECT_LT(found.points.back().efficiency, 0.5);
}

TEST(metg, follows_the_efficiency_that_is_asked_for) {
  const auto found = find_metg(
      iteration, [&](long n) { return static_cast<double>(n) * iteration + 1e-6; }, 0.75);
  EXPECT_NEAR(found.seconds, 4e-6, 0.05e-6);
}

TEST(metg, of_what_costs_less_than_an_iteration_is_the_shortest_task) {
  const auto found = find_metg(iteration, [&](long n) { return static_cast<double>(n) * iteration + 1e-9; });
  EXPECT_DOUBLE_EQ(found.seconds, iteration + 1e-9);
}

TEST(metg, does_not_exist_where_half_of_the_peak_is_never_reached) {
  double longest = 0;
  const auto found = find_metg(iteration, [&](long n) { return longest = 3 * static_cast<double>(n) * iteration; });
  EXPECT_FALSE(found.reached);
  EXPECT_DOUBLE_EQ(found.seconds, longest);
  EXPECT_GT(longest, 3 * 4e-3);
}

} // namespace
