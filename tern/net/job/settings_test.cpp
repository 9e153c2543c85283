// SPDX-License-Identifier: Apache-2.0
// How many workers a rank starts, and whether each has a CPU to itself.
#include <tern/net/job/settings.hpp>

#include <gtest/gtest.h>

namespace {

using tern::net::cpu_share;
using tern::net::default_workers;
using tern::net::has_cpu_each;

TEST(settings, ranks_that_share_all_cpus_divide_them) {
  const cpu_share share{.allowed = 8, .quota = {}, .sharers = 4, .host_size = 4};
  EXPECT_EQ(default_workers(share), 2);
  EXPECT_TRUE(has_cpu_each(share, 2));
  EXPECT_FALSE(has_cpu_each(share, 3));
}

// As `mpirun` binds ranks unless told otherwise.
TEST(settings, a_rank_that_is_bound_to_its_own_cpus_has_all_of_them) {
  const cpu_share one{.allowed = 1, .quota = {}, .sharers = 1, .host_size = 2};
  EXPECT_EQ(default_workers(one), 1);
  EXPECT_TRUE(has_cpu_each(one, 1)) << "or it would sleep whenever it waits";
  EXPECT_FALSE(has_cpu_each(one, 2));
  const cpu_share four{.allowed = 4, .quota = {}, .sharers = 1, .host_size = 4};
  EXPECT_EQ(default_workers(four), 4);
}

TEST(settings, more_ranks_than_cpus_have_a_worker_each_and_share) {
  const cpu_share share{.allowed = 2, .quota = {}, .sharers = 4, .host_size = 4};
  EXPECT_EQ(default_workers(share), 1);
  EXPECT_FALSE(has_cpu_each(share, 1));
}

TEST(settings, a_quota_is_divided_by_all_ranks_of_the_host) {
  const cpu_share bound{.allowed = 4, .quota = 8.5, .sharers = 1, .host_size = 4};
  EXPECT_EQ(default_workers(bound), 2);
  EXPECT_TRUE(has_cpu_each(bound, 2));
  EXPECT_FALSE(has_cpu_each(bound, 3));
  const cpu_share small{.allowed = 4, .quota = 2.0, .sharers = 1, .host_size = 4};
  EXPECT_EQ(default_workers(small), 1);
  EXPECT_FALSE(has_cpu_each(small, 1));
}

} // namespace
