// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/grid.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

using namespace tern::bench::grain;

namespace {

using columns = std::vector<int>;

columns before(const grid& g, int step, int column) {
  const auto found = g.dependences(step, column);
  return {found.begin(), found.end()};
}

const std::vector<pattern> all{pattern::trivial, pattern::stencil, pattern::fft,    pattern::tree,
                               pattern::blocks,  pattern::nearest, pattern::spread, pattern::random};

TEST(grid, dependences_and_dependents_agree_in_each_pattern_width_and_radix) {
  for (const pattern p : all)
    for (const int width : {1, 2, 7, 16})
      for (const int radix : {1, 3, 4, 5, 99}) {
        const grid g(p, width, radix);
        std::size_t inputs = 0;
        const int steps = 2 * g.period() + 3;
        for (int step = 0; step < steps; ++step) {
          std::set<std::pair<int, int>> needs, serves; // by column of the next step and of this one
          for (int c = 0; c < width; ++c) {
            for (const int from : g.dependences(step + 1, c)) {
              ASSERT_TRUE(from >= 0 && from < width);
              EXPECT_TRUE(needs.insert({c, from}).second) << "twice";
            }
            for (const int to : g.dependents(step, c)) EXPECT_TRUE(serves.insert({to, c}).second) << "twice";
            inputs += step == 0 ? 0 : g.dependences(step, c).size();
          }
          EXPECT_EQ(needs, serves) << "pattern " << static_cast<int>(p) << ", width " << width << ", step " << step;
        }
        EXPECT_EQ(g.inputs(steps), inputs);
      }
}

TEST(grid, the_first_step_needs_nothing) {
  for (const pattern p : all) EXPECT_TRUE(grid(p, 16, 5).dependences(0, 3).empty());
}

TEST(grid, a_stencil_needs_itself_and_its_neighbours) {
  const grid g(pattern::stencil, 16, 5);
  EXPECT_EQ(before(g, 1, 5), (columns{4, 5, 6}));
  EXPECT_EQ(before(g, 9, 0), (columns{0, 1}));
  EXPECT_EQ(before(g, 9, 15), (columns{14, 15}));
  EXPECT_EQ(g.inputs(3), 2u * (16 * 3 - 2));
}

TEST(grid, an_fft_reaches_further_in_each_step) {
  const grid g(pattern::fft, 16, 5);
  EXPECT_EQ(g.period(), 4);
  EXPECT_EQ(before(g, 1, 5), (columns{4, 5, 6}));
  EXPECT_EQ(before(g, 3, 5), (columns{1, 5, 9}));
  EXPECT_EQ(before(g, 4, 5), (columns{5, 13}));
  EXPECT_EQ(before(g, 5, 5), (columns{4, 5, 6}));
}

TEST(grid, a_tree_spreads_what_column_0_makes) {
  const grid g(pattern::tree, 16, 5);
  std::set<int> reached{0};
  for (int step = 1; step <= 4; ++step) {
    std::set<int> next;
    for (int c = 0; c < 16; ++c)
      if (reached.count(before(g, step, c).at(0))) next.insert(c);
    EXPECT_EQ(next.size(), std::size_t{1} << step);
    reached = next;
  }
}

TEST(grid, blocks_are_shifted_in_every_second_step) {
  const grid g(pattern::blocks, 16, 4);
  EXPECT_EQ(before(g, 1, 5), (columns{4, 5, 6, 7}));
  EXPECT_EQ(before(g, 2, 5), (columns{2, 3, 4, 5}));
  EXPECT_EQ(before(g, 2, 0), (columns{0, 1}));
  EXPECT_EQ(before(g, 3, 5), before(g, 1, 5));
}

TEST(grid, nearest_spread_and_random_have_their_radix) {
  const grid nearest(pattern::nearest, 16, 5), spread(pattern::spread, 16, 5), random(pattern::random, 16, 5);
  EXPECT_EQ(before(nearest, 1, 8), (columns{6, 7, 8, 9, 10}));
  EXPECT_EQ(before(nearest, 1, 0), (columns{0, 1, 2}));
  std::set<columns> different;
  for (int step = 1; step <= 20; ++step)
    for (int c = 0; c < 16; ++c) {
      EXPECT_EQ(spread.dependences(step, c).size(), 5u);
      EXPECT_FALSE(random.dependences(step, c).empty());
      EXPECT_LE(random.dependences(step, c).size(), 5u);
      different.insert(before(random, step, c));
    }
  EXPECT_EQ(before(spread, 1, 1), (columns{1, 4, 7, 10, 13}));
  EXPECT_EQ(before(spread, 2, 1), (columns{1, 5, 8, 11, 14}));
  EXPECT_GT(different.size(), 100u);
  EXPECT_EQ(before(random, 1, 1), before(grid(pattern::random, 16, 5), 17, 1)) << "by a fixed hash";
}

TEST(grid, a_dropped_dependence_is_gone_on_both_sides) {
  grid g(pattern::fft, 16, 5);
  const std::size_t all_inputs = g.inputs(5);
  g.drop(3, 5, 9);
  EXPECT_EQ(before(g, 3, 5), (columns{1, 5}));
  EXPECT_EQ(before(g, 7, 5), (columns{1, 5})) << "the same phase";
  const auto after = g.dependents(2, 9);
  EXPECT_TRUE(std::find(after.begin(), after.end(), 5) == after.end());
  EXPECT_EQ(g.inputs(5), all_inputs - 1);
  EXPECT_THROW(g.drop(3, 5, 9), std::invalid_argument);
}

TEST(grid, impossible_grids_are_refused) {
  EXPECT_THROW(grid(pattern::stencil, 0, 1), std::invalid_argument);
  EXPECT_THROW(grid(pattern::nearest, 4, 0), std::invalid_argument);
}

} // namespace
