// SPDX-License-Identifier: Apache-2.0
/// \file
/// Trees and forces of one piece or several, against direct summation.
#include "apps/nbody/bodies/models.hpp"
#include "apps/nbody/bodies/morton.hpp"
#include "apps/nbody/force/direct.hpp"
#include "apps/nbody/force/group_force.hpp"
#include "apps/nbody/job/plan.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace nbody;

namespace {

/// Bodies in pieces, as a run has them, on one rank.
struct cut_bodies {
  std::vector<bodies> parts;
  std::vector<std::vector<std::uint64_t>> keys;
  std::vector<tree_ref> trees;
  forest all;
  piece_plan plan;
};

cut_bodies cut(const bodies& all, std::uint32_t pieces, const tree_settings& how) {
  cut_bodies c;
  sample everything;
  everything.add(all, 1);
  c.plan = plan_pieces(everything, pieces);
  std::vector<std::uint64_t> keys(all.size());
  std::vector<std::uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = 0; i < all.size(); ++i) keys[i] = morton_key(c.plan.space, all.x[i], all.y[i], all.z[i]);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return std::pair(keys[a], a) < std::pair(keys[b], b); });
  c.parts.resize(pieces);
  c.keys.resize(pieces);
  for (const auto i : order) {
    const auto p = c.plan.piece_of(keys[i]);
    c.parts[p].push(all, i);
    c.keys[p].push_back(keys[i]);
  }
  std::vector<octree> crowns;
  for (std::uint32_t p = 0; p < pieces; ++p) {
    c.trees.push_back(std::make_shared<octree>(build_tree(c.parts[p], c.keys[p], how)));
    crowns.push_back(crown_of(*c.trees[p], p));
  }
  c.all = forest(std::move(crowns), how.theta);
  return c;
}

struct found {
  bodies all; ///< in the order of the accelerations
  accelerations pull;
  std::uint64_t interactions = 0;
};

found tree_forces(const bodies& all, std::uint32_t pieces, const tree_settings& how, force_settings by,
                  const kernel& loops = best_kernel()) {
  const cut_bodies c = cut(all, pieces, how);
  by.length = c.plan.length;
  by.mass = power_of_two(std::accumulate(all.mass.begin(), all.mass.end(), 0.0));
  found f;
  for (std::uint32_t p = 0; p < pieces; ++p) {
    if (c.parts[p].empty()) continue;
    const auto opens = c.all.open_for(c.parts[p], c.trees[p]->cells.front().around, groups_of(*c.trees[p], how));
    opened_trees whole;
    for (const auto o : opens.trees) whole.add(o, c.trees[o]);
    accelerations pull;
    pull.resize(c.parts[p].size());
    group_force space(by, loops);
    for (const body_group& g : opens.groups) f.interactions += space.attract(c.all, whole, *c.trees[p], g, pull);
    f.all.append(c.parts[p]);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(f.pull.x, pull.x);
    append(f.pull.y, pull.y);
    append(f.pull.z, pull.z);
    append(f.pull.potential, pull.potential);
  }
  return f;
}

accelerations direct(const bodies& all, const force_settings& by) {
  std::vector<std::uint32_t> targets(all.size());
  std::iota(targets.begin(), targets.end(), 0u);
  return sum_directly(all, targets, by);
}

double error_of(const bodies& all, double theta, bool quadrupole, std::uint32_t pieces = 5) {
  tree_settings how{.theta = theta, .leaf = 8, .group = 32};
  force_settings by{.softening = 0.01, .quadrupole = quadrupole};
  const found f = tree_forces(all, pieces, how, by);
  return relative_error(f.pull, direct(f.all, by));
}

} // namespace

TEST(plan, pieces_have_equally_many_bodies) {
  const bodies all = make({"plummer", 6000, 1}).all;
  sample some;
  some.add(all, 1);
  const piece_plan plan = plan_pieces(some, 12);
  ASSERT_EQ(plan.first_keys.size(), 12u);
  EXPECT_TRUE(std::is_sorted(plan.first_keys.begin(), plan.first_keys.end()));
  std::vector<int> count(12);
  for (std::size_t i = 0; i < all.size(); ++i)
    ++count[plan.piece_of(morton_key(plan.space, all.x[i], all.y[i], all.z[i]))];
  for (const int n : count) EXPECT_NEAR(n, 500, 2);
}

TEST(plan, does_not_depend_on_the_order_of_samples) {
  bodies all = make({"plummer", 900, 1}).all;
  sample one, parts, part;
  one.add(all, 1);
  std::vector<std::uint32_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(order.size() - 1 - i);
  all.reorder(order);
  part.add(all, 1);
  parts = join_samples()(sample(), part);
  EXPECT_EQ(plan_pieces(one, 7).first_keys, plan_pieces(parts, 7).first_keys);
}

TEST(plan, bodies_at_one_place) {
  bodies all;
  for (std::uint32_t i = 0; i < 100; ++i) all.push(i, 0, 1, {2, 3, 4}, {0, 0, 0});
  sample some;
  some.add(all, 3);
  const piece_plan plan = plan_pieces(some, 4);
  EXPECT_GT(plan.space.side, 0);
  EXPECT_LT(plan.piece_of(morton_key(plan.space, 2, 3, 4)), 4u);
}

TEST(tree, each_body_is_in_one_leaf_and_one_group) {
  const tree_settings how{.theta = 0.5, .leaf = 8, .group = 40};
  const cut_bodies c = cut(make({"collision", 3000, 1}).all, 1, how);
  const octree& tree = *c.trees[0];
  std::vector<int> seen(3000);
  for (std::size_t i = 0; i < tree.cells.size(); ++i) {
    const cell& t = tree.cells[i];
    EXPECT_GT(t.next, i);
    EXPECT_LE(t.next, tree.cells.size());
    if (t.kind != cell::leaf) continue;
    EXPECT_LE(t.count, how.leaf);
    for (std::uint32_t b = t.first; b < t.first + t.count; ++b) ++seen[b];
  }
  EXPECT_THAT(seen, testing::Each(1));
  std::uint32_t next = 0;
  for (const body_group& g : groups_of(tree, how)) {
    EXPECT_EQ(g.first, next);
    EXPECT_LE(g.count, how.group);
    next += g.count;
  }
  EXPECT_EQ(next, 3000u);
}

TEST(tree, moments_are_those_of_the_bodies) {
  const cut_bodies c = cut(make({"plummer", 2000, 5}).all, 1, {});
  const octree& tree = *c.trees[0];
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, tree.cells.size() / 2}) {
    const cell& t = tree.cells[at];
    double mass = 0, x = 0, xx = 0, yz = 0;
    for (std::uint32_t b = t.first; b < t.first + t.count; ++b) {
      mass += tree.mass[b];
      x += tree.mass[b] * tree.x[b];
      xx += tree.mass[b] * (tree.x[b] - t.x) * (tree.x[b] - t.x);
      yz += tree.mass[b] * (tree.y[b] - t.y) * (tree.z[b] - t.z);
    }
    EXPECT_NEAR(t.mass, mass, 1e-12 * mass);
    EXPECT_NEAR(t.x, x / mass, 1e-10);
    EXPECT_NEAR(t.moment[0], xx, 1e-10);
    EXPECT_NEAR(t.moment[4], yz, 1e-10);
  }
}

// Else one piece that crosses the border of large cells takes longer than all that a rank of
// many has.
TEST(tree, groups_that_open_everything_are_divided) {
  const tree_settings how;
  const cut_bodies c = cut(make({"plummer", 100'000, 1}).all, 1600, how);
  std::size_t undivided = 0, most = 0, divided = 0;
  for (std::uint32_t p = 0; p < 1600; ++p) {
    const auto groups = groups_of(*c.trees[p], how);
    const box around = c.trees[p]->cells.front().around;
    undivided = std::max(undivided, c.all.opened_by(around).size());
    const auto opens = c.all.open_for(c.parts[p], around, groups);
    divided += opens.groups.size() > groups.size() ? 1 : 0;
    std::uint32_t next = 0;
    for (const body_group& g : opens.groups) {
      EXPECT_EQ(g.first, next);
      next += g.count;
      const auto mine = c.all.opened_by(g.around);
      if (g.count > 1) most = std::max(most, mine.size());
      EXPECT_TRUE(std::includes(opens.trees.begin(), opens.trees.end(), mine.begin(), mine.end()));
    }
    EXPECT_EQ(next, c.parts[p].size());
  }
  EXPECT_GT(undivided, 1200u);
  EXPECT_LT(most, 500u);
  EXPECT_GT(divided, 0u);
  EXPECT_LT(divided, 160u);
}

TEST(tree, no_angle_means_direct_summation) {
  const bodies all = make({"collision", 1500, 1}).all;
  EXPECT_LT(error_of(all, 0, true), 3e-6);
  const found f = tree_forces(all, 5, {.theta = 0}, {.softening = 0.01});
  EXPECT_EQ(f.interactions, 1500u * 1500u);
}

TEST(tree, errors_fall_with_the_angle) {
  const bodies all = make({"plummer", 5000, 2}).all;
  double before = 1;
  for (const double theta : {1.2, 0.8, 0.5, 0.3}) {
    const double error = error_of(all, theta, true);
    EXPECT_LT(error, before / 1.8) << theta;
    before = error;
  }
  EXPECT_LT(error_of(all, 0.5, true), 1e-3);
}

TEST(tree, quadrupoles_are_worth_it) {
  const bodies all = make({"plummer", 5000, 2}).all;
  EXPECT_LT(error_of(all, 0.5, true), error_of(all, 0.5, false) / 4);
  EXPECT_LT(error_of(all, 0.5, false), 1e-2);
}

TEST(tree, the_number_of_pieces_changes_little) {
  const bodies all = make({"plummer", 4000, 2}).all;
  for (const std::uint32_t pieces : {1u, 2u, 17u, 100u}) EXPECT_LT(error_of(all, 0.5, true, pieces), 1e-3) << pieces;
}

TEST(kernel, all_instruction_sets_agree) {
  const bodies all = make({"collision", 1200, 1}).all;
  const force_settings by{.softening = 0.01};
  const auto first = tree_forces(all, 3, {}, by, best_kernel());
  const auto kernels = usable_kernels();
  EXPECT_STREQ(kernels.back().name, "portable");
  for (const kernel& k : kernels) {
    const auto other = tree_forces(all, 3, {}, by, k);
    EXPECT_LT(relative_error(other.pull, first.pull), 3e-6) << k.name;
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_NEAR(other.pull.potential[i] / first.pull.potential[i], 1, 1e-5) << k.name;
  }
}

TEST(kernel, potentials_are_without_a_bodys_own) {
  const bodies all = make({"plummer", 800, 1}).all;
  const force_settings by{.softening = 0.05};
  const found f = tree_forces(all, 4, {.theta = 0}, by);
  const accelerations exact = direct(f.all, by);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(f.pull.potential[i] / exact.potential[i], 1, 1e-5);
}

// The sun and the earth in kilograms and metres: single precision would not hold the cubes.
TEST(kernel, units_do_not_matter) {
  bodies all;
  all.push(0, 0, 1.989e30, {0, 0, 0}, {0, 0, 0});
  all.push(1, 0, 5.972e24, {1.496e11, 0, 0}, {0, 29780, 0});
  const force_settings by{.gravity = 6.674e-11};
  const found f = tree_forces(all, 1, {}, by);
  const accelerations exact = direct(f.all, by);
  EXPECT_LT(relative_error(f.pull, exact), 1e-6);
  EXPECT_NEAR(*std::max_element(f.pull.x.begin(), f.pull.x.end(),
                                [](double a, double b) { return std::fabs(a) < std::fabs(b); }),
              -5.93e-3, 1e-5);
}

TEST(kernel, bodies_at_one_place_do_not_pull_each_other) {
  bodies all;
  for (std::uint32_t i = 0; i < 70; ++i) all.push(i, 0, 1, {1, 1, 1}, {0, 0, 0});
  all.push(70, 0, 1, {3, 1, 1}, {0, 0, 0});
  const found f = tree_forces(all, 2, {}, {});
  const accelerations exact = direct(f.all, {});
  EXPECT_LT(relative_error(f.pull, exact), 1e-6);
  for (const double a : f.pull.x) EXPECT_TRUE(std::isfinite(a));
}
