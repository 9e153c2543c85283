// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/refine/decompose.hpp"

#include "apps/mesh/domain/domain.hpp"
#include "apps/mesh/domain/input.hpp"
#include "apps/mesh/refine/check_mesh.hpp"
#include "apps/mesh/refine/refine.hpp"
#include "apps/mesh/refine/sequential.hpp"

#include <tern/base/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#ifndef MESH_TEST_LAND
#error "define MESH_TEST_LAND as the path of data/land-50m.json"
#endif

namespace mesh {
namespace {

domain square(double side) {
  domain sea;
  sea.low = {0, 0};
  sea.high = {side, side};
  sea.boundary = {{{0, 0}, {side, 0}}, {{side, 0}, {side, side}}, {{side, side}, {0, side}}, {{0, side}, {0, 0}}};
  sea.area = side * side;
  return sea;
}

const domain& aegean() {
  static const domain sea = make_domain(read_land(MESH_TEST_LAND), bounding_box{});
  return sea;
}

/// What must hold of any decomposition: groups tile the sea, and neighbours see the same border.
void expect_consistent(const domain& sea, const decomposition& d) {
  double area = 0;
  std::size_t triangles = 0;
  std::map<std::tuple<point, point>, std::vector<std::uint32_t>> owners;
  std::map<point, std::uint32_t> apexes;
  for (std::size_t k = 0; k < d.groups.size(); ++k) {
    const group_definition& g = d.groups[k];
    EXPECT_EQ(g.id, k);
    EXPECT_FALSE(g.triangulation.empty());
    triangles += g.triangulation.size();
    for (const coarse_triangle& t : g.triangulation) {
      const point &a = g.nodes.at(t.a).where, &b = g.nodes.at(t.b).where, &c = g.nodes.at(t.c).where;
      double twice = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
      EXPECT_GT(twice, 0);
      area += twice / 2;
    }
    for (const coarse_node& n : g.nodes) EXPECT_EQ(apexes.try_emplace(n.where, n.apex).first->second, n.apex);
    for (const coarse_piece& p : g.pieces) {
      point a = g.nodes.at(p.a).where, b = g.nodes.at(p.b).where;
      EXPECT_NE(p.neighbour, g.id);
      EXPECT_EQ(p.neighbour == no_neighbour, p.origin != no_origin);
      if (p.neighbour == no_neighbour) continue;
      ASSERT_LT(p.neighbour, d.groups.size());
      auto& o = owners[std::minmax(a, b)];
      o.push_back(g.id);
      o.push_back(p.neighbour);
    }
  }
  for (auto& [ends, o] : owners) {
    ASSERT_EQ(o.size(), 4U);
    EXPECT_TRUE(o[0] == o[3] && o[1] == o[2]);
  }
  EXPECT_EQ(triangles, d.coarse_triangles);
  EXPECT_NEAR(area, sea.area, 1e-9 * sea.area);
}

TEST(decompose, the_default_region) {
  size_field sizes(aegean(), {});
  decomposition d = decompose(aegean(), sizes);
  expect_consistent(aegean(), d);
  EXPECT_GE(d.groups.size(), 50U);
  EXPECT_LE(d.groups.size(), 70U);
  EXPECT_EQ(d.joints.size(), 1U); // 8.961 degrees
  EXPECT_NEAR(d.joints.at(0).degrees, 8.961, 0.001);
  double mean = d.triangles / static_cast<double>(d.groups.size());
  for (const group_definition& g : d.groups) {
    EXPECT_LT(g.work, 1.2 * mean);
    EXPECT_GT(g.work, 0.8 * mean);
  }
}

TEST(decompose, equal_areas_are_unequal_work) {
  size_field sizes(aegean(), {});
  decompose_options options;
  options.work = estimate::area;
  decomposition d = decompose(aegean(), sizes, options);
  expect_consistent(aegean(), d);
  EXPECT_NEAR(d.work, aegean().area, 1e-9 * d.work);
  double mean = d.work / static_cast<double>(d.groups.size()), most = 0;
  for (const group_definition& g : d.groups) {
    EXPECT_NEAR(g.work, mean, 0.2 * mean);
    most = std::max(most, g.triangles);
  }
  EXPECT_GT(most, 1.5 * d.triangles / static_cast<double>(d.groups.size()));
}

TEST(decompose, no_group_has_a_sharp_corner_of_our_making) {
  size_field sizes(aegean(), {1, 20, 0.1});
  decompose_options options;
  options.groups = 300;
  decomposition d = decompose(aegean(), sizes, options);
  for (const group_definition& g : d.groups) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> outline;
    for (const coarse_piece& p : g.pieces) outline.insert({p.a, p.b});
    for (const coarse_triangle& t : g.triangulation) {
      std::uint32_t v[3] = {t.a, t.b, t.c};
      for (int i = 0; i < 3; ++i) {
        std::uint32_t a = v[i], b = v[(i + 1) % 3], c = v[(i + 2) % 3];
        if (!outline.contains({a, b}) || !outline.contains({c, a})) continue;
        point p = g.nodes[a].where, q = g.nodes[b].where, r = g.nodes[c].where;
        double angle = std::atan2((q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x),
                                  (q.x - p.x) * (r.x - p.x) + (q.y - p.y) * (r.y - p.y)) *
                       57.29577951308232;
        bool input = std::any_of(d.joints.begin(), d.joints.end(), [&](const sharp_joint& j) { return j.where == p; });
        EXPECT_TRUE(input || angle >= 20.7) << angle;
        EXPECT_TRUE(angle >= 60 || g.nodes[a].apex == 1) << angle;
      }
    }
  }
}

TEST(decompose, makes_as_many_groups_as_asked_for) {
  domain sea = square(40);
  size_field sizes(sea, {2, 2, 0});
  for (std::size_t n : {1, 2, 3, 10, 64}) {
    decompose_options options;
    options.groups = n;
    decomposition d = decompose(sea, sizes, options);
    EXPECT_EQ(d.groups.size(), n);
    expect_consistent(sea, d);
    options.groups = 0;
    options.at_least = n;
    EXPECT_GE(decompose(sea, sizes, options).groups.size(), n);
  }
  decompose_options options;
  options.groups = 100000;
  EXPECT_THROW(decompose(sea, sizes, options), tern::error);
}

TEST(decompose, refuses_what_is_no_outline) {
  auto code = [](const domain& sea) {
    size_field sizes(square(10), {1, 1, 0});
    try {
      decompose(sea, sizes);
    } catch (const tern::error& e) {
      return e.code();
    }
    return tern::errc::internal;
  };
  domain open = square(10);
  open.boundary.pop_back();
  EXPECT_EQ(code(open), tern::errc::invalid_data);
  domain crossing = square(10);
  crossing.boundary.push_back({{-1, 5}, {5, 12}});
  EXPECT_EQ(code(crossing), tern::errc::invalid_data);
  domain nan = square(10);
  nan.boundary[1].a.x = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(code(nan), tern::errc::invalid_data);
  domain infinite = square(10);
  infinite.boundary[1].a.x = std::numeric_limits<double>::infinity();
  EXPECT_EQ(code(infinite), tern::errc::invalid_data);
  EXPECT_EQ(code(domain{}), tern::errc::invalid_argument);
}

TEST(decompose, the_default_region_meshes_and_conforms) {
  size_field sizes(aegean(), {2, 20, 0.1});
  decompose_options options;
  options.groups = 40;
  decomposition d = decompose(aegean(), sizes, options);
  std::vector<group_mesh> groups;
  for (const group_definition& g : d.groups) {
    groups.emplace_back(g, sizes);
    groups.back().refine();
  }
  int rounds = 0;
  for (bool more = true; more && rounds < 50; ++rounds) {
    std::vector<std::vector<split>> inbox(groups.size());
    for (group_mesh& g : groups)
      for (std::uint32_t n : g.neighbours())
        for (const split& s : g.take_new_splits(n)) inbox[n].push_back(s);
    more = false;
    for (std::size_t k = 0; k < groups.size(); ++k)
      if (groups[k].apply_splits(inbox[k]) > 0) more = true;
  }
  EXPECT_LT(rounds, 10);
  group_statistics all;
  std::vector<extracted> parts;
  for (const group_mesh& g : groups) {
    all += g.statistics();
    parts.push_back(g.extract());
  }
  mesh_check check = check_mesh(aegean(), parts);
  EXPECT_TRUE(check.conforms()) << check.describe();
  EXPECT_EQ(all.below_20_artificial, 0U);
  EXPECT_GE(all.smallest_free_angle, 20);
  EXPECT_NEAR(all.triangles, d.triangles, 0.25 * d.triangles);
  for (const small_angle& a : all.places) EXPECT_LT(std::hypot(a.where.x - 147.2, a.where.y - 594.9), 5); // one bay

  sequential_result rival = run_cgal(aegean(), sizes);
  EXPECT_NEAR(rival.area, aegean().area, 1e-9 * aegean().area);
  EXPECT_NEAR(static_cast<double>(rival.triangles), static_cast<double>(all.triangles), 0.1 * all.triangles);
}

TEST(check_mesh, sees_what_is_wrong) {
  domain sea = square(10);
  extracted good{0, {{0, 0}, {10, 0}, {10, 10}, {0, 10}}, {{0, 1, 2}, {0, 2, 3}}};
  EXPECT_TRUE(check_mesh(sea, {good}).conforms());
  extracted split{0, {{0, 0}, {10, 0}, {10, 10}, {5, 5}}, {{0, 1, 3}, {1, 2, 3}}}; // hangs at (5, 5)
  extracted rest{1, {{0, 0}, {10, 10}, {0, 10}}, {{0, 1, 2}}};
  mesh_check hanging = check_mesh(sea, {split, rest});
  EXPECT_FALSE(hanging.conforms());
  EXPECT_EQ(hanging.stray_edges, 3U);
  EXPECT_EQ(hanging.bad_edges, 0U);
  extracted missing = good;
  missing.triangles.pop_back();
  EXPECT_EQ(check_mesh(sea, {missing}).gaps, 2U);
  extracted flipped = good;
  std::swap(flipped.triangles[0][0], flipped.triangles[0][1]);
  EXPECT_EQ(check_mesh(sea, {flipped}).flipped, 1U);
  EXPECT_GT(check_mesh(sea, {good, good}).bad_edges, 0U);
  extracted off = good;
  off.points[1].x = std::nextafter(10.0, 0.0);
  extracted other{1, {{0, 0}, {10, 10}, {0, 10}}, {{0, 1, 2}}};
  off.triangles.pop_back();
  EXPECT_TRUE(check_mesh(sea, {off, other}).conforms());
  off.points[0].x = 1e-15; // one unit in the last place on a shared edge is enough
  EXPECT_FALSE(check_mesh(sea, {off, other}).conforms());
  EXPECT_NE(check_mesh(sea, {off, other}).describe().find("does not conform"), std::string::npos);
}

} // namespace
} // namespace mesh
