// SPDX-License-Identifier: Apache-2.0
// Times of sizes that were never measured.
#include <tern/hetero/models/estimate/size_fit.hpp>

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

using size_points = std::vector<size_point>;

size_points power_law(double exponent, std::initializer_list<double> sizes) {
  size_points all;
  for (const double s : sizes) all.push_back({s, 3 * std::pow(s, exponent)});
  return all;
}

TEST(size_fit, finds_a_power_law) {
  for (const double exponent : {0.0, 0.5, 1.0, 1.5, 3.0}) {
    const auto f = size_fit::through(power_law(exponent, {1e6, 2e6, 4e6}));
    ASSERT_TRUE(f) << exponent;
    EXPECT_NEAR(f->exponent(), exponent, 1e-9);
    EXPECT_NEAR(f->at(3e6).value() / (3 * std::pow(3e6, exponent)), 1, 1e-9);
    EXPECT_NEAR(f->at(16e6).value() / (3 * std::pow(16e6, exponent)), 1, 1e-9) << "four times beyond";
  }
}

TEST(size_fit, needs_three_sizes_a_factor_of_four_apart) {
  EXPECT_FALSE(size_fit::through({}));
  EXPECT_FALSE(size_fit::through(power_law(1, {1e6, 4e6})));
  EXPECT_FALSE(size_fit::through(power_law(1, {1e6, 4e6, 4e6, 1e6}))) << "two sizes, each of two shapes";
  EXPECT_FALSE(size_fit::through(power_law(1, {1e6, 2e6, 3.9e6})));
  EXPECT_TRUE(size_fit::through(power_law(1, {1e6, 2e6, 4e6})));
  EXPECT_FALSE(size_fit::through(size_points{{1e6, 1}, {0, 1}, {4e6, 1}, {-1, 1}, {2e6, 0}}))
      << "what is no size or time";
}

TEST(size_fit, ends_a_factor_of_four_beyond) {
  const auto f = size_fit::through(power_law(1, {1e6, 2e6, 4e6}));
  ASSERT_TRUE(f);
  EXPECT_TRUE(f->at(0.25e6));
  EXPECT_FALSE(f->at(0.24e6));
  EXPECT_TRUE(f->at(16e6));
  EXPECT_FALSE(f->at(16.1e6));
  EXPECT_FALSE(f->at(0));
  EXPECT_FALSE(f->at(std::nan("")));
}

TEST(size_fit, its_exponent_is_a_plausible_one) {
  EXPECT_EQ(size_fit::through(power_law(-1, {1e6, 2e6, 4e6}))->exponent(), 0);
  EXPECT_EQ(size_fit::through(power_law(7, {1e6, 2e6, 4e6}))->exponent(), 3);
}

TEST(size_fit, a_quarter_of_wrong_points_does_little) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.03);
  size_points all;
  for (int i = 0; i < 16; ++i) {
    const double s = 1e5 * std::pow(2, i * 0.5);
    all.push_back({s, 5 * std::pow(s, 1.5) * (1 + noise(random)) * (i % 4 == 1 ? 40 : 1)});
  }
  const auto f = size_fit::through(all);
  ASSERT_TRUE(f);
  EXPECT_NEAR(f->exponent(), 1.5, 0.15);
  EXPECT_NEAR(f->at(7e5).value() / (5 * std::pow(7e5, 1.5)), 1, 0.3);
}

TEST(size_fit, many_points_are_thinned) {
  size_points all;
  for (int i = 1; i <= 5000; ++i) all.push_back({1e3 * i, 2e3 * i});
  const auto f = size_fit::through(all);
  ASSERT_TRUE(f);
  EXPECT_NEAR(f->at(5e6 * 4).value(), 1e7 * 4, 1) << "the largest is still there";
  EXPECT_NEAR(f->at(1e3 / 4).value(), 2e3 / 4, 1e-3) << "and the smallest";
}

} // namespace
} // namespace tern::hetero::detail
