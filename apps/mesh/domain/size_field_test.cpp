// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/domain/size_field.hpp"

#include "apps/mesh/domain/domain.hpp"
#include <tern/base/error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#ifndef MESH_TEST_LAND
#error "define MESH_TEST_LAND as the path of data/land-50m.json"
#endif

namespace {

using mesh::size_field;

double brute(const mesh::domain& d, double x, double y) {
  double best = 1e30;
  for (std::size_t i = 0; i < d.coast; ++i) {
    const auto& s = d.boundary[i];
    double dx = s.b.x - s.a.x, dy = s.b.y - s.a.y;
    double t = std::clamp(((x - s.a.x) * dx + (y - s.a.y) * dy) / (dx * dx + dy * dy), 0.0, 1.0);
    best = std::min(best, std::hypot(x - s.a.x - t * dx, y - s.a.y - t * dy));
  }
  return best;
}

const mesh::domain& aegean() {
  static const mesh::domain d = mesh::make_domain(mesh::read_land(MESH_TEST_LAND), {});
  return d;
}

/// The least an archive can be: bytes, in order.
struct writer {
  std::vector<unsigned char> bytes;
  template <class... T> void operator()(T&... values) { (put(values), ...); }
  template <class T> void put(T& value) {
    const auto* from = reinterpret_cast<const unsigned char*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  }
  void put(mesh::sizing& value) { value.serialize(*this); }
  void put(std::vector<float>& values) {
    std::size_t size = values.size();
    put(size);
    for (float value : values) put(value);
  }
};

struct reader {
  const std::vector<unsigned char>& bytes;
  std::size_t at = 0;
  template <class... T> void operator()(T&... values) { (get(values), ...); }
  template <class T> void get(T& value) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
  }
  void get(mesh::sizing& value) { value.serialize(*this); }
  void get(std::vector<float>& values) {
    std::size_t size = 0;
    get(size);
    values.resize(size);
    for (float& value : values) get(value);
  }
};

TEST(size_field, agrees_with_brute_force) {
  size_field f(aegean(), {});
  EXPECT_DOUBLE_EQ(f.spacing(), 1.0);
  std::mt19937_64 random(1);
  std::size_t off = 0;
  constexpr std::size_t tries = 3000;
  for (std::size_t k = 0; k < tries; ++k) {
    auto i = static_cast<double>(random() % (f.columns() - 1)), j = static_cast<double>(random() % (f.rows() - 1));
    double x = aegean().low.x + i * f.spacing(), y = aegean().low.y + j * f.spacing();
    double truth = brute(aegean(), x, y), error = f.distance(x, y) - truth;
    EXPECT_GT(error, -1e-3);
    EXPECT_LT(error, 0.1); // sweeps may miss the nearest segment by a hair where many compete
    off += error > 1e-3;
    double u = static_cast<double>(random() % 1000) / 1000 * f.spacing();
    EXPECT_NEAR(f.distance(x + u, y + u), brute(aegean(), x + u, y + u), f.spacing());
  }
  EXPECT_LE(off, tries / 100);
}

TEST(size_field, sizes_follow_the_rule) {
  size_field f(aegean(), {0.5, 5, 0.05});
  for (double x = -700; x < 700; x += 37)
    for (double y = -500; y < 500; y += 41)
      EXPECT_DOUBLE_EQ(f.h(x, y), std::clamp(0.5 + 0.05 * f.distance(x, y), 0.5, 5.0));
}

TEST(size_field, outside_and_not_a_number_stay_in_the_grid) {
  size_field f(aegean(), {});
  EXPECT_EQ(f.h(-1e9, -1e9), f.h(aegean().low));
  EXPECT_TRUE(std::isfinite(f.h(1e300, 1e300)));
  EXPECT_TRUE(std::isfinite(f.h(NAN, NAN)));
}

TEST(size_field, without_coast_everything_is_coarse) {
  auto open = mesh::make_domain({{}, "test"}, {-40, 30, -39, 31});
  for (double grade : {0.0, 0.1}) {
    size_field f(open, {1, 7, grade});
    EXPECT_EQ(f.h(0, 0), 7);
    EXPECT_EQ(f.h(-40, 50), 7);
  }
  EXPECT_EQ(size_field().h(0, 0), 5);
}

TEST(size_field, spacing_is_bounded) {
  auto land = mesh::read_land(MESH_TEST_LAND);
  size_field world(mesh::make_domain(land, {-180, -89.9, 180, 89.9}), {});
  EXPECT_LE(static_cast<double>(world.columns()) * world.rows(), 17e6);
  size_field gulf(mesh::make_domain(land, {23.7, 37.5, 24.2, 38}), {});
  EXPECT_LT(gulf.spacing(), 0.05);
  EXPECT_DOUBLE_EQ(size_field(aegean(), {}, 4).spacing(), 4);
}

TEST(size_field, is_deterministic_and_travels) {
  writer one, two;
  size_field a(aegean(), {}), b(aegean(), {});
  a.serialize(one);
  b.serialize(two);
  EXPECT_GT(one.bytes.size(), 7000000U);
  EXPECT_TRUE(one.bytes == two.bytes);
  reader back{one.bytes};
  size_field c;
  c.serialize(back);
  EXPECT_EQ(back.at, one.bytes.size());
  for (double x = -700; x < 700; x += 37) EXPECT_EQ(c.h(x, 0.3 * x), a.h(x, 0.3 * x));
}

TEST(size_field, bad_arguments) {
  EXPECT_THROW(size_field(aegean(), {0, 1, 0}), tern::error);
  EXPECT_THROW(size_field(aegean(), {}, -1), tern::error);
  EXPECT_THROW(size_field(aegean(), {}, NAN), tern::error);
  EXPECT_THROW(size_field(mesh::domain{}, {}), tern::error);
}

} // namespace
