// SPDX-License-Identifier: Apache-2.0
// Latency and bandwidth out of noisy copies.
#include <tern/hetero/models/estimate/link_model.hpp>

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

constexpr double true_latency = 10'000, true_per_byte = 1e9 / 16e9; // 10 us, 16 GB/s

double copy_time(std::uint64_t bytes) { return true_latency + true_per_byte * static_cast<double>(bytes); }

TEST(link_model, finds_latency_and_bandwidth_in_noise) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(1, 0.05);
    std::uniform_real_distribution<double> any;
    link_model m;
    for (int k = 8; k <= 28; k += 2)
      for (int i = 0; i < 12; ++i) {
        const auto bytes = static_cast<std::uint64_t>(std::ldexp(1 + any(random), k));
        m.add(bytes, copy_time(bytes) * std::max(0.5, noise(random)) * (any(random) < 0.02 ? 100 : 1));
      }
    const auto l = m.line();
    ASSERT_TRUE(l);
    EXPECT_NEAR(l->latency / true_latency, 1, 0.15) << seed;
    EXPECT_NEAR(l->per_byte / true_per_byte, 1, 0.15) << seed;
  }
}

TEST(link_model, one_size_tells_of_its_neighbours) {
  link_model m;
  EXPECT_FALSE(m.at(1 << 20));
  EXPECT_EQ(m.at(0).value(), 0);
  for (int i = 0; i < 3; ++i) m.add(1 << 20, 80'000);
  EXPECT_FALSE(m.line());
  EXPECT_EQ(m.at(1 << 20).value(), 80'000);
  EXPECT_EQ(m.at(3 << 19).value(), 120'000);
  EXPECT_EQ(m.at(1 << 19).value(), 80'000) << "not less: latency is not known";
  EXPECT_FALSE(m.at(1 << 24));
  EXPECT_FALSE(m.at(1 << 10));
}

TEST(link_model, what_is_no_copy_is_not_taken) {
  link_model m;
  m.add(0, 5);
  m.add(5, 0);
  m.add(5, std::nan(""));
  EXPECT_TRUE(m.ranges().empty());
}

TEST(link_model, times_that_do_not_grow_are_latency) {
  link_model m;
  for (int i = 0; i < 4; ++i) {
    m.add(1000, 5000);
    m.add(100'000, 4900);
  }
  EXPECT_EQ(m.line()->per_byte, 0);
  EXPECT_NEAR(m.line()->latency, 4950, 10);
}

TEST(link_model, times_in_proportion_have_no_latency) {
  link_model m;
  for (int i = 0; i < 4; ++i) {
    m.add(1000, 900);
    m.add(100'000, 100'000);
  }
  EXPECT_EQ(m.line()->latency, 0);
  EXPECT_NEAR(m.at(50'000).value(), 50'000, 5000);
}

TEST(link_model, knows_what_both_ways_cost) {
  link_model m;
  m.add_both_ways(1 << 20, 200'000);
  EXPECT_EQ(m.both_ways().size(), 0u) << "it is not known what one way costs";
  for (int i = 0; i < 3; ++i) m.add(1 << 20, 100'000);
  EXPECT_EQ(m.both_ways_factor(), 1);
  for (int i = 0; i < 3; ++i) m.add_both_ways(1 << 20, 160'000);
  EXPECT_NEAR(m.both_ways_factor(), 1.6, 1e-6);
  for (int i = 0; i < 64; ++i) m.add_both_ways(1 << 20, 50'000);
  EXPECT_EQ(m.both_ways_factor(), 1) << "never quicker";
}

TEST(link_model, merges_what_is_fresh) {
  link_model stored, mine;
  for (int i = 0; i < 10; ++i) stored.add(1 << 20, 100'000);
  stored.set_stored();
  mine = stored;
  EXPECT_FALSE(mine.has_fresh());
  for (int i = 0; i < 5; ++i) mine.add(1 << 20, 110'000);
  mine.add(1 << 10, 9000);
  EXPECT_TRUE(mine.has_fresh());
  stored.merge_fresh(mine);
  EXPECT_EQ(stored.ranges().at(20).times.size(), 15u);
  EXPECT_EQ(stored.ranges().at(10).times.size(), 1u);
}

} // namespace
} // namespace tern::hetero::detail
