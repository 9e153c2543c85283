// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/layout/array_box.hpp>
#include <tern/mobile/layout/array_route.hpp>
#include <tern/mobile/layout/present_elements.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {
namespace {

array_layout cube(std::int64_t x, std::int64_t y, std::int64_t z, int ranks, array_mapping mapping = block_mapping,
                  bool sparse = false) {
  array_plan p;
  p.dimensions = 3;
  p.size = {x, y, z};
  p.mapping = mapping;
  p.sparse = sparse;
  p.type = "block";
  p.name = "cube";
  return array_layout(p, ranks);
}
using three = std::array<std::int64_t, 3>;
int by_height(const indices<3>& at, const extents<3>&, int ranks) { return static_cast<int>(at[2] % ranks); }

// A section of a section is what its indices say, in order, and goes to the homes of its elements.
TEST(array_box, parts_of_parts) {
  std::mt19937_64 random(3);
  const auto any = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  for (int turn = 0; turn < 300; ++turn) {
    const array_mapping mapping = turn % 3 == 0 ? block_mapping : turn % 3 == 1 ? cyclic_mapping : map_by<&by_height>;
    const array_layout l = cube(any(1, 6), any(1, 6), any(1, 6), static_cast<int>(any(1, 40)), mapping);
    array_box box = array_box::all_of(l);
    EXPECT_TRUE(box.is_all_of(l));
    std::vector<three> expected;
    for (std::int64_t i = 0; i < l.total(); ++i) expected.push_back(l.index_of(i));
    for (int depth = 0; depth < 2; ++depth) {
      three low{}, high{}, step{};
      std::array<std::vector<std::int64_t>, 3> kept;
      for (std::size_t d = 0; d < 3; ++d) {
        low[d] = any(0, box.count(d) - 1);
        high[d] = any(low[d] + 1, box.count(d));
        step[d] = any(1, 3);
        for (std::int64_t i = low[d]; i < high[d]; i += step[d]) kept[d].push_back(box.low[d] + i * box.step[d]);
      }
      box = box.part(l, low, high, step);
      box.check(l);
      expected.clear();
      for (const auto i : kept[0])
        for (const auto j : kept[1])
          for (const auto k : kept[2]) expected.push_back({i, j, k});
    }
    ASSERT_EQ(box.count(), static_cast<std::int64_t>(expected.size()));
    const auto homes = homes_of(box, l);
    for (std::size_t n = 0; n < expected.size(); ++n) {
      const std::int64_t linear = box.linear(static_cast<std::int64_t>(n), l);
      EXPECT_EQ(l.index_of(linear), expected[n]);
      EXPECT_TRUE(box.contains(expected[n], 3));
      EXPECT_TRUE(std::binary_search(homes.begin(), homes.end(), l.place_of(linear).home));
    }
    std::size_t inside = 0;
    for (std::int64_t i = 0; i < l.total(); ++i) inside += box.contains(l.index_of(i), 3);
    EXPECT_EQ(inside, expected.size());
  }
}

TEST(array_box, refuses_what_is_outside) {
  const array_layout l = cube(4, 5, 6, 2);
  const array_box all = array_box::all_of(l);
  const auto refused = [&](const three& low, const three& high, const three& step) {
    try {
      static_cast<void>(all.part(l, low, high, step));
    } catch (const error& e) {
      return e.code() == errc::invalid_argument;
    }
    return false;
  };
  EXPECT_FALSE(refused({0, 0, 0}, {4, 5, 6}, {1, 1, 1}));
  EXPECT_TRUE(refused({0, 0, 0}, {4, 5, 7}, {1, 1, 1}));
  EXPECT_TRUE(refused({-1, 0, 0}, {4, 5, 6}, {1, 1, 1}));
  EXPECT_TRUE(refused({2, 0, 0}, {2, 5, 6}, {1, 1, 1}));
  EXPECT_TRUE(refused({0, 0, 0}, {4, 5, 6}, {1, 0, 1}));
}

// Each rank of a route has the operation once, with its number, however it is passed on.
TEST(array_route, reaches_each_rank_once) {
  for (const int n : {1, 2, 3, 8, 31, 1000}) {
    std::vector<rank_run> runs;
    for (int r = 0; r < n; r += 3) runs.push_back({r, std::min(3, n - r), static_cast<std::uint64_t>(7 * r)});
    const array_route all(0, runs);
    all.check(n);
    EXPECT_THROW(all.check(n - 1), error);
    EXPECT_EQ(all.size(), n);
    std::set<int> reached;
    int deepest = 0;
    const auto go = [&](auto& self, const array_route& route, int depth) -> void {
      deepest = std::max(deepest, depth);
      EXPECT_TRUE(reached.insert(route.first()).second);
      EXPECT_EQ(route.number(), static_cast<std::uint64_t>(7 * (route.first() / 3 * 3)));
      EXPECT_EQ(route.origin(), 0);
      route.for_each_part([&](const array_route& part) { self(self, part, depth + 1); });
    };
    go(go, all, 0);
    EXPECT_EQ(reached.size(), static_cast<std::size_t>(n));
    EXPECT_LE(1 << deepest, 2 * n) << "the last has it after log2(n) messages";
  }
  EXPECT_THROW(array_route(0, {}).check(4), error);
}

TEST(present_elements, knows_which_are_there) {
  for (const array_mapping& mapping : {block_mapping, cyclic_mapping, map_by<&by_height>}) {
    const array_layout l = cube(3, 4, 5, 3, mapping);
    for (int home = 0; home < 3; ++home) {
      present_elements here(l, home);
      std::set<std::int64_t> expected;
      for (std::int64_t i = 0; i < l.total(); ++i)
        if (l.place_of(i).home == home) expected.insert(i);
      const auto listed = [&] {
        std::vector<std::int64_t> found;
        std::array<std::int64_t, 3> some{};
        for (std::int64_t from = 0;;) {
          const std::size_t n = here.list(from, some);
          found.insert(found.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
          if (n < some.size()) return found;
          from = some.back() + 1;
        }
      };
      EXPECT_EQ(listed(), std::vector<std::int64_t>(expected.begin(), expected.end()));
      const std::int64_t one = *std::next(expected.begin(), 4);
      EXPECT_TRUE(here.erase(one));
      EXPECT_FALSE(here.erase(one));
      EXPECT_FALSE(here.contains(one));
      EXPECT_TRUE(here.was_used(one));
      expected.erase(one);
      EXPECT_EQ(listed(), std::vector<std::int64_t>(expected.begin(), expected.end()));
      EXPECT_EQ(here.size(), expected.size());
      for (std::int64_t i = 0; i < l.total(); ++i) EXPECT_EQ(here.contains(i), expected.contains(i));
    }
  }
  const array_layout l = cube(3, 4, 5, 3, block_mapping, true);
  present_elements none(l, 0);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_FALSE(none.was_used(2));
  none.reserve(2);
  EXPECT_TRUE(none.was_used(2) && !none.contains(2));
  none.give_back(2);
  EXPECT_FALSE(none.was_used(2));
  none.reserve(2);
  none.insert(2);
  EXPECT_TRUE(none.contains(2) && none.erase(2) && none.was_used(2) && none.size() == 0);
}

} // namespace
} // namespace tern::mobile::detail
