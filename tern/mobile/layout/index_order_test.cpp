// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/layout/index_order.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tern::mobile::detail {
namespace {

// Says where the parentheses are.
struct join {
  std::string operator()(const std::string& a, const std::string& b) const { return "(" + a + b + ")"; }
};

// The same tree, written anew.
std::string in_blocks(const std::vector<bool>& there, std::int64_t first, std::int64_t width) {
  if (first >= static_cast<std::int64_t>(there.size())) return {};
  if (width == 1) return there[static_cast<std::size_t>(first)] ? std::to_string(first) + "." : "";
  const std::string a = in_blocks(there, first, width / 2), b = in_blocks(there, first + width / 2, width / 2);
  return a.empty() ? b : b.empty() ? a : "(" + a + b + ")";
}

// Ranks combine what they have, in whatever order their parts meet; the parentheses stay.
TEST(index_order, does_not_depend_on_ranks_or_mapping) {
  std::mt19937_64 random(5);
  for (int turn = 0; turn < 500; ++turn) {
    const auto total = static_cast<std::int64_t>(1 + random() % 60);
    std::vector<bool> there(static_cast<std::size_t>(total));
    const auto rarity = 1 + random() % 4;
    for (auto&& t : there) t = random() % rarity == 0;
    std::int64_t width = 1;
    while (width < total) width *= 2;
    const std::string all = in_blocks(there, 0, width);
    array_plan plan;
    plan.size[0] = total;
    plan.mapping = turn % 2 ? block_mapping : cyclic_mapping;
    const int ranks = static_cast<int>(1 + random() % 9);
    const array_layout l(plan, ranks);
    std::vector<partial_values<std::string>> parts(static_cast<std::size_t>(ranks));
    join op;
    for (int r = 0; r < ranks; ++r) {
      auto& mine = parts[static_cast<std::size_t>(r)];
      mine.known.cover(l, r);
      for (std::int64_t i = 0; i < total; ++i)
        if (there[static_cast<std::size_t>(i)] && l.place_of(i).home == r)
          mine.values.push_back({i, 0, std::to_string(i) + "."});
      mine.combine(op, total);
      if (plan.mapping.what() == array_mapping::kind::block) {
        EXPECT_LE(mine.values.size(), 12u) << "a rank gives a few values";
      }
    }
    while (parts.size() > 1) {
      std::swap(parts.back(), parts[random() % parts.size()]);
      auto last = std::move(parts.back());
      parts.pop_back();
      auto& to = parts[random() % parts.size()];
      to.merge(std::move(last));
      if (random() % 2) to.combine(op, total);
    }
    parts[0].complete(op, total);
    ASSERT_EQ(parts[0].values.size(), all.empty() ? 0u : 1u);
    if (!all.empty()) {
      EXPECT_EQ(parts[0].values[0].value, all);
    }
  }
}

} // namespace
} // namespace tern::mobile::detail
