// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tests the curve through arrays, and its pieces.
#include <tern/balance/policies/shared/curve_order.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/balance/policies/shared/random.hpp>

namespace tern::balance::detail {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Eq;

array_place at(const std::array<std::int64_t, 3>& index, const std::array<std::int64_t, 3>& size, int dimensions) {
  return {1, dimensions, index, size};
}

/// All places of an array in the order of the curve.
std::vector<std::array<std::int64_t, 3>> course(const std::array<std::int64_t, 3>& size, int dimensions) {
  std::vector<std::pair<std::uint64_t, std::array<std::int64_t, 3>>> all;
  for (std::int64_t i = 0; i < size[0]; ++i)
    for (std::int64_t j = 0; j < size[1]; ++j)
      for (std::int64_t k = 0; k < size[2]; ++k)
        all.emplace_back(curve_position(at({i, j, k}, size, dimensions)), std::array{i, j, k});
  std::sort(all.begin(), all.end());
  std::vector<std::array<std::int64_t, 3>> order;
  for (const auto& [position, index] : all) order.push_back(index);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end(), [](auto& a, auto& b) { return a.first == b.first; }), all.end())
      << "two places at one position";
  EXPECT_LT(all.back().first, std::uint64_t{1} << 63);
  return order;
}

std::int64_t steps(const std::array<std::int64_t, 3>& a, const std::array<std::int64_t, 3>& b) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < 3; ++d) sum += std::abs(a[d] - b[d]);
  return sum;
}

TEST(curve, goes_from_neighbour_to_neighbour) {
  for (const auto& [size, dimensions] : {std::pair(std::array<std::int64_t, 3>{100, 1, 1}, 1),
                                         {{2, 2, 1}, 2},
                                         {{32, 32, 1}, 2},
                                         {{2, 2, 2}, 3},
                                         {{16, 16, 16}, 3}}) {
    const auto order = course(size, dimensions);
    for (std::size_t i = 1; i < order.size(); ++i) EXPECT_EQ(steps(order[i - 1], order[i]), 1) << i;
  }
}

TEST(curve, knows_any_shape) {
  EXPECT_EQ(course({7, 13, 1}, 2).size(), 91u);
  EXPECT_EQ(course({1, 1, 1}, 3).size(), 1u);
  EXPECT_EQ(course({3, 1, 29}, 3).size(), 87u);
  // More places than positions: those that share one follow each other.
  const std::int64_t many = std::int64_t{1} << 38;
  EXPECT_LT(curve_position(at({many - 1, 0, 0}, {many, 1, 1}, 3)), std::uint64_t{1} << 63);
  EXPECT_LE(curve_position(at({0, 0, 0}, {many, 1, 1}, 1)), curve_position(at({1, 0, 0}, {many, 1, 1}, 1)));
}

TEST(curve, places_arrays_of_one_shape_side_by_side) {
  // Each place of the coarse array lies among the four of the fine one that it covers.
  const std::uint64_t one = std::uint64_t{1} << (62 - 8); // a place of the fine array
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = 0; j < 8; ++j) {
      const std::uint64_t coarse = curve_position(at({i, j, 0}, {8, 8, 1}, 2)) / one;
      std::set<std::uint64_t> fine;
      for (const std::int64_t a : {0, 1})
        for (const std::int64_t b : {0, 1})
          fine.insert(curve_position(at({2 * i + a, 2 * j + b, 0}, {16, 16, 1}, 2)) / one);
      EXPECT_EQ(fine.size(), 4u);
      EXPECT_EQ(*fine.rbegin() - *fine.begin(), 3u);
      EXPECT_TRUE(fine.contains(coarse));
    }
}

assignment_problem problem(const std::vector<float>& loads, const std::vector<double>& speed,
                           const std::vector<double>& fixed) {
  assignment_problem p;
  p.load = loads;
  p.speed = speed;
  p.fixed = fixed;
  p.workers.assign(speed.size(), 1);
  p.first.assign(speed.size() + 1, static_cast<std::uint32_t>(loads.size()));
  p.first[0] = 0;
  p.first_fixed.assign(speed.size() + 1, 0);
  return p;
}

double last_end(const assignment_problem& p, const std::vector<std::int32_t>& where) {
  std::vector<double> load = p.fixed;
  for (std::size_t i = 0; i < where.size(); ++i)
    load[static_cast<std::size_t>(where[i])] += static_cast<double>(p.load[i]);
  double last = 0;
  for (std::size_t r = 0; r < load.size(); ++r)
    if (load[r] > 0) last = std::max(last, load[r] / p.speed[r]);
  return last;
}

/// Of all cuts into pieces in the ranks' order.
double best_end(const assignment_problem& p, std::size_t rank = 0, std::size_t from = 0) {
  if (rank == p.ranks()) return from == p.load.size() ? 0 : std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity(), load = p.fixed[rank];
  for (std::size_t to = from;; ++to) {
    const double own = load > 0 ? load / p.speed[rank] : 0;
    best = std::min(best, std::max(own, best_end(p, rank + 1, to)));
    if (to == p.load.size()) return best;
    load += static_cast<double>(p.load[to]);
  }
}

TEST(curve, is_cut_as_well_as_any_cut_can_be) {
  random_numbers random(7);
  for (int round = 0; round < 300; ++round) {
    const auto objects = 1 + random.below(9), ranks = 1 + random.below(4);
    std::vector<float> loads;
    std::vector<double> speed, fixed;
    for (std::uint64_t i = 0; i < objects; ++i) loads.push_back(static_cast<float>(random.below(20)));
    for (std::uint64_t r = 0; r < ranks; ++r) {
      speed.push_back(static_cast<double>(1 + random.below(3)));
      fixed.push_back(static_cast<double>(random.below(3) == 0 ? random.below(15) : 0));
    }
    const assignment_problem p = problem(loads, speed, fixed);
    std::vector<std::uint64_t> along(objects);
    std::iota(along.begin(), along.end(), std::uint64_t{5});
    const auto where = assign_along(p, along);
    ASSERT_TRUE(std::is_sorted(where.begin(), where.end())) << round;
    if (std::accumulate(loads.begin(), loads.end(), 0.0F) > 0) {
      ASSERT_LE(last_end(p, where), best_end(p) * (1 + 1e-9)) << round;
    }
  }
}

TEST(curve, gives_each_rank_its_share) {
  std::vector<std::uint64_t> along(100);
  std::iota(along.rbegin(), along.rend(), std::uint64_t{0}); // the last object comes first
  const auto where = assign_along(problem(std::vector<float>(100, 1.0F), {1, 2, 1}, {0, 0, 0}), along);
  EXPECT_EQ(std::count(where.begin(), where.end(), 0), 25);
  EXPECT_EQ(std::count(where.begin(), where.end(), 1), 50);
  EXPECT_TRUE(std::is_sorted(where.rbegin(), where.rend()));
  // A heavy one in the middle has a rank for itself, though that is more than its share.
  EXPECT_THAT(assign_along(problem({1, 1, 30, 1, 1}, {1, 1, 1}, {0, 0, 0}), {{0, 1, 2, 3, 4}}),
              ElementsAre(0, 0, 1, 2, 2));
}

TEST(curve, leaves_all_where_nothing_can_be_gained) {
  EXPECT_THAT(assign_along(problem({1, 2}, {0, 0}, {0, 0}), {{0, 1}}), Each(Eq(0)));
  EXPECT_THAT(assign_along(problem({0, 0}, {1, 1}, {0, 0}), {{0, 1}}), Each(Eq(0)));
  EXPECT_THAT(assign_along(problem({}, {1, 1}, {0, 0}), {}), ElementsAre());
  EXPECT_THAT(assign_along(problem({1, 2, 3}, {1, 0, 1}, {0, 0, 0}), {{0, 1, 2}}), ElementsAre(0, 0, 2));
}

} // namespace
} // namespace tern::balance::detail
