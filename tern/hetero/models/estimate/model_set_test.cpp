// SPDX-License-Identifier: Apache-2.0
// Models of several processes become one set, and old ones go.
#include <tern/hetero/models/estimate/model_set.hpp>

#include <string>

#include <gtest/gtest.h>

#include "tests/hetero/support/models.hpp"

namespace tern::hetero::detail {
namespace {

using test::key_of;
using test::times_of;
using test::today;

TEST(model_set, adds_what_is_fresh_and_no_more) {
  model_set stored, mine;
  stored.kernels[key_of("a")] = times_of(10, 100, 0);
  stored.kernels[key_of("b")] = times_of(10, 100, 0);
  mine.kernels[key_of("a")] = times_of(20, 100, 5);
  mine.kernels[key_of("b")] = times_of(20, 100, 0);
  mine.kernels[key_of("c")] = times_of(4, 100, 4);
  stored.merge_fresh(mine);
  EXPECT_EQ(stored.kernels.at(key_of("a")).times.size(), 15u);
  EXPECT_EQ(stored.kernels.at(key_of("b")).times.size(), 10u);
  EXPECT_EQ(stored.kernels.at(key_of("c")).times.size(), 4u);
}

TEST(model_set, sees_a_change_in_what_it_adds) {
  model_set stored, mine;
  stored.kernels[key_of("a")] = times_of(64, 100, 0);
  mine.kernels[key_of("a")] = times_of(6, 300, 6);
  stored.merge_fresh(mine);
  EXPECT_EQ(stored.kernels.at(key_of("a")).times.median(), 300);
}

TEST(model_set, what_is_taken_is_no_longer_fresh) {
  model_set mine;
  mine.kernels[key_of("a")] = times_of(5, 100, 2);
  mine.kernels[key_of("b")] = times_of(5, 100, 0);
  mine.links[{"x", "y"}].link.add(1000, 10);
  mine.power["x"] = {5, 1, true, today};
  EXPECT_TRUE(mine.has_fresh());
  kernel_model* const place = &mine.kernels.at(key_of("a"));
  const model_set taken = mine.take_fresh();
  EXPECT_FALSE(mine.has_fresh());
  EXPECT_EQ(place, &mine.kernels.at(key_of("a")));
  EXPECT_EQ(place->times.size(), 5u);
  EXPECT_EQ(taken.kernels.size(), 1u);
  EXPECT_EQ(taken.links.size(), 1u);
  EXPECT_TRUE(taken.has_fresh());
  model_set stored;
  stored.merge_fresh(taken);
  EXPECT_EQ(stored.kernels.at(key_of("a")).times.size(), 2u);
  EXPECT_EQ(stored.links.at({"x", "y"}).link.ranges().size(), 1u);
  EXPECT_EQ(stored.power.at("x").busy, 5);
}

TEST(model_set, expires_after_ninety_days) {
  model_set all;
  all.kernels[key_of("old")] = times_of(5, 1, 0, today - model_set::expires_after - 1);
  all.kernels[key_of("young")] = times_of(5, 1, 0, today - model_set::expires_after);
  all.kernels[key_of("of a wrong clock")] = times_of(5, 1, 0, today + 1'000'000'000);
  all.links[{"x", "y"}].last = 0;
  all.power["x"].last = -9'000'000'000'000'000'000;
  all.expire(today);
  EXPECT_FALSE(all.kernels.contains(key_of("old")));
  EXPECT_TRUE(all.kernels.contains(key_of("young")));
  EXPECT_EQ(all.kernels.at(key_of("of a wrong clock")).last, today);
  EXPECT_TRUE(all.links.empty());
  EXPECT_TRUE(all.power.empty());
}

TEST(model_set, the_oldest_of_too_many_go) {
  model_set all;
  const std::size_t surplus = 100;
  for (std::size_t i = 0; i < model_set::kernels_most + surplus; ++i)
    all.kernels[key_of("k", i)].last = today - (i < surplus / 2 ? 50 : i < 200 ? 20 : 10);
  all.expire(today);
  EXPECT_EQ(all.kernels.size(), model_set::kernels_most);
  for (std::size_t i = 0; i < surplus / 2; ++i) EXPECT_FALSE(all.kernels.contains(key_of("k", i)));
  for (std::size_t i = 200; i < model_set::kernels_most + surplus; ++i)
    ASSERT_TRUE(all.kernels.contains(key_of("k", i)));
}

} // namespace
} // namespace tern::hetero::detail
