// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/refine/refine.hpp"

#include "apps/mesh/refine/check_mesh.hpp"
#include "apps/mesh/refine/decompose.hpp"

#include <tern/base/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace mesh {
namespace {

using ring = std::vector<point>;

/// A square sea with islands; rings touch each other at corners at most.
domain make_sea(double side, const std::vector<ring>& islands) {
  domain sea;
  sea.low = {-side / 2, -side / 2};
  sea.high = {side / 2, side / 2};
  auto add = [&](const ring& r) {
    double twice = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const point &a = r[i], &b = r[(i + 1) % r.size()];
      sea.boundary.push_back({a, b});
      twice += a.x * b.y - a.y * b.x;
    }
    return std::fabs(twice) / 2;
  };
  double land = 0;
  for (const ring& r : islands) land += add(r);
  sea.coast = sea.boundary.size();
  sea.area = add({sea.low, {sea.high.x, sea.low.y}, sea.high, {sea.low.x, sea.high.y}}) - land;
  return sea;
}

/// An island whose bay, open to the east, narrows to `degrees` at (0, 0).
ring bay(double degrees, double size = 20) {
  double a = degrees / 2 * std::numbers::pi / 180, x = size * std::cos(a), y = size * std::sin(a);
  return {{0, 0}, {x, y}, {x, size}, {-size / 2, size}, {-size / 2, -size}, {x, -size}, {x, -y}};
}

ring box(double x, double y, double w, double h) { return {{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}; }

struct result {
  std::vector<group_mesh> groups;
  group_statistics all;
  int rounds = 0;
  mesh_check check;
};

/// Meshes all groups; `backwards` goes through groups and messages in the other direction.
result mesh_all(const domain& sea, const size_field& sizes, const decomposition& cut, bool backwards = false) {
  result r;
  std::size_t n = cut.groups.size();
  for (const group_definition& g : cut.groups) r.groups.emplace_back(g, sizes);
  auto each = [&](auto f) {
    for (std::size_t i = 0; i < n; ++i) f(backwards ? n - 1 - i : i);
  };
  each([&](std::size_t i) { r.groups[i].refine(); });
  for (bool more = true; more && r.rounds < 50; ++r.rounds) {
    std::vector<std::vector<split>> inbox(n);
    more = false;
    each([&](std::size_t i) {
      for (std::uint32_t k : r.groups[i].neighbours())
        for (const split& s : r.groups[i].take_new_splits(k)) inbox[k].push_back(s);
    });
    each([&](std::size_t i) {
      if (r.groups[i].apply_splits(inbox[i]) > 0) more = true;
    });
  }
  std::vector<extracted> parts;
  for (std::size_t i = 0; i < n; ++i) {
    r.all += r.groups[i].statistics();
    parts.push_back(r.groups[i].extract());
    for (std::uint32_t k : r.groups[i].neighbours())
      EXPECT_EQ(r.groups[i].border_hash(k), r.groups[k].border_hash(static_cast<std::uint32_t>(i)));
  }
  r.check = check_mesh(sea, parts);
  return r;
}

void expect_good(const domain& sea, const result& r) {
  EXPECT_TRUE(r.check.conforms()) << r.check.describe();
  EXPECT_EQ(r.all.border_hash, 0U);
  EXPECT_EQ(r.all.triangles, r.check.triangles);
  EXPECT_NEAR(r.all.area + r.all.area_error, sea.area, 1e-9 * sea.area);
  EXPECT_NEAR(r.all.outline_length, r.check.input_length, 1e-9 * r.check.input_length);
  EXPECT_EQ(r.all.below_20_artificial, 0U);
  EXPECT_GE(r.all.smallest_free_angle, 20);
  EXPECT_NEAR(r.all.smallest_angle, r.check.smallest_angle, 1e-6);
  EXPECT_LT(r.rounds, 50);
}

struct toy {
  const char* name;
  domain sea;
  sizing sizes;
  bool sharp; ///< has an input angle below 20 degrees
};

std::vector<toy> toys() {
  std::vector<toy> t;
  t.push_back({"no coast", make_sea(100, {}), {2, 5, 0.1}, false});
  t.push_back({"islands", make_sea(100, {box(-20, -15, 20, 10), box(10, 5, 7, 13)}), {0.8, 4, 0.1}, false});
  t.push_back({"spike of land", make_sea(100, {{{-30, 0}, {20, -2.2}, {20, 2.2}}}), {0.8, 4, 0.1}, false});
  t.push_back({"bay of 5 degrees", make_sea(100, {bay(5)}), {0.8, 4, 0.1}, true});
  t.push_back({"bay of 0.5 degrees", make_sea(100, {bay(0.5)}), {0.8, 4, 0.1}, true});
  t.push_back(
      {"touching", make_sea(100, {{{0, 0}, {20, 0}, {20, 10}}, {{0, 0}, {18, 14}, {3, 20}}}), {0.8, 4, 0.1}, true});
  t.push_back({"thin channel", make_sea(100, {box(-30, -20.01, 60, 20), box(-30, 0.01, 60, 20)}), {1, 4, 0.1}, false});
  domain cape = make_sea(100, {}); // land that reaches in from the box, instead of the box's western edge
  cape.boundary.back() = {{-50, 50}, {-50, 3}};
  cape.boundary.insert(cape.boundary.end(), {{{-50, 3}, {-20, 0}}, {{-20, 0}, {-50, -10}}, {{-50, -10}, {-50, -50}}});
  cape.area -= 30 * 13 / 2.0;
  t.push_back({"cape at the box", cape, {0.8, 4, 0.1}, false});
  return t;
}

TEST(refine, toys_conform_in_any_number_of_groups) {
  for (const toy& t : toys()) {
    size_field sizes(t.sea, t.sizes);
    for (std::size_t groups : {1, 2, 7, 40}) {
      SCOPED_TRACE(std::string(t.name) + ", groups: " + std::to_string(groups));
      decompose_options options;
      options.groups = groups;
      decomposition cut = decompose(t.sea, sizes, options);
      ASSERT_EQ(cut.groups.size(), groups);
      result r = mesh_all(t.sea, sizes, cut);
      expect_good(t.sea, r);
      EXPECT_EQ(r.all.below_20_input > 0, t.sharp);
      EXPECT_EQ(cut.joints.size() > 0, t.sharp);
    }
  }
}

TEST(refine, angles_about_the_bound) {
  for (double degrees : {1.0, 10.0, 19.0, 19.9, 20.1, 20.5, 20.9, 22.0, 30.0, 45.0, 59.0, 61.0})
    for (std::size_t groups : {1, 12}) {
      SCOPED_TRACE(std::to_string(degrees) + " degrees, groups: " + std::to_string(groups));
      domain sea = make_sea(80, {bay(degrees)});
      size_field sizes(sea, {0.6, 4, 0.2});
      decompose_options options;
      options.groups = groups;
      result r = mesh_all(sea, sizes, decompose(sea, sizes, options));
      expect_good(sea, r);
      EXPECT_EQ(r.all.below_20_input > 0, degrees < 20);
      EXPECT_GT(r.all.smallest_angle, std::min(degrees, 20.0) * 0.45);
    }
}

TEST(refine, rotated_bays) { // no edge along an axis, both legs of different lengths
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int k = 0; k < 30; ++k) {
    double degrees = 2 + 40 * uniform(random), turn = 2 * std::numbers::pi * uniform(random);
    SCOPED_TRACE(std::to_string(k) + ": " + std::to_string(degrees) + " degrees");
    ring r = bay(degrees, 12);
    r[1].x *= 0.6 + 0.3 * uniform(random);
    r[1].y = r[1].x * std::tan(degrees / 2 * std::numbers::pi / 180);
    for (point& p : r) p = {p.x * std::cos(turn) - p.y * std::sin(turn), p.x * std::sin(turn) + p.y * std::cos(turn)};
    domain sea = make_sea(60, {r});
    size_field sizes(sea, {0.5 + uniform(random), 5, 0.2});
    decompose_options options;
    options.groups = 1 + static_cast<std::size_t>(20 * uniform(random));
    expect_good(sea, mesh_all(sea, sizes, decompose(sea, sizes, options)));
  }
}

TEST(refine, random_islands) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int k = 0; k < 25; ++k) {
    SCOPED_TRACE(k);
    std::vector<ring> islands;
    for (int i = 0; i < 5; ++i)
      for (int j = 0; j < 5; ++j) { // a star in each cell of 20 km
        ring r;
        int corners = 3 + static_cast<int>(9 * uniform(random));
        for (int c = 0; c < corners; ++c) {
          double a = 2 * std::numbers::pi * (c + 0.9 * uniform(random)) / corners, radius = 0.3 + 9.6 * uniform(random);
          r.push_back({-40 + 20.0 * i + radius * std::cos(a), -40 + 20.0 * j + radius * std::sin(a)});
        }
        islands.push_back(r);
      }
    domain sea = make_sea(100, islands);
    size_field sizes(sea, {0.5 + 2 * uniform(random), 8, 0.3 * uniform(random)});
    decompose_options options;
    options.groups = 1 + static_cast<std::size_t>(30 * uniform(random));
    expect_good(sea, mesh_all(sea, sizes, decompose(sea, sizes, options)));
  }
}

TEST(refine, result_does_not_depend_on_order) {
  domain sea = make_sea(100, {bay(5), box(-40, -40, 15, 6)});
  size_field sizes(sea, {0.6, 4, 0.05});
  decompose_options options;
  options.groups = 30;
  decomposition cut = decompose(sea, sizes, options), again = decompose(sea, sizes, options);
  result a = mesh_all(sea, sizes, cut), b = mesh_all(sea, sizes, again, true);
  EXPECT_EQ(a.all.hash, b.all.hash);
  EXPECT_EQ(a.all.triangles, b.all.triangles);
  EXPECT_GT(a.all.splits, 0U); // else the rounds were not tried
}

TEST(refine, the_hash_tells_meshes_apart) {
  domain sea = make_sea(50, {});
  size_field coarse(sea, {2, 2, 0}), fine(sea, {1.3, 1.3, 0});
  EXPECT_NE(mesh_all(sea, coarse, decompose(sea, coarse)).all.hash, mesh_all(sea, fine, decompose(sea, fine)).all.hash);
}

TEST(refine, sizes_are_kept) {
  domain sea = make_sea(100, {box(-10, -10, 20, 20)});
  size_field sizes(sea, {0.7, 3, 0.1});
  result r = mesh_all(sea, sizes, decompose(sea, sizes));
  for (const group_mesh& g : r.groups) {
    extracted e = g.extract();
    for (const auto& t : e.triangles) {
      const point &a = e.points[t[0]], &b = e.points[t[1]], &c = e.points[t[2]];
      double longest = std::max(
          {std::hypot(a.x - b.x, a.y - b.y), std::hypot(b.x - c.x, b.y - c.y), std::hypot(c.x - a.x, c.y - a.y)});
      ASSERT_LE(longest, sizes.h((a.x + b.x + c.x) / 3, (a.y + b.y + c.y) / 3) * (1 + 1e-12));
    }
  }
}

TEST(split_point, is_the_same_from_both_ends_and_in_the_middle_third) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(-1000, 1000);
  for (int k = 0; k < 100000; ++k) {
    point p{uniform(random), uniform(random)}, q{uniform(random), uniform(random)};
    if (k % 3 == 0) q.x = p.x;
    if (k % 7 == 0) q = {p.x + std::ldexp(uniform(random), -20), p.y + std::ldexp(uniform(random), -20)};
    for (bool a : {false, true})
      for (bool b : {false, true}) {
        point m = split_point(p, a, q, b);
        ASSERT_EQ(m, split_point(q, b, p, a));
        if (p.x == q.x) {
          ASSERT_EQ(m.x, p.x);
        }
        double l = std::hypot(q.x - p.x, q.y - p.y), from_p = std::hypot(m.x - p.x, m.y - p.y);
        ASSERT_GT(from_p, 0.333 * l);
        ASSERT_LT(from_p, 0.667 * l);
        if (a != b) { // a power of two away from the apex
          double r = std::log2(a ? from_p : std::hypot(m.x - q.x, m.y - q.y));
          ASSERT_NEAR(r, std::round(r), 1e-6);
        }
      }
  }
}

TEST(refine, borders_of_neighbours_agree_bit_for_bit) {
  // Two groups that share a random segment as their border: whatever either splits, the other can
  // follow.
  std::mt19937 random(17);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int k = 0; k < 200; ++k) {
    point a{uniform(random), uniform(random)}, b{20 + uniform(random), 10 * uniform(random)};
    point up{10, 25 + uniform(random)}, down{9, -20 + uniform(random)};
    domain sea;
    sea.low = {0, -20};
    sea.high = {21, 26};
    sea.boundary = {{a, down}, {down, b}, {b, up}, {up, a}};
    size_field sizes(sea, {0.3 + uniform(random), 0.3 + uniform(random) + 1, 0});
    auto one = static_cast<std::uint32_t>(k % 2), two = static_cast<std::uint32_t>(k / 2 % 2);
    group_definition first{0,           1,
                           100,         {{a, no_origin, one}, {b, no_origin, two}, {up, no_origin, 0}},
                           {{0, 1, 2}}, {{0, 1, 1, no_origin}, {1, 2, no_neighbour, 2}, {2, 0, no_neighbour, 3}},
                           {}};
    group_definition second{1,           1,
                            100,         {{b, no_origin, two}, {a, no_origin, one}, {down, no_origin, 0}},
                            {{0, 1, 2}}, {{0, 1, 0, no_origin}, {1, 2, no_neighbour, 0}, {2, 0, no_neighbour, 1}},
                            {}};
    decomposition cut;
    cut.groups = {first, second};
    result r = mesh_all(sea, sizes, cut);
    EXPECT_EQ(r.all.border_hash, 0U);
    EXPECT_TRUE(r.check.bad_edges == 0 && r.check.stray_edges == 0 && r.check.gaps == 0) << r.check.describe();
  }
}

TEST(refine, refuses_nonsense) {
  domain sea = make_sea(50, {});
  size_field sizes(sea, {2, 2, 0});
  decompose_options options;
  options.groups = 2;
  decomposition cut = decompose(sea, sizes, options);
  auto refused = [&](const group_definition& g) {
    try {
      group_mesh(g, sizes).refine();
    } catch (const tern::error& e) {
      return e.code() == tern::errc::invalid_data && e.message().find("group 0") != std::string::npos;
    }
    return false;
  };
  group_definition g = cut.groups[0];
  g.nodes[1].where.x = std::nan("");
  EXPECT_TRUE(refused(g));
  g = cut.groups[0];
  g.triangulation[0].a = 1000000;
  EXPECT_TRUE(refused(g));
  g = cut.groups[0];
  g.pieces.pop_back();
  EXPECT_TRUE(refused(g));
  g = cut.groups[0];
  std::swap(g.triangulation[0].a, g.triangulation[0].b);
  EXPECT_TRUE(refused(g));
  g = cut.groups[0];
  g.triangles = -1;
  EXPECT_TRUE(refused(g));

  group_mesh m(cut.groups[0], sizes);
  m.refine();
  EXPECT_THROW(m.refine(), tern::error);
  EXPECT_THROW(m.take_new_splits(7), tern::error);
  EXPECT_THROW(m.apply_splits({{{0, 0}, {1, 1}}}), tern::error);
}

TEST(refine, stops_at_its_cap_and_says_where) {
  domain sea = make_sea(50, {});
  size_field sizes(sea, {0.01, 0.01, 0}), pretended(sea, {5, 5, 0});
  decomposition cut = decompose(sea, pretended); // its estimate of the work is 250 000 times too small
  group_mesh m(cut.groups[0], sizes);
  try {
    m.refine();
    FAIL();
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), tern::errc::internal);
    EXPECT_NE(e.message().find("group 0: refinement did not end"), std::string::npos) << e.what();
    EXPECT_NE(e.message().find("shortest edge"), std::string::npos) << e.what();
  }
}

} // namespace
} // namespace mesh
