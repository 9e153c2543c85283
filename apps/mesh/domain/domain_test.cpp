// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/domain/domain.hpp"

#include "apps/mesh/geometry/predicates.hpp"
#include <tern/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#ifndef MESH_TEST_LAND
#error "define MESH_TEST_LAND as the path of data/land-50m.json"
#endif

namespace {

using mesh::bounding_box;
using mesh::domain;
using mesh::land_polygons;
using mesh::make_domain;
using mesh::point;
using mesh::segment;
using tern::errc;
using testing::HasSubstr;

using ring = std::vector<std::array<double, 2>>;
const bounding_box box{0, 0, 10, 10};

/// West, south, east, north, counterclockwise.
ring rectangle(double w, double s, double e, double n) { return {{w, s}, {e, s}, {e, n}, {w, n}}; }
ring reversed(ring r) {
  std::reverse(r.begin(), r.end());
  return r;
}
domain of(std::vector<ring> rings, const bounding_box& in = box) { return make_domain({std::move(rings), "test"}, in); }

tern::error error_of(std::vector<ring> rings, const bounding_box& in = box) {
  try {
    of(std::move(rings), in);
  } catch (const tern::error& e) {
    EXPECT_FALSE(e.hint().empty());
    return e;
  }
  ADD_FAILURE() << "no error";
  return tern::error(errc::internal, "none");
}

/// The share of the box that is sea, for rings given in degrees of `box` (the projection keeps
/// shares).
double share(const domain& d) { return d.area / ((d.high.x - d.low.x) * (d.high.y - d.low.y)); }

/// What every domain promises; and its area again, by trapezoids under the boundary cut at each x.
void expect_sound(const domain& d) {
  std::map<point, int> degree;
  std::set<std::pair<point, point>> seen;
  ASSERT_LE(d.coast, d.boundary.size());
  for (std::size_t i = 0; i < d.boundary.size(); ++i) {
    const segment& s = d.boundary[i];
    EXPECT_NE(s.a, s.b);
    EXPECT_TRUE(seen.insert(std::minmax(s.a, s.b)).second);
    for (const point& p : {s.a, s.b}) {
      ++degree[p];
      EXPECT_TRUE(std::isfinite(p.x) && std::isfinite(p.y));
      EXPECT_TRUE(p.x >= d.low.x && p.x <= d.high.x && p.y >= d.low.y && p.y <= d.high.y);
    }
    bool on_box = (s.a.x == s.b.x && (s.a.x == d.low.x || s.a.x == d.high.x)) ||
                  (s.a.y == s.b.y && (s.a.y == d.low.y || s.a.y == d.high.y));
    EXPECT_EQ(on_box, i >= d.coast);
  }
  for (const auto& [p, n] : degree) EXPECT_EQ(n % 2, 0) << p.x << " " << p.y;
  mesh::crossing found;
  EXPECT_FALSE(mesh::find_crossing(d.boundary, found));
  EXPECT_GT(d.area, 0);
}

TEST(orient2d, is_exact) {
  EXPECT_GT(mesh::orient2d({0, 0}, {1, 0}, {0, 1}), 0);
  EXPECT_LT(mesh::orient2d({0, 0}, {0, 1}, {1, 0}), 0);
  EXPECT_EQ(mesh::orient2d({0.1, 0.1}, {0.2, 0.2}, {0.3, 0.3}), 0);
  EXPECT_EQ(mesh::orient2d({12, 12}, {24, 24}, {0.5, 0.5}), 0);
  // A point one unit in the last place off the diagonal: naive arithmetic calls it collinear or
  // worse.
  double x = 0.5;
  for (int k = 0; k < 200; ++k, x = std::nextafter(x, 1.0)) {
    EXPECT_EQ(mesh::orient2d({x, x}, {12, 12}, {24, 24}), 0);
    EXPECT_GT(mesh::orient2d({12, 12}, {24, 24}, {x, std::nextafter(x, 1.0)}), 0);
    EXPECT_LT(mesh::orient2d({12, 12}, {24, 24}, {std::nextafter(x, 1.0), x}), 0);
  }
}

TEST(find_crossing, knows_touching_from_crossing) {
  mesh::crossing found;
  auto crosses = [&](segment s, segment t) { return mesh::find_crossing({s, t}, found); };
  EXPECT_TRUE(crosses({{0, 0}, {2, 2}}, {{0, 2}, {2, 0}}));
  EXPECT_EQ(found.where, (point{1, 1}));
  EXPECT_FALSE(crosses({{0, 0}, {2, 2}}, {{2, 2}, {4, 0}}));
  EXPECT_TRUE(crosses({{0, 0}, {2, 0}}, {{1, 0}, {1, 5}})) << "a T";
  EXPECT_TRUE(crosses({{0, 0}, {2, 0}}, {{0, 0}, {1, 0}})) << "an overlap from a common end";
  EXPECT_TRUE(crosses({{0, 0}, {2, 0}}, {{1, 0}, {3, 0}})) << "an overlap";
  EXPECT_FALSE(crosses({{0, 0}, {2, 0}}, {{2, 0}, {3, 0}}));
  EXPECT_FALSE(crosses({{0, 0}, {2, 0}}, {{3, 0}, {4, 0}}));
  EXPECT_TRUE(crosses({{0, 0}, {2, 0}}, {{2, 0}, {0, 0}})) << "twice the same";
  EXPECT_FALSE(crosses({{0, 0}, {2, 2}}, {{0, 1e-300}, {2, 2.0000001}}));
}

TEST(find_crossing, finds_the_one_among_many) {
  std::vector<segment> comb;
  for (int i = 0; i < 3000; ++i) comb.push_back({{i * 0.5, 0}, {i * 0.5 + 0.1, 700.0 + i % 7}});
  mesh::crossing found;
  EXPECT_FALSE(mesh::find_crossing(comb, found));
  comb.push_back({{777.2, 350}, {777.7, 350.5}});
  ASSERT_TRUE(mesh::find_crossing(comb, found));
  EXPECT_EQ(found.second, 3000U);
  EXPECT_EQ(found.first, 1555U);
}

TEST(domain, known_shapes) {
  struct {
    const char* name;
    std::vector<ring> rings;
    double sea;
    std::size_t coast, edges;
  } const cases[] = {
      {"open sea", {}, 1, 0, 4},
      {"far land", {rectangle(20, 20, 30, 30)}, 1, 0, 4},
      {"an island", {rectangle(2, 2, 4, 4)}, 0.96, 4, 4},
      {"an island, the other way round", {reversed(rectangle(2, 2, 4, 4))}, 0.96, 4, 4},
      {"a lake's island", {rectangle(1, 1, 9, 9), reversed(rectangle(2, 2, 8, 8)), rectangle(4, 4, 6, 6)}, 0.68, 12, 4},
      {"nested, all as outer rings",
       {rectangle(1, 1, 9, 9), rectangle(2, 2, 8, 8), rectangle(4, 4, 6, 6)},
       0.68,
       12,
       4},
      {"land over the west", {rectangle(-5, -5, 5, 15)}, 0.5, 1, 3},
      {"land along the box's west line", {rectangle(-5, -5, 0, 15)}, 1, 0, 4},
      {"a lake in land around the box", {rectangle(-5, -5, 15, 15), reversed(rectangle(2, 2, 4, 4))}, 0.04, 4, 0},
      {"a lake that fills the box", {rectangle(-5, -5, 15, 15), reversed(rectangle(-1, -1, 11, 11))}, 1, 0, 4},
      {"a lake that is the box", {rectangle(-5, -5, 15, 15), reversed(rectangle(0, 0, 10, 10))}, 1, 0, 4},
      {"inside, along the west line", {rectangle(0, 2, 5, 4)}, 0.9, 3, 5},
      {"a corner", {rectangle(-1, -1, 5, 5)}, 0.75, 2, 4},
      {"touching the west line with a point", {{{0, 5}, {2, 4}, {2, 6}}}, 0.98, 3, 5},
      {"outside, touching with a point", {{{0, 5}, {-2, 6}, {-2, 4}}}, 1, 0, 4},
      {"two countries", {rectangle(2, 2, 4, 4), rectangle(4, 2, 6, 4)}, 0.92, 6, 4},
      {"a country in a country",
       {rectangle(1, 1, 9, 9), reversed(rectangle(2, 2, 8, 8)), rectangle(2, 2, 8, 8)},
       0.36,
       4,
       4},
      {"countries over the box's line", {rectangle(-5, 2, 5, 4), rectangle(-5, 4, 5, 6)}, 0.8, 4, 5},
      {"two that touch in a point", {rectangle(2, 2, 4, 4), rectangle(4, 4, 6, 6)}, 0.92, 8, 4},
      {"a spike", {{{2, 2}, {4, 2}, {4, 4}, {4, 6}, {4, 4}, {2, 4}}}, 0.96, 4, 4},
      {"through a corner", {{{-2, 2}, {2, -2}, {-2, -2}}}, 1, 0, 4},
      {"a strip across", {rectangle(-5, 4, 15, 6)}, 0.8, 2, 6},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    domain d;
    ASSERT_NO_THROW(d = of(c.rings)) << c.name;
    expect_sound(d);
    EXPECT_NEAR(share(d), c.sea, 1e-12);
    EXPECT_EQ(d.coast, c.coast);
    EXPECT_EQ(d.boundary.size() - d.coast, c.edges);
  }
}

TEST(domain, both_directions_cut_at_the_same_double) {
  ring wedge = {{-3.7, 1.1}, {5.3, 2.9}, {-2.9, 7.7}};
  auto ends = [](const domain& d) {
    std::set<point> result;
    for (const auto& s : d.boundary) result.insert({s.a, s.b});
    return result;
  };
  EXPECT_EQ(ends(of({wedge})), ends(of({reversed(wedge)})));
}

TEST(domain, tiny_box) {
  auto d = of({rectangle(0, 0, 5, 5)}, {4.9999, 4.9999, 5.0001, 5.0001});
  expect_sound(d);
  EXPECT_NEAR(share(d), 0.75, 1e-6);
}

TEST(domain, no_sea) {
  auto e = error_of({rectangle(-5, -5, 15, 15)});
  EXPECT_EQ(e.code(), errc::invalid_argument);
  EXPECT_THAT(e.message(), HasSubstr("no sea in the box"));
  EXPECT_EQ(error_of({rectangle(0, 0, 10, 10)}).code(), errc::invalid_argument);
  EXPECT_EQ(error_of({rectangle(-5, -5, 5, 15), rectangle(5, -5, 15, 15)}).code(), errc::invalid_argument);
}

TEST(domain, crossing_polygons_are_named) {
  auto bow_tie = error_of({{{2, 2}, {6, 6}, {6, 2}, {2, 6}}});
  EXPECT_EQ(bow_tie.code(), errc::invalid_data);
  EXPECT_THAT(bow_tie.message(), HasSubstr("(4.0000, 4.0000)"));
  EXPECT_THAT(bow_tie.message(), HasSubstr("(2.0000, 2.0000) to (6.0000, 6.0000)"));
  EXPECT_THAT(bow_tie.hint(), HasSubstr("ogr2ogr -makevalid"));
  EXPECT_THAT(error_of({rectangle(2, 2, 5, 5), rectangle(4, 4, 7, 7)}).message(), HasSubstr("cross"));
  EXPECT_THAT(error_of({rectangle(2, 2, 4, 6), {{4, 3}, {6, 4}, {4, 5}}}).message(), HasSubstr("(4.0000, 3.0000)"))
      << "a T";
  EXPECT_THAT(error_of({rectangle(2, 2, 4, 4), rectangle(2, 2, 4, 4)}).message(), HasSubstr("cover the same land"));
}

TEST(domain, bad_boxes) {
  for (const bounding_box& bad : {bounding_box{10, 0, 5, 5},
                                  {0, 5, 5, 5},
                                  {-181, 0, 5, 5},
                                  {0, -90, 5, 5},
                                  {0, 0, 190, 5},
                                  {NAN, 0, 5, 5},
                                  {0, 0, 1e-6, 5}}) {
    auto e = error_of({}, bad);
    EXPECT_EQ(e.code(), errc::invalid_argument);
    EXPECT_THAT(e.hint(), HasSubstr("--bbox"));
  }
}

TEST(projection, there_and_back) {
  mesh::projection p(bounding_box{});
  point d = p.to_degrees(p.to_km(25.25, 36.5));
  EXPECT_NEAR(d.x, 25.25, 1e-12);
  EXPECT_NEAR(d.y, 36.5, 1e-12);
  EXPECT_NEAR(p.to_km(36.8, 41.2).x - p.to_km(19, 41.2).x, 1604.3052803713992, 1e-9);
}

TEST(sizing, bad_values_name_the_option) {
  auto hint = [](mesh::sizing s) -> std::string {
    try {
      s.check();
    } catch (const tern::error& e) {
      return e.hint();
    }
    return "none";
  };
  EXPECT_EQ(hint({}), "none");
  EXPECT_THAT(hint({0, 5, 0.1}), HasSubstr("--hmin"));
  EXPECT_THAT(hint({NAN, 5, 0.1}), HasSubstr("--hmin"));
  EXPECT_THAT(hint({2, 1, 0.1}), HasSubstr("--hmax"));
  EXPECT_THAT(hint({2, INFINITY, 0.1}), HasSubstr("--hmax"));
  EXPECT_THAT(hint({1, 2, -0.1}), HasSubstr("--grade"));
}

TEST(coasts, default_region) {
  auto d = make_domain(mesh::read_land(MESH_TEST_LAND), {});
  expect_sound(d);
  EXPECT_NEAR(d.area, 1028529.239500091, 1e-6 * d.area);
  EXPECT_EQ(d.coast, 1218U);
}

TEST(coasts, elsewhere) {
  const auto land = mesh::read_land(MESH_TEST_LAND);
  struct {
    const char* name;
    bounding_box box;
  } const places[] = {{"southern Norway", {4, 57.5, 13, 63}}, {"British Isles", {-11, 49.5, 2.5, 59}},
                      {"Japan", {128, 30, 146, 46}},          {"southern Chile", {-77, -56, -64, -40}},
                      {"Indonesia", {95, -11, 141, 7}},       {"Antarctic peninsula", {-75, -70, -55, -60}},
                      {"Fiji, east", {-180, -20, -179, -15}}, {"Fiji, west", {179, -20, 180, -15}},
                      {"Chukotka", {178, 62, 180, 73}},       {"the world", {-180, -89.9, 180, 89.9}}};
  for (const auto& p : places) {
    SCOPED_TRACE(p.name);
    domain d;
    ASSERT_NO_THROW(d = make_domain(land, p.box)) << p.name;
    expect_sound(d);
  }
  EXPECT_THROW(make_domain(land, {10, 20, 20, 25}), tern::error) << "the Sahara";
}

} // namespace
