// SPDX-License-Identifier: GPL-3.0-or-later
/// \file
/// Many sizings and coasts, each meshed by two ranks and checked as a whole. A few run in every
/// check, all of them with `ctest -L long`.
#include "apps/common/app_program.hpp"

#include <cstdio>
#include <ostream>

#include <gtest/gtest.h>

using namespace app_test;

namespace {

struct region {
  const char* name;
  const char* box; ///< empty: the default
  double h_min, h_max, grade;
  bool verify = true; ///< needs 150 bytes a triangle: not for the largest
  friend std::ostream& operator<<(std::ostream& out, const region& r) {
    return out << r.h_min << " to " << r.h_max << " km, grade " << r.grade << " " << r.box;
  }
};

// The default region: h_min 0.2 to 5 km, h_max up to 50 h_min, grade 0.02 to 0.3.
constexpr region sizings[] = {
    {"a", "", 0.2, 10, 0.02},   {"b", "", 0.2, 2, 0.05},  {"c", "", 0.2, 10, 0.1},  {"d", "", 0.2, 5, 0.3},
    {"e", "", 0.25, 2.5, 0.2},  {"f", "", 0.3, 15, 0.03}, {"g", "", 0.3, 3, 0.1},   {"h", "", 0.4, 20, 0.3},
    {"i", "", 0.4, 2, 0.05},    {"j", "", 0.5, 5, 0.05},  {"k", "", 0.5, 25, 0.02}, {"l", "", 0.8, 0.8, 0.1},
    {"m", "", 0.75, 7.5, 0.15}, {"n", "", 1, 50, 0.3},    {"o", "", 1, 10, 0.02},   {"p", "", 1.5, 15, 0.1},
    {"q", "", 2, 100, 0.25},    {"r", "", 2.5, 5, 0.05},  {"s", "", 3, 150, 0.3},   {"t", "", 5, 250, 0.02},
};
constexpr region coasts[] = {
    {"norway", "4,57.5,13,63", 0.5, 5, 0.05},  {"british_isles", "-11,49.5,2.5,59", 0.5, 5, 0.05},
    {"japan", "128,30,146,46", 1, 10, 0.05},   {"chile", "-77,-56,-64,-40", 0.5, 10, 0.05},
    {"indonesia", "95,-11,141,7", 1, 25, 0.1},
};
// What every check runs: coarse enough for a second each.
constexpr region quick_ones[] = {
    {"uniform", "", 2.5, 2.5, 0.1},
    {"steep", "", 1, 50, 0.3},
    {"gentle", "", 2, 10, 0.02},
    {"coarse", "", 5, 250, 0.3},
    {"norway", "4,57.5,13,63", 1, 10, 0.1},
    {"chile", "-77,-56,-64,-40", 1.5, 30, 0.2},
};

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

void expect_sound(const region& r, double seconds) {
  const temporary folder;
  strings arguments{"--hmin",      text(r.h_min), "--hmax", text(r.h_max),    "--grade",
                    text(r.grade), "--quiet",     "--json", folder / "s.json"};
  if (*r.box) arguments.push_back(std::string("--bbox=") + r.box);
  if (r.verify) arguments.push_back("--verify");
  const auto done = run(job("inproc", 2, arguments), seconds);
  ASSERT_EQ(done.code, 0) << done.err << done.out;
  const auto j = read_json(folder / "s.json");
  ASSERT_TRUE(j.is_object());
  EXPECT_TRUE(j.at("conforming").get<bool>()) << done.out;
  EXPECT_EQ(j.at("below_20").at("artificial").get<int>(), 0) << done.out;
  EXPECT_LE(j.at("area_relative_error").get<double>(), 1e-9);
  if (r.verify) {
    EXPECT_TRUE(has(done.out, "verified: conforms\n")) << done.out;
  }
  std::printf("%s: %lld triangles, %.1f s meshing, smallest angle %.2f, below 20 from the input: %d, rounds %d\n",
              r.name, j.at("triangles").get<long long>(), j.at("seconds").at("meshing").get<double>(),
              j.at("smallest_angle").get<double>(), j.at("below_20").at("input").get<int>(),
              j.at("exchange_rounds").get<int>());
}

std::string name_of(const testing::TestParamInfo<region>& info) {
  return std::string(info.param.name) + "_" + std::to_string(info.index);
}

} // namespace

class quick : public testing::TestWithParam<region> {};
TEST_P(quick, conforms) { expect_sound(GetParam(), 25); }
INSTANTIATE_TEST_SUITE_P(robust, quick, testing::ValuesIn(quick_ones), name_of);

class long_one : public testing::TestWithParam<region> {};
TEST_P(long_one, conforms) { expect_sound(GetParam(), 200); }
INSTANTIATE_TEST_SUITE_P(sizing, long_one, testing::ValuesIn(sizings), name_of);
INSTANTIATE_TEST_SUITE_P(coast, long_one, testing::ValuesIn(coasts), name_of);
