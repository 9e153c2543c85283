// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/mail/known_homes.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tern::mobile::detail {
namespace {

using marks = std::vector<std::pair<int, std::uint32_t>>;

marks unsettled(known_homes& k, object_id id) {
  marks all;
  k.take_unsettled(id, [&](const known_homes::mark& m) { all.emplace_back(m.home, m.upto); });
  return all;
}

TEST(known_homes, knows_what_it_has_learnt_and_asks_anew_now_and_then) {
  known_homes k;
  const object_id one(0, 7), other(0, 8);
  EXPECT_EQ(k.home_of(one), -1);
  k.learn(one, 3);
  EXPECT_EQ(k.home_of(other), -1);
  for (unsigned i = 0; i < known_homes::most_uses; ++i) EXPECT_EQ(k.home_of(one), 3);
  EXPECT_EQ(k.home_of(one), -1);
  EXPECT_EQ(k.home_of(one), 3);
  k.learn(one, 2);
  EXPECT_EQ(k.home_of(one), 2);
  k.forget(other);
  EXPECT_EQ(k.home_of(one), 2);
  k.forget(one);
  EXPECT_EQ(k.home_of(one), -1);
}

TEST(known_homes, names_what_was_handed_over_once) {
  known_homes k;
  const object_id one(0, 7), other(0, 8);
  EXPECT_EQ(unsettled(k, one), marks{});
  k.learn(one, 3);
  k.learn(other, 1);
  EXPECT_EQ(unsettled(k, one), marks{});
  k.handed(one, 10);
  k.handed(one, 11);
  EXPECT_EQ(unsettled(k, other), marks{});
  EXPECT_EQ(unsettled(k, one), (marks{{3, 11}}));
  EXPECT_EQ(unsettled(k, one), marks{});
}

TEST(known_homes, names_it_also_when_another_object_has_taken_its_place) {
  known_homes k;
  const auto place = [](std::uint64_t n) { return object_id(0, 1 + n * known_homes::capacity); };
  for (std::uint64_t i = 0; i < 4; ++i) { // two workers in turn
    k.learn(place(i), static_cast<int>(i % 2));
    k.handed(place(i), static_cast<std::uint32_t>(100 + i));
  }
  EXPECT_EQ(k.home_of(place(0)), -1);
  marks lost = unsettled(k, place(0)); // the last of each; the fourth is in the table
  std::sort(lost.begin(), lost.end());
  EXPECT_EQ(lost, (marks{{0, 102}, {1, 101}}));
  EXPECT_EQ(unsettled(k, place(3)), (marks{{1, 103}}));
  EXPECT_EQ(unsettled(k, place(3)), marks{});
}

} // namespace
} // namespace tern::mobile::detail
