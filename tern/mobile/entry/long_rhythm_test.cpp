// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/entry/long_rhythm.hpp>

#include <gtest/gtest.h>

namespace tern::mobile::detail {
namespace {

void cycle(long_rhythm& r, int quick) {
  for (int i = 0; i < quick; ++i) r.ran(false);
  r.ran(true);
}

TEST(long_rhythm, is_unknown_before_the_first_long_one) {
  long_rhythm r;
  EXPECT_EQ(r.place(), long_rhythm::unknown);
  for (int i = 0; i < 10; ++i) r.ran(false);
  EXPECT_EQ(r.place(), long_rhythm::unknown);
  r.ran(true);
  EXPECT_NE(r.place(), long_rhythm::unknown);
}

TEST(long_rhythm, comes_to_due_where_the_next_long_one_is_usual) {
  long_rhythm r;
  cycle(r, 4);
  for (int left = 4; left > 0; --left) {
    EXPECT_EQ(r.place(), long_rhythm::due - left);
    r.ran(false);
  }
  EXPECT_EQ(r.place(), long_rhythm::due);
  r.ran(true);
  EXPECT_EQ(r.place(), long_rhythm::due - 4);
}

TEST(long_rhythm, of_long_ones_alone_is_always_due) {
  long_rhythm r;
  for (int i = 0; i < 3; ++i) {
    r.ran(true);
    EXPECT_EQ(r.place(), long_rhythm::due);
  }
}

// Inputs of the next step that come early: five and three quick ones instead of four and four.
TEST(long_rhythm, follows_the_mean) {
  long_rhythm r;
  for (int i = 0; i < 20; ++i) cycle(r, i % 2 == 0 ? 5 : 3);
  EXPECT_EQ(r.place(), long_rhythm::due - 4);
  for (int i = 0; i < 20; ++i) cycle(r, 1);
  EXPECT_EQ(r.place(), long_rhythm::due - 1);
}

TEST(long_rhythm, ends_somewhere) {
  long_rhythm r;
  cycle(r, 100'000);
  EXPECT_EQ(r.place(), 0);
  long_rhythm q;
  cycle(q, 0);
  for (int i = 0; i < 100; ++i) q.ran(false);
  EXPECT_EQ(q.place(), long_rhythm::places - 1);
}

TEST(long_rhythm, travels) {
  long_rhythm r;
  cycle(r, 4);
  r.ran(false);
  const long_rhythm there(r.gap(), r.since());
  EXPECT_EQ(there.place(), r.place());
  const long_rhythm fresh;
  EXPECT_EQ(long_rhythm(fresh.gap(), fresh.since()).place(), long_rhythm::unknown);
}

} // namespace
} // namespace tern::mobile::detail
