// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/protect/buddies.hpp>

#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace {

using tern::mobile::detail::buddies_of;
using ranks = std::vector<std::int32_t>;

ranks first(int n) {
  ranks all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(buddies, of_ranks_on_hosts_of_their_own_are_the_next_ones) {
  EXPECT_EQ(buddies_of(first(4), first(4)), (ranks{1, 2, 3, 0}));
}

TEST(buddies, of_one_host_are_the_next_ones) { EXPECT_EQ(buddies_of(first(3), {0, 0, 0}), (ranks{1, 2, 0})); }

TEST(buddies, are_on_other_hosts_and_differ) {
  const ranks hosts{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  const ranks all = buddies_of(first(12), hosts);
  for (std::size_t r = 0; r < 12; ++r) EXPECT_NE(hosts[static_cast<std::size_t>(all[r])], hosts[r]) << r;
  EXPECT_EQ(std::set<std::int32_t>(all.begin(), all.end()).size(), 12U);
}

TEST(buddies, are_on_other_hosts_also_if_hosts_have_different_numbers_of_ranks) {
  const ranks hosts{0, 0, 0, 0, 1};
  const ranks all = buddies_of(first(5), hosts);
  for (std::size_t r = 0; r < 5; ++r) EXPECT_NE(hosts[static_cast<std::size_t>(all[r])], hosts[r]) << r;
}

TEST(buddies, of_those_that_live_live) { EXPECT_EQ(buddies_of({0, 2, 5}, {0, 1, 2, 3, 4, 5}), (ranks{2, 5, 0})); }

TEST(buddies, of_one_rank_is_itself) { EXPECT_EQ(buddies_of({3}, {0, 0, 0, 0}), (ranks{3})); }

} // namespace
