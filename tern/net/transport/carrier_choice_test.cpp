// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/carrier_choice.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

namespace tern::net::detail {
namespace {

using way = carrier_choice::way;

constexpr std::size_t kib = 1024;

// A sender and a receiver whose copies take known times, ticks for each page.
struct two_ranks {
  std::uint64_t put = 0, take = 0, read = 0;
  carrier_choice choice;
  told_costs takes, reads;
  told_costs::word told_takes{0}, told_reads{0};
  std::uint64_t spent = 0;

  way send(std::size_t bytes) {
    const std::uint64_t pages = bytes / copy_cost::page;
    const way by = choice.choose(bytes, told_takes.load(), told_reads.load());
    if (by == way::ring) {
      choice.sent(put * pages, bytes);
      takes.add(take * pages, bytes, told_takes);
      spent += (put + take) * pages;
    } else {
      reads.add(read * pages, bytes, told_reads);
      spent += read * pages;
    }
    return by;
  }
  int count(way of, int bodies, std::size_t bytes) {
    int found = 0;
    for (int i = 0; i < bodies; ++i) found += send(bytes) == of;
    return found;
  }
};

TEST(CopyCost, IsKnownAfterAFewSamples) {
  copy_cost cost;
  for (const std::uint64_t ticks : {9000u, 800u, 700u}) {
    cost.add(ticks, copy_cost::page);
    EXPECT_EQ(cost.per_page(), 0u);
  }
  cost.add(1000, copy_cost::page);
  EXPECT_EQ(cost.per_page(), 700u) << "the first touches new memory";
}

TEST(CopyCost, IsOfOnePage) {
  copy_cost cost;
  for (int i = 0; i < copy_cost::learning; ++i) cost.add(16 * 250, 64 * kib);
  EXPECT_EQ(cost.per_page(), 250u);
}

TEST(CopyCost, AnInterruptCountsForADoublingAtMost) {
  copy_cost cost;
  for (int i = 0; i < copy_cost::learning; ++i) cost.add(800, copy_cost::page);
  cost.add(10'000'000, copy_cost::page);
  EXPECT_EQ(cost.per_page(), 900u);
  for (int i = 0; i < 40; ++i) cost.add(800, copy_cost::page);
  EXPECT_EQ(cost.per_page(), 800u);
}

TEST(CopyCost, FollowsAChange) {
  copy_cost cost;
  for (int i = 0; i < copy_cost::learning; ++i) cost.add(400, copy_cost::page);
  for (int i = 0; i < 60; ++i) cost.add(7000, copy_cost::page);
  EXPECT_GT(cost.per_page(), 6500u);
  for (int i = 0; i < 20; ++i) cost.add(400, copy_cost::page);
  EXPECT_LT(cost.per_page(), 500u);
}

TEST(CopyCost, StaysWithinSixteenBits) {
  copy_cost cost;
  for (int i = 0; i < 20; ++i) cost.add(~std::uint64_t{0} / copy_cost::page, copy_cost::page);
  EXPECT_EQ(cost.per_page(), 0xffffu);
  copy_cost least;
  for (int i = 0; i < 20; ++i) least.add(0, copy_cost::page);
  EXPECT_EQ(least.per_page(), 1u) << "0 would be: not known";
}

TEST(ToldCosts, AreToldByClassWhenTheyHaveChanged) {
  told_costs costs;
  told_costs::word told{0};
  for (int i = 0; i < copy_cost::learning; ++i) costs.add(2 * 300, 8 * kib, told);
  for (int i = 0; i < copy_cost::learning; ++i) costs.add(8 * 200, 32 * kib, told);
  for (int i = 0; i < 20; ++i) costs.add(~std::uint64_t{0} / copy_cost::page, 64 * kib, told);
  EXPECT_EQ(told_costs::of(told, 0), 300u);
  EXPECT_EQ(told_costs::of(told, 1), 200u);
  EXPECT_EQ(told_costs::of(told, 2), 0xffffu);
  told = 0; // whether it is written again
  for (int i = 0; i < 100; ++i) costs.add(8 * 220, 32 * kib, told);
  EXPECT_EQ(told.load(), 0u);
  for (int i = 0; i < 100; ++i) costs.add(8 * 240, 32 * kib, told);
  EXPECT_NEAR(told_costs::of(told, 1), 230, 10);
  EXPECT_EQ(told_costs::of(told, 0), 300u) << "the others are told with it";
}

TEST(ToldCosts, LeaveOutWhatHasNoChoice) {
  told_costs costs;
  told_costs::word told{0};
  for (int i = 0; i < 20; ++i)
    for (const std::size_t bytes : {std::size_t{1}, 8 * kib - 1, 64 * kib + 1}) costs.add(1000, bytes, told);
  EXPECT_EQ(told.load(), 0u);
  EXPECT_TRUE(has_choice(8 * kib) && has_choice(64 * kib));
}

TEST(CarrierChoice, TriesBothAndTakesTheCheaper) {
  for (const bool far : {false, true}) {
    two_ranks r;
    r.put = r.take = far ? 3000 : 150;
    r.read = 1000;
    EXPECT_EQ(r.count(way::ring, copy_cost::learning, 64 * kib), copy_cost::learning);
    EXPECT_EQ(r.count(way::reading, copy_cost::learning, 64 * kib), copy_cost::learning);
    EXPECT_EQ(r.count(far ? way::reading : way::ring, 100, 64 * kib), 100);
  }
}

TEST(CarrierChoice, LearnsAtASmallPartOfTheTime) {
  for (const std::uint64_t copy : {20u, 150u, 450u, 700u, 3000u}) {
    two_ranks r;
    r.put = r.take = copy;
    r.read = 1000;
    r.count(way::ring, 10, 64 * kib);
    r.spent = 0;
    constexpr int bodies = 100'000;
    const int by_ring = r.count(way::ring, bodies, 64 * kib);
    const bool ring = 2 * copy < r.read;
    EXPECT_GT(ring ? bodies - by_ring : by_ring, 0) << copy << ": never tries the other";
    const auto best = static_cast<double>(std::min(2 * copy, r.read)) * 16 * bodies;
    EXPECT_LT(static_cast<double>(r.spent), best * 1.025) << copy;
  }
}

TEST(CarrierChoice, FollowsTheCoresWhenTheyMove) {
  two_ranks r;
  r.read = 1000;
  for (int moves = 0; moves < 3; ++moves) {
    r.put = r.take = 150;
    r.count(way::ring, 6000, 64 * kib);
    EXPECT_GT(r.count(way::ring, 1000, 64 * kib), 950) << "near";
    r.put = r.take = 3000;
    r.count(way::ring, 100, 64 * kib); // each of them says so
    EXPECT_GT(r.count(way::reading, 1000, 64 * kib), 950) << "far";
  }
}

TEST(CarrierChoice, StaysWhereTheDifferenceIsSmall) {
  two_ranks r;
  r.read = 1000;
  r.put = r.take = 300;
  r.count(way::ring, 100, 64 * kib);
  r.put = r.take = 530;
  EXPECT_GT(r.count(way::ring, 1000, 64 * kib), 950);
  r.put = r.take = 700;
  r.count(way::ring, 100, 64 * kib);
  EXPECT_GT(r.count(way::reading, 1000, 64 * kib), 950);
  r.put = r.take = 470;
  EXPECT_GT(r.count(way::reading, 1000, 64 * kib), 950);
}

TEST(CarrierChoice, TellsSizesApart) {
  two_ranks r;
  const auto both = [&](int bodies) {
    int small = 0, large = 0;
    for (int i = 0; i < bodies; ++i) {
      r.put = r.take = 400;
      r.read = 2000; // the call's own time, over few pages
      small += r.send(12 * kib) == way::ring;
      r.read = 500;
      large += r.send(60 * kib) == way::reading;
    }
    return std::pair(small, large);
  };
  both(20);
  EXPECT_EQ(both(50), std::pair(50, 50));
}

} // namespace
} // namespace tern::net::detail
