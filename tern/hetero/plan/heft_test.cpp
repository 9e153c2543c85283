// SPDX-License-Identifier: Apache-2.0
// Schedules of graphs that are made ahead.
#include <tern/hetero/plan/heft.hpp>

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

TEST(busy_times, fill_gaps) {
  busy_times b(1);
  b.take(b.find(0, 2), 2);
  b.take({0, 5}, 3);
  EXPECT_EQ(b.find(0, 3).begin, 2) << "just fits";
  EXPECT_EQ(b.find(0, 4).begin, 8);
  EXPECT_EQ(b.find(3, 2).begin, 3);
  EXPECT_EQ(b.find(4, 2).begin, 8);
  b.take(b.find(0, 3), 3);
  EXPECT_EQ(b.find(0, 1).begin, 8) << "no gap is left";
}

TEST(busy_times, of_several_units_the_first_that_is_free) {
  busy_times b(2);
  b.take(b.find(0, 5), 5);
  const auto second = b.find(0, 3);
  EXPECT_EQ(second.begin, 0);
  b.take(second, 3);
  EXPECT_EQ(b.find(0, 1).begin, 3);
}

heft_problem::task task_of(std::vector<double> seconds, std::vector<std::uint32_t> before = {},
                           std::vector<heft_problem::use> uses = {}) {
  return {std::move(seconds), std::move(uses), std::move(before)};
}

// The example of the paper: 10 tasks on 3 processors, whose schedule by HEFT takes 80.
TEST(heft, makes_the_schedule_of_the_paper) {
  const double times[10][3] = {{14, 16, 9}, {13, 19, 18}, {11, 13, 19}, {13, 8, 17},  {12, 13, 10},
                               {13, 16, 9}, {7, 15, 11},  {5, 11, 14},  {18, 12, 20}, {21, 7, 16}};
  struct edge {
    std::uint32_t from, to;
    double cost;
  };
  const edge edges[] = {{0, 1, 18}, {0, 2, 12}, {0, 3, 9},  {0, 4, 11}, {0, 5, 14}, {1, 7, 19}, {1, 8, 16}, {2, 6, 23},
                        {3, 7, 27}, {3, 8, 23}, {4, 8, 13}, {5, 7, 15}, {6, 9, 17}, {7, 9, 11}, {8, 9, 13}};
  heft_problem p;
  p.units = {1, 1, 1};
  for (const auto& t : times) p.tasks.push_back(task_of({t[0], t[1], t[2]}));
  for (const edge& e : edges) { // each edge carries data of its own
    const auto piece = static_cast<std::uint32_t>(p.pieces.size());
    std::vector<double> copies(9, e.cost);
    for (std::size_t d = 0; d < 3; ++d) copies[d * 3 + d] = 0;
    p.pieces.push_back({copies, 0});
    p.tasks[e.from].uses.push_back({piece, false, true});
    p.tasks[e.to].uses.push_back({piece, true, false});
    p.tasks[e.to].before.push_back(e.from);
  }
  const heft_schedule s = make_heft_schedule(p);
  // There a link takes any number of copies at once, and their means leave out copies to oneself.
  EXPECT_GE(s.seconds, 73) << "none is shorter";
  EXPECT_LE(s.seconds, 92);
  EXPECT_EQ(std::max_element(s.rank.begin(), s.rank.end()) - s.rank.begin(), 0);
  EXPECT_EQ(s.device[0], 2) << "where the first is fastest";
}

TEST(heft, keeps_the_fast_device_for_the_longest_way) {
  heft_problem p;
  p.units = {1, 1};
  // A chain of four, which the second device does in a quarter of the time, and four others.
  for (std::uint32_t n = 0; n < 4; ++n) p.tasks.push_back(n == 0 ? task_of({4, 1}) : task_of({4, 1}, {n - 1}));
  for (int n = 0; n < 4; ++n) p.tasks.push_back(task_of({1, 1}));
  const heft_schedule s = make_heft_schedule(p);
  for (std::size_t n = 0; n < 4; ++n) EXPECT_EQ(s.device[n], 1) << n;
  for (std::size_t n = 4; n < 8; ++n) EXPECT_EQ(s.device[n], 0) << n;
  EXPECT_EQ(s.seconds, 4);
  EXPECT_GT(s.rank[0], s.rank[3]);
}

TEST(heft, data_are_copied_once_and_stay) {
  heft_problem p;
  p.units = {1, 1};
  p.pieces.push_back({{0, 10, 10, 0}, 1}); // on the first device
  for (int n = 0; n < 8; ++n) p.tasks.push_back(task_of({4, 4}, {}, {{0, true, false}}));
  const heft_schedule s = make_heft_schedule(p);
  EXPECT_EQ(std::count(s.device.begin(), s.device.end(), 1), 3) << "they begin at 10, 14 and 18";
  EXPECT_EQ(s.seconds, 22);
}

TEST(heft, what_a_task_writes_is_elsewhere_no_more) {
  heft_problem p;
  p.units = {1, 1};
  p.pieces.push_back({{0, 100, 100, 0}, 3}); // on both
  p.tasks.push_back(task_of({heft_problem::impossible, 1}, {}, {{0, true, true}}));
  p.tasks.push_back(task_of({1, 50}, {0}, {{0, true, false}}));
  const heft_schedule s = make_heft_schedule(p);
  EXPECT_EQ(s.device[1], 1) << "51 there; 102 where it would have to be copied to";
  EXPECT_EQ(s.seconds, 51);
}

TEST(heft, random_graphs_are_scheduled_in_order_and_where_they_can_run) {
  std::mt19937_64 dice(7);
  for (int round = 0; round < 300; ++round) {
    heft_problem p;
    const std::size_t devices = 1 + dice() % 4, tasks = 1 + dice() % 60, pieces = 1 + dice() % 8;
    for (std::size_t d = 0; d < devices; ++d) p.units.push_back(1 + static_cast<int>(dice() % 3));
    for (std::size_t x = 0; x < pieces; ++x) {
      std::vector<double> copies(devices * devices, 0.5);
      p.pieces.push_back({copies, dice() % 4});
    }
    double all = 0;
    for (std::uint32_t n = 0; n < tasks; ++n) {
      std::vector<double> seconds;
      for (std::size_t d = 0; d < devices; ++d)
        seconds.push_back(d != n % devices && dice() % 3 == 0 ? heft_problem::impossible
                                                              : 0.5 + static_cast<double>(dice() % 8));
      all += *std::max_element(seconds.begin(), seconds.end()) + 0.5 * 3;
      heft_problem::task t = task_of(seconds);
      if (n > 0)
        for (std::size_t k = dice() % 3; k-- > 0;) t.before.push_back(static_cast<std::uint32_t>(dice() % n));
      for (std::size_t k = dice() % 3; k-- > 0;)
        t.uses.push_back({static_cast<std::uint32_t>(dice() % pieces), dice() % 2 == 0, dice() % 2 == 0});
      p.tasks.push_back(t);
    }
    const heft_schedule s = make_heft_schedule(p);
    ASSERT_EQ(s.device.size(), tasks);
    for (std::size_t n = 0; n < tasks; ++n) {
      EXPECT_GE(p.tasks[n].seconds[s.device[n]], 0) << "it can run there";
      for (const std::uint32_t b : p.tasks[n].before) EXPECT_GT(s.rank[b], s.rank[n]);
    }
    EXPECT_LE(s.seconds, all) << "no later than one after the other";
  }
}

} // namespace
} // namespace tern::hetero::detail
