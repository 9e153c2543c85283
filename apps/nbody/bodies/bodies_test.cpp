// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/bodies/csv.hpp"
#include "apps/nbody/bodies/models.hpp"
#include "apps/nbody/bodies/morton.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <tern/base/error.hpp>

using namespace nbody;
using testing::HasSubstr;

namespace {

class text_file {
public:
  explicit text_file(const std::string& text) {
    static int number = 0;
    path = (std::filesystem::temp_directory_path() /
            ("nbody-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".csv"))
               .string();
    std::ofstream(path) << text;
  }
  ~text_file() { std::remove(path.c_str()); }
  text_file(const text_file&) = delete;
  text_file& operator=(const text_file&) = delete;
  std::string path;
};

std::string refusal(const std::string& text) {
  const text_file file(text);
  try {
    static_cast<void>(read_csv(file.path));
  } catch (const tern::error& e) {
    return e.message() + " / " + e.hint();
  }
  return "accepted";
}

struct energies {
  double kinetic = 0, potential = 0;
};
energies energies_of(const bodies& all) {
  energies e;
  for (std::size_t i = 0; i < all.size(); ++i) {
    e.kinetic += all.mass[i] * (all.vx[i] * all.vx[i] + all.vy[i] * all.vy[i] + all.vz[i] * all.vz[i]) / 2;
    for (std::size_t j = 0; j < i; ++j)
      e.potential -=
          all.mass[i] * all.mass[j] / std::hypot(all.x[i] - all.x[j], all.y[i] - all.y[j], all.z[i] - all.z[j]);
  }
  return e;
}

} // namespace

TEST(morton, visits_cells_one_after_the_other) {
  const cube unit;
  EXPECT_EQ(morton_key(unit, 0, 0, 0), 0u);
  EXPECT_EQ(morton_key(unit, 0.75, 0.1, 0.1) >> 60, 4u); // x stands first
  EXPECT_EQ(morton_key(unit, 0.1, 0.75, 0.1) >> 60, 2u);
  EXPECT_EQ(morton_key(unit, 0.1, 0.1, 0.75) >> 60, 1u);
  EXPECT_EQ(morton_key(unit, 5, 5, 5), (std::uint64_t{1} << 63) - 1);
  EXPECT_EQ(morton_key(unit, -5, -5, -5), 0u);
  EXPECT_EQ(morton_key(unit, std::nan(""), 0, 0), 0u);
  for (int bit = 0; bit < morton_levels; ++bit)
    EXPECT_EQ(spread_bits(std::uint64_t{1} << bit), std::uint64_t{1} << (3 * bit));
}

TEST(csv, bits_come_back) {
  bodies all = make({"collision", 50, 7}).all;
  const text_file file("");
  write_csv(file.path, all);
  const bodies again = read_csv(file.path);
  EXPECT_EQ(hash_of(again), hash_of(all));
  EXPECT_EQ(again.label, all.label);
}

TEST(csv, names_and_remarks_are_passed_over) {
  const text_file file("mass,x,y,z,vx,vy,vz\n# two of them\n1,0,0,0,0,0,0\r\n\n 2 , 1,2,3, 4,5,6, 9\n");
  const bodies all = read_csv(file.path);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.mass[1], 2);
  EXPECT_EQ(all.vz[1], 6);
  EXPECT_EQ(all.label[1], 9);
}

TEST(csv, says_which_line_is_wrong) {
  EXPECT_THAT(refusal("1,0,0,0,0,0,0\n1,0,0\n"), HasSubstr(".csv:2: it has 3 columns"));
  EXPECT_THAT(refusal("# a\n\n1,0,zero,0,0,0,0\n"), HasSubstr(".csv:3: 'zero' is no finite number"));
  EXPECT_THAT(refusal("1,0,nan,0,0,0,0\n"), HasSubstr(":1: 'nan' is no finite number"));
  EXPECT_THAT(refusal("1,0,1e999,0,0,0,0\n"), HasSubstr(":1: '1e999' is no finite number"));
  EXPECT_THAT(refusal("0,0,0,0,0,0,0\n"), HasSubstr(":1: the mass is 0, which is not positive"));
  EXPECT_THAT(refusal("1,0,0,0,0,0,0,300\n"), HasSubstr(":1: the label is 300"));
  EXPECT_THAT(refusal("1,0,0,0,0,0,0,1,1\n"), HasSubstr(":1: it has 9 columns"));
  EXPECT_THAT(refusal("1,0,0,0,0,0,\n"), HasSubstr(":1: '' is no finite number"));
  EXPECT_THAT(refusal("mass,x,y,z,vx,vy,vz\n"), HasSubstr("has no bodies / a line for each: mass,x,y,z,vx,vy,vz"));
}

TEST(csv, says_what_cannot_be_read) {
  EXPECT_THROW(static_cast<void>(read_csv("/nowhere/bodies.csv")), tern::error);
  EXPECT_THROW(static_cast<void>(read_csv("/tmp")), tern::error);
}

TEST(models, rest_at_their_centre_and_are_the_same_for_a_seed) {
  for (const char* name : {"collision", "spheres", "stream", "plummer", "cube", "two"}) {
    const bodies all = make({name, 999, 3}).all;
    EXPECT_EQ(all.size(), std::string(name) == "two" ? 2u : 999u) << name;
    double sum[7] = {};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double m = all.mass[i];
      const double terms[7] = {
          m, m * all.x[i], m * all.y[i], m * all.z[i], m * all.vx[i], m * all.vy[i], m * all.vz[i]};
      for (int k = 0; k < 7; ++k) sum[k] += terms[k];
      EXPECT_EQ(all.id[i], i) << name;
    }
    for (int k = 1; k < 7; ++k) EXPECT_NEAR(sum[k] / sum[0], 0, 1e-12) << name;
    EXPECT_EQ(hash_of(all), hash_of(make({name, 999, 3}).all)) << name;
    if (std::string(name) != "two") {
      EXPECT_NE(hash_of(all), hash_of(make({name, 999, 4}).all)) << name;
    }
  }
}

TEST(models, a_plummer_sphere_is_in_equilibrium) {
  const energies e = energies_of(make({"plummer", 4000, 1}).all);
  EXPECT_NEAR(e.kinetic + e.potential, -0.25, 0.02); // standard units
  EXPECT_NEAR(-2 * e.kinetic / e.potential, 1, 0.05);
}

TEST(models, two_bodies_have_the_energy_of_their_ellipse) {
  const energies e = energies_of(make({"two", 2, 1}).all);
  EXPECT_NEAR(e.kinetic + e.potential, -0.5 * 0.5 / 2, 1e-14); // -m1 m2 / 2 a
}

TEST(models, what_there_is_not_is_refused) {
  EXPECT_THROW(static_cast<void>(make({"spiral", 10, 1})), tern::error);
  EXPECT_THROW(static_cast<void>(make({"cube", 0, 1})), tern::error);
}
