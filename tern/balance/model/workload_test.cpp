// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/workload.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::balance {
namespace {

using testing::HasSubstr;

std::string wrong_with(const workload& w) {
  try {
    check(w);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument);
    return e.message();
  }
  return {};
}

workload two_ranks() {
  workload w;
  w.ranks = 2;
  w.workers = 2;
  w.objects = {{.rank = 0, .seconds = {3, 1}}, {.rank = 0, .seconds = {3, 1}}, {.rank = 1, .seconds = {2, 6}}};
  return w;
}

TEST(workload, bounds) {
  workload w = two_ranks();
  // First phase: the heaviest takes 3, four workers would need 2 for 8; second: 6.
  EXPECT_DOUBLE_EQ(w.bound(), 3 + 6);
  EXPECT_DOUBLE_EQ(w.static_bound(), 3 + 6);
  w.objects.push_back({.rank = 0, .seconds = {2, 0}}); // 8 on rank 0's two workers
  EXPECT_DOUBLE_EQ(w.bound(), 3 + 6);
  EXPECT_DOUBLE_EQ(w.static_bound(), 4 + 6);
  w.objects[2].tasklets = 5; // of which a rank has room for two
  EXPECT_DOUBLE_EQ(w.bound(), 3 + 3);
  EXPECT_DOUBLE_EQ(w.static_bound(), 4 + 3);
  EXPECT_EQ(w.phases(), 2u);
  EXPECT_DOUBLE_EQ(workload().bound(), 0);
  EXPECT_DOUBLE_EQ(workload().static_bound(), 0);
}

TEST(workload, bounds_know_slow_ranks) {
  workload w = two_ranks();
  w.slow = {1, 3};
  EXPECT_DOUBLE_EQ(w.bound(), 3 + 6); // nothing need be on the slow rank
  EXPECT_DOUBLE_EQ(w.static_bound(), 6 + 18);
  w.objects.assign(8, {.rank = 0, .seconds = {4}});
  EXPECT_DOUBLE_EQ(w.bound(), 32 / (2 + 2 / 3.));
  EXPECT_DOUBLE_EQ(w.static_bound(), 16);
}

TEST(workload, check_names_what_is_wrong) {
  EXPECT_EQ(wrong_with(two_ranks()), "");
  EXPECT_EQ(wrong_with({}), "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto broken = [](auto break_it) {
    workload w = two_ranks();
    w.links = {{0, 1, 10, 1}};
    break_it(w);
    return wrong_with(w);
  };
  EXPECT_THAT(broken([](workload& w) { w.ranks = 0; }), HasSubstr("0 ranks"));
  EXPECT_THAT(broken([](workload& w) { w.workers = -1; }), HasSubstr("-1 workers"));
  EXPECT_THAT(broken([](workload& w) { w.slow = {1}; }), HasSubstr("of 1 ranks"));
  EXPECT_THAT(broken([](workload& w) { w.slow = {1, 0}; }), HasSubstr("rank 1"));
  EXPECT_THAT(broken([](workload& w) { w.objects[2].rank = 2; }), HasSubstr("object 2 is on rank 2"));
  EXPECT_THAT(broken([](workload& w) { w.objects[1].rank = -1; }), HasSubstr("object 1 is on rank -1"));
  EXPECT_THAT(broken([](workload& w) { w.objects[1].bytes = -5; }), HasSubstr("object 1"));
  EXPECT_THAT(broken([](workload& w) { w.objects[1].seconds = {1}; }), HasSubstr("object 1 has 1 phases"));
  EXPECT_THAT(broken([](workload& w) { w.objects[1].device = {1}; }), HasSubstr("in 1 of 2 phases"));
  EXPECT_THAT(broken([](workload& w) { w.objects[1].seconds[1] = -1; }), HasSubstr("object 1 takes a time"));
  EXPECT_THAT(broken([=](workload& w) { w.objects[2].seconds[0] = nan; }), HasSubstr("object 2 takes a time"));
  EXPECT_THAT(broken([](workload& w) { w.objects[1].device = {1, -1}; }), HasSubstr("object 1 takes a time"));
  EXPECT_THAT(broken([](workload& w) { w.objects[0].tasklets = 0.5; }), HasSubstr("object 0 is shared"));
  EXPECT_THAT(broken([](workload& w) { w.links[0].to = 3; }), HasSubstr("link 0 is from object 0 to 3"));
  EXPECT_THAT(broken([=](workload& w) { w.links[0].bytes = nan; }), HasSubstr("link 0"));
}

double sum(const workload& w, std::size_t phase = 0) {
  double all = 0;
  for (const auto& x : w.objects) all += x.seconds[phase];
  return all;
}

// How much heavier than the lightest rank the heaviest is.
double spread(const workload& w, std::size_t phase = 0) {
  std::vector<double> loads(static_cast<std::size_t>(w.ranks));
  for (const auto& x : w.objects) loads[static_cast<std::size_t>(x.rank)] += x.seconds[phase];
  return *std::max_element(loads.begin(), loads.end()) / *std::min_element(loads.begin(), loads.end());
}

TEST(synthetic, literature_has_a_fifth_of_heavy_objects_on_two_fifths_of_the_workers) {
  const workload w = make({.ranks = 10, .workers = 4, .per_worker = 10});
  ASSERT_EQ(w.objects.size(), 400u);
  EXPECT_EQ(w.ranks, 10);
  EXPECT_EQ(w.workers, 4);
  std::vector<int> heavy(10), all(10);
  for (const auto& x : w.objects) {
    ++all[static_cast<std::size_t>(x.rank)];
    heavy[static_cast<std::size_t>(x.rank)] += x.seconds[0] > 1.7 * 35.8;
  }
  EXPECT_THAT(all, testing::Each(40));
  EXPECT_THAT(heavy, testing::ElementsAre(20, 20, 20, 20, 0, 0, 0, 0, 0, 0));
  EXPECT_NEAR(sum(w) / 400 / 35.8, 0.8 + 0.2 * 2.5, 0.02);

  double squares = 0; // of the light ones' distances from the mean
  for (const auto& x : w.objects)
    if (x.rank >= 4) squares += (x.seconds[0] / 35.8 - 1) * (x.seconds[0] / 35.8 - 1);
  EXPECT_NEAR(squares / 240, 0.01, 0.003);
}

TEST(synthetic, same_seed_same_work) {
  for (const char* placement : {"literature", "pareto", "talk", "rare"}) {
    const auto seconds = [&](std::uint64_t seed) {
      std::vector<double> all;
      const workload w = make({.placement = placement, .ranks = 3, .workers = 2, .seed = seed});
      for (const auto& x : w.objects) all.push_back(x.seconds[0]);
      for (const auto& l : w.links) all.push_back(l.to);
      return all;
    };
    EXPECT_EQ(seconds(5), seconds(5)) << placement;
    EXPECT_NE(seconds(5), seconds(6)) << placement;
  }
}

TEST(synthetic, the_same_work_on_any_machine) {
  const workload w = make({.ranks = 1, .workers = 1, .per_worker = 3, .variation = 0.1, .seed = 1});
  EXPECT_EQ(w.objects[1].seconds[0], 33.58432275);
}

TEST(synthetic, clustered_and_burst) {
  const workload w = make({.placement = "clustered", .ranks = 10, .workers = 2, .variation = 0});
  for (const auto& x : w.objects) EXPECT_EQ(x.seconds[0], x.rank < 2 ? 2.5 * 35.8 : 35.8);

  const workload b = make({.placement = "burst", .ranks = 10, .workers = 2, .variation = 0, .phases = 12});
  for (std::size_t p = 0; p < 12; ++p) {
    std::set<int> heavy;
    for (const auto& x : b.objects)
      if (x.seconds[p] > 36) heavy.insert(x.rank);
    const int first = static_cast<int>(p % 10);
    EXPECT_EQ(heavy, (std::set<int>{first, (first + 1) % 10})) << p;
    EXPECT_NEAR(sum(b, p), sum(b, 0), 1e-6);
  }
}

TEST(synthetic, pareto_is_heavy_tailed_and_bounded) {
  const workload w = make({.placement = "pareto", .ranks = 100, .workers = 10});
  std::vector<double> all;
  for (const auto& x : w.objects) all.push_back(x.seconds[0]);
  std::sort(all.begin(), all.end());
  EXPECT_GE(all.front(), 35.8 / 3 * 0.999);
  EXPECT_LE(all.back(), 358);
  EXPECT_GT(all.back(), 250);
  // Shape 1.5: a quarter is above 4^(2/3) times the least.
  EXPECT_NEAR(all[7500] / (35.8 / 3), 2.52, 0.1);
}

TEST(synthetic, slow_rare_and_talk) {
  const workload s = make({.placement = "slow", .ranks = 4, .workers = 2});
  EXPECT_THAT(s.slow, testing::ElementsAre(1, 1, 4, 1));
  EXPECT_LT(spread(s), 1.2);

  const workload r = make({.placement = "rare", .ranks = 25, .workers = 10, .per_worker = 10, .variation = 0});
  std::map<double, int> times;
  for (const auto& x : r.objects) ++times[x.seconds[0]];
  EXPECT_EQ(times, (std::map<double, int>{{35.8, 2497}, {35.8 * 100, 3}}));

  const workload t = make({.placement = "talk", .ranks = 4, .workers = 2, .per_worker = 10}); // 80 objects: 8 x 10
  EXPECT_EQ(t.links.size(), 160u);
  std::vector<int> links(80);
  int across = 0;
  for (const auto& l : t.links) {
    ++links[l.from];
    ++links[l.to];
    across += t.objects[l.from].rank != t.objects[l.to].rank;
  }
  EXPECT_THAT(links, testing::Each(4));
  EXPECT_GT(across, 100); // three quarters, as they are placed at random
  EXPECT_GT(spread(t), 1.5);
}

TEST(synthetic, what_cannot_be_is_refused) {
  const auto code = [](const synthetic& s) {
    try {
      make(s);
    } catch (const error& e) {
      return e.code();
    }
    return errc::internal;
  };
  EXPECT_EQ(code({.placement = "litterature"}), errc::invalid_option);
  EXPECT_EQ(code({.placement = ""}), errc::invalid_option);
  EXPECT_EQ(code({.placement = "slow|talk"}), errc::invalid_option);
  EXPECT_EQ(code({.ranks = 0}), errc::invalid_argument);
  EXPECT_EQ(code({.ranks = 1 << 20, .workers = 1 << 10}), errc::invalid_argument);
  EXPECT_EQ(code({.phases = 0}), errc::invalid_argument);
  EXPECT_EQ(code({.seconds = -1}), errc::invalid_argument);
  const std::string all = placements;
  for (std::size_t begin = 0; begin != std::string::npos && begin < all.size();) {
    const std::size_t end = all.find('|', begin);
    const workload w = make({.placement = all.substr(begin, end - begin), .ranks = 3, .workers = 1, .per_worker = 1});
    EXPECT_EQ(w.objects.size(), 3u);
    EXPECT_GE(w.static_bound(), w.bound() * 0.999999);
    begin = end == std::string::npos ? end : end + 1;
  }
}

} // namespace
} // namespace tern::balance
