// SPDX-License-Identifier: Apache-2.0
#include <tern/net/call/credit.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace {

using tern::net::detail::returned_credit;

TEST(credit, one_reference_is_the_whole) {
  returned_credit c;
  EXPECT_FALSE(c.whole());
  EXPECT_TRUE(c.add(0));
  EXPECT_TRUE(c.whole());
  EXPECT_FALSE(c.add(0)) << "more than there was";
  EXPECT_FALSE(c.add(5));
}

TEST(credit, is_whole_when_and_only_when_all_is_back) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint32_t> parts{0};
    for (auto n = random() % 300; n > 0; --n) {
      // Now and then always the same one, which becomes very light.
      auto& one = parts[round % 3 == 0 ? 0 : random() % parts.size()];
      const std::uint32_t half = ++one; // push_back may move it
      parts.push_back(half);
    }
    std::shuffle(parts.begin(), parts.end(), random);
    returned_credit c;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ASSERT_FALSE(c.whole()) << "after " << i << " of " << parts.size();
      ASSERT_TRUE(c.add(parts[i]));
    }
    ASSERT_TRUE(c.whole());
    ASSERT_FALSE(c.add(static_cast<std::uint32_t>(random() % 400)));
  }
}

TEST(credit, too_much_is_seen_in_the_end) {
  returned_credit c;
  EXPECT_TRUE(c.add(1));
  EXPECT_TRUE(c.add(2));
  EXPECT_FALSE(c.add(1)) << "5/4";
}

TEST(credit, the_lightest_share) {
  returned_credit c;
  std::uint32_t n = returned_credit::most_halvings;
  for (; n > 0; --n) ASSERT_TRUE(c.add(n));
  EXPECT_FALSE(c.whole());
  EXPECT_TRUE(c.add(returned_credit::most_halvings));
  EXPECT_TRUE(c.whole());
}

} // namespace
