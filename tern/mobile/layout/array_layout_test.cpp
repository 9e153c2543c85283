// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/layout/array_layout.hpp>

#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {
namespace {

array_plan plan_of(std::vector<std::int64_t> size, array_mapping mapping = block_mapping) {
  array_plan p;
  p.id = object_id(2, 5).bits;
  p.dimensions = static_cast<std::int32_t>(size.size());
  for (std::size_t d = 0; d < size.size(); ++d) p.size[d] = size[d];
  p.mapping = mapping;
  p.name = "grid";
  p.type = "block";
  return p;
}
int backwards(const indices<2>& at, const extents<2>& size, int ranks) {
  return static_cast<int>((size[0] - 1 - at[0]) % ranks);
}
int wrong_for_one(const indices<2>& at, const extents<2>&, int) { return at == indices<2>{1, 2} ? -1 : 0; }

std::string error_of(const std::function<void()>& f, errc code) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(array_layout, divisor_divides) {
  std::mt19937_64 random(1);
  for (const std::uint64_t by :
       {1ull, 2ull, 3ull, 7ull, 64ull, 1000ull, (1ull << 20) + 1, 1ull << 37, (1ull << 38) - 1}) {
    const divisor d(by);
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t x = random() >> (1 + random() % 62);
      EXPECT_EQ(d(x).quotient, x / by);
      EXPECT_EQ(d(x).rest, x % by);
    }
    for (const std::uint64_t x :
         {std::uint64_t{0}, by - 1, by, by + 1, (~std::uint64_t{0} >> 1) / by * by, ~std::uint64_t{0} >> 1}) {
      EXPECT_EQ(d(x).quotient, x / by);
      EXPECT_EQ(d(x).rest, x % by);
    }
  }
}

// Each element has a number of its own, among those that its home reserves, and is found by it.
TEST(array_layout, numbers_and_places_are_inverse) {
  for (const array_mapping& mapping : {block_mapping, cyclic_mapping, map_by<&backwards>})
    for (const int ranks : {1, 2, 3, 7, 64})
      for (const auto& size : {std::vector<std::int64_t>{1, 1}, {5, 7}, {16, 4}, {3, 1}}) {
        array_layout l(plan_of(size, mapping), ranks);
        std::vector<std::uint64_t> firsts;
        for (int r = 0; r < ranks; ++r) firsts.push_back(static_cast<std::uint64_t>(100 * r + 1));
        l.place_at(firsts);
        std::set<std::uint64_t> seen;
        std::vector<std::int64_t> on(static_cast<std::size_t>(ranks));
        for (std::int64_t i = 0; i < size[0]; ++i)
          for (std::int64_t j = 0; j < size[1]; ++j) {
            const std::int64_t linear = l.linear(i, j);
            EXPECT_EQ(linear, i * size[1] + j);
            const auto index = l.index_of(linear);
            EXPECT_TRUE(index[0] == i && index[1] == j);
            const object_id id = l.id_of(linear);
            EXPECT_TRUE(seen.insert(id.bits).second);
            EXPECT_EQ(id.home(), l.place_of(linear).home);
            EXPECT_LT(l.place_of(linear).number, l.numbers_of(id.home()));
            EXPECT_EQ(l.linear_of(id), linear);
            ++on[static_cast<std::size_t>(id.home())];
          }
        if (l.is_own()) continue;
        for (int r = 0; r < ranks; ++r) {
          EXPECT_EQ(on[static_cast<std::size_t>(r)], l.range_of(r).count);
          EXPECT_LE(l.range_of(r).count, l.total() / ranks + 1);
          const object_id behind(r, firsts[static_cast<std::size_t>(r)] + l.numbers_of(r));
          EXPECT_FALSE(l.linear_of(behind)) << "the number behind the last is another object's";
        }
      }
}

TEST(array_layout, says_what_it_is) {
  array_layout l(plan_of({5, 7}), 3);
  EXPECT_EQ(l.describe(17), "block(2, 3) of 'grid'");
  EXPECT_EQ(l.size_text(), "5 x 7");
  array_plan nameless = plan_of({9});
  nameless.name.clear();
  EXPECT_EQ(array_layout(nameless, 3).describe(8), "block(8) of array 2:5");
}

TEST(array_layout, refuses_what_is_wrong) {
  EXPECT_NE(error_of(
                [] {
                  array_layout(plan_of({4, 0}), 2);
                },
                errc::invalid_argument)
                .find("the extents of 'grid' (block) are 4 x 0"),
            std::string::npos);
  EXPECT_NE(error_of([] { array_layout(plan_of({-1}), 2); }, errc::invalid_argument).find("are -1"), std::string::npos);
  EXPECT_NE(error_of(
                [] {
                  array_layout(plan_of({1 << 20, 1 << 19}), 2);
                },
                errc::invalid_argument)
                .find("more than 2^38 elements"),
            std::string::npos);
  EXPECT_NE(error_of([] { array_layout(plan_of({3}, map_by<&backwards>), 2); }, errc::invalid_argument)
                .find("is for 2 dimensions, and the array has 1"),
            std::string::npos);
  const array_layout l(plan_of({3, 4}, map_by<&wrong_for_one>), 2);
  EXPECT_EQ(l.place_of(l.linear(1, 1)).home, 0);
  EXPECT_NE(error_of([&] { static_cast<void>(l.place_of(l.linear(1, 2))); }, errc::invalid_argument)
                .find("of 'grid' puts element (1, 2) on rank -1, but the job has 2"),
            std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(l.linear(1, 4)); }, errc::invalid_argument)
                .find("index (1, 4) is outside of 'grid' (block), whose extents are 3 x 4; count from 0"),
            std::string::npos);
}

} // namespace
} // namespace tern::mobile::detail
