// SPDX-License-Identifier: Apache-2.0
// What must be copied, against all choices that there are.
#include "bench/hetero/memory/replacement.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace tern::bench::hetero {
namespace {

/// The least loads, and the least loads and saves together, over all choices of what goes.
class all_choices {
public:
  all_choices(const std::vector<tile_uses>& tasks, std::size_t room) : tasks_(tasks), room_(room) { go(0, 0, 0, {}); }
  std::size_t least_loads = SIZE_MAX, least = SIZE_MAX;

private:
  void go(std::size_t t, std::uint32_t here, std::uint32_t dirty, traffic so_far) {
    if (so_far.loads >= least_loads && so_far.all() >= least) return;
    if (t == tasks_.size()) {
      least_loads = std::min(least_loads, so_far.loads);
      least = std::min(least, so_far.all());
      return;
    }
    std::uint32_t needed = 0, written = 0;
    for (const tile_use& u : tasks_[t]) {
      needed |= 1u << u.tile;
      if (u.writes) written |= 1u << u.tile;
      if (u.reads && !(here >> u.tile & 1)) ++so_far.loads;
    }
    // Every set that may go, so that the rest fits.
    const std::uint32_t others = here & ~needed;
    for (std::uint32_t gone = others;; gone = (gone - 1) & others) {
      const std::uint32_t stays = (here & ~gone) | needed;
      if (static_cast<std::size_t>(__builtin_popcount(stays)) <= room_) {
        traffic next = so_far;
        next.saves += static_cast<std::size_t>(__builtin_popcount(gone & dirty));
        go(t + 1, stays, (dirty & ~gone) | written, next);
      }
      if (gone == 0) break;
    }
  }
  const std::vector<tile_uses>& tasks_;
  std::size_t room_;
};

std::vector<tile_uses> some_tasks(std::uint32_t seed) {
  std::mt19937 dice(seed);
  std::vector<tile_uses> tasks;
  for (int t = 0; t < 9; ++t) {
    std::vector<std::size_t> tiles{0, 1, 2, 3, 4};
    std::shuffle(tiles.begin(), tiles.end(), dice);
    tile_uses uses;
    for (std::size_t i = 0; i < 1 + dice() % 2; ++i) {
      const auto how = dice() % 3;
      uses.push_back({tiles[i], how != 1, how != 0});
    }
    tasks.push_back(uses);
  }
  return tasks;
}

TEST(replacement, no_choice_needs_fewer_loads) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    auto tasks = some_tasks(seed);
    for (tile_uses& t : tasks) // as what is only written is not loaded, it may go early at no cost
      for (tile_use& u : t) u.reads = true;
    const all_choices all(tasks, 3);
    EXPECT_EQ(traffic_of(tasks, 3, replacement::furthest).loads, all.least_loads) << "seed " << seed;
  }
}

TEST(replacement, is_never_below_what_is_possible) {
  std::size_t furthest = 0, least = 0, recent = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const auto tasks = some_tasks(seed);
    const std::size_t found = traffic_of(tasks, 3, replacement::furthest).all(), possible = all_choices(tasks, 3).least;
    EXPECT_GE(found, possible) << "seed " << seed;
    furthest += found;
    least += possible;
    recent += traffic_of(tasks, 3, replacement::least_recent).all();
  }
  EXPECT_LT(static_cast<double>(furthest), 1.1 * static_cast<double>(least)) << "saves do not make it bad";
  EXPECT_LT(furthest, recent);
}

TEST(replacement, counts_what_was_written) {
  const std::vector<tile_uses> tasks{{{0, false, true}}, {{1, true, false}}, {{2, true, true}}, {{1, true, false}}};
  const traffic one = traffic_of(tasks, 1, replacement::furthest);
  EXPECT_EQ(one.loads, 3u);
  EXPECT_EQ(one.saves, 2u);
  const traffic two = traffic_of(tasks, 2, replacement::furthest);
  EXPECT_EQ(two.loads, 2u) << "0 goes, not 1";
  EXPECT_EQ(two.saves, 1u);
  EXPECT_EQ(traffic_of(tasks, 2, replacement::least_recent).loads, 2u);
  EXPECT_THROW(traffic_of({{{0, true, false}, {1, true, false}}}, 1, replacement::furthest), std::invalid_argument);
}

} // namespace
} // namespace tern::bench::hetero
