// SPDX-License-Identifier: Apache-2.0
// Where keys are at home, as their tasks come and go elsewhere.
#include <tern/hetero/schedule/policies/affinity_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

using choice = affinity_table::choice;
using home = std::optional<std::size_t>;

std::vector<choice> equal_devices(std::size_t n, double seconds) {
  std::vector<choice> all;
  for (std::size_t d = 0; d < n; ++d) all.push_back({d, seconds, 0, 1});
  return all;
}
/// A task that reads nothing comes.
std::size_t come(affinity_table& t, std::uint64_t key, const std::vector<choice>& all) {
  const std::size_t d = t.home(key).value_or(all.size()) < all.size() ? *t.home(key) : t.settle(key, all);
  const auto at = std::find_if(all.begin(), all.end(), [d](const choice& c) { return c.device == d; });
  t.came(key, at->seconds, {});
  return d;
}

TEST(affinity_tables, keys_share_devices_by_what_they_take) {
  affinity_table t;
  EXPECT_FALSE(t.home(5));
  std::vector<double> taken(3);
  for (std::uint64_t key = 0; key < 60; ++key) {
    const double seconds = static_cast<double>(1 + key % 5);
    taken[come(t, key, equal_devices(3, seconds))] += seconds;
  }
  for (std::size_t d = 0; d < 3; ++d) {
    EXPECT_NEAR(taken[d], 60, 3) << d;
    EXPECT_DOUBLE_EQ(t.load_of(d), taken[d]);
  }
  EXPECT_EQ(t.load_of(3), 0);
}

TEST(affinity_tables, a_key_stays_however_much_there_is_to_do) {
  affinity_table t;
  const std::size_t first = come(t, 1, equal_devices(2, 1));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(come(t, 1, equal_devices(2, 1)), first);
  for (std::uint64_t key = 2; key < 50; ++key) EXPECT_NE(come(t, key, equal_devices(2, 1)), first) << key;
}

TEST(affinity_tables, a_faster_device_gets_more_and_workers_count) {
  affinity_table t;
  std::vector<int> keys(2);
  const std::vector<choice> unlike{{0, 4, 0, 4}, {1, 1, 0, 1}}; // four workers, each a quarter as fast
  for (std::uint64_t key = 0; key < 100; ++key) ++keys[come(t, key, unlike)];
  EXPECT_NEAR(keys[0], 50, 2);
  affinity_table other;
  keys = {0, 0};
  const std::vector<choice> faster{{0, 3, 0, 1}, {1, 1, 0, 1}};
  for (std::uint64_t key = 0; key < 100; ++key) ++keys[come(other, key, faster)];
  EXPECT_NEAR(keys[0], 25, 2);
}

TEST(affinity_tables, of_equal_devices_the_one_that_has_the_data) {
  affinity_table t;
  EXPECT_EQ(t.settle(1, std::vector<choice>{{0, 1, 100, 1}, {1, 1, 50, 1}, {2, 1, 50, 1}}), 1u);
}

TEST(affinity_tables, what_is_not_known_counts_as_the_mean) {
  affinity_table t;
  for (std::uint64_t key = 0; key < 4; ++key) come(t, key, equal_devices(2, -1));
  EXPECT_EQ(t.load_of(0), 2) << "tasks";
  EXPECT_EQ(t.load_of(1), 2);
  come(t, 10, equal_devices(2, 0.5));
  EXPECT_EQ(t.load_of(0), 1.5);
  EXPECT_EQ(t.load_of(1), 1);
}

TEST(affinity_tables, a_lost_device_is_no_home) {
  affinity_table t;
  std::vector<device_load> devices(3);
  EXPECT_EQ(t.settle(1, std::vector<choice>{{2, 1, 0, 1}}), 2u);
  t.came(1, 1, {});
  EXPECT_EQ(t.home(1, devices), home(2));
  devices[2].lost = true;
  EXPECT_EQ(t.home(1, devices), home());
  EXPECT_EQ(t.home(1), home(2));
  EXPECT_EQ(t.settle(1, std::vector<choice>{{0, 1, 0, 1}, {1, 1, 0, 1}}), 0u);
  EXPECT_EQ(t.home(1, devices), home(0));
  EXPECT_EQ(t.load_of(2), 0);
  EXPECT_EQ(t.load_of(0), 1);
}

TEST(affinity_tables, three_in_a_row_move_the_key) {
  affinity_table t;
  ASSERT_EQ(come(t, 1, equal_devices(2, 1)), 0u);
  EXPECT_FALSE(t.went(1, 1));
  EXPECT_FALSE(t.went(1, 1));
  EXPECT_FALSE(t.went(1, 0)) << "at home";
  EXPECT_FALSE(t.went(1, 1));
  EXPECT_FALSE(t.went(1, 1));
  EXPECT_EQ(t.home(1), home(0));
  EXPECT_TRUE(t.went(1, 1));
  EXPECT_EQ(t.home(1), home(1));
  EXPECT_EQ(t.load_of(0), 0);
  EXPECT_EQ(t.load_of(1), 1);
  EXPECT_FALSE(t.went(2, 1)) << "not known";
}

TEST(affinity_tables, the_key_unused_longest_goes) {
  affinity_table t;
  const std::vector<choice> all = equal_devices(2, 1);
  for (std::uint64_t key = 0; key < affinity_table::keys_most; ++key) come(t, key, all);
  EXPECT_EQ(t.size(), affinity_table::keys_most);
  come(t, 0, all); // used again
  come(t, ~std::uint64_t{0}, all);
  EXPECT_EQ(t.size(), affinity_table::keys_most);
  EXPECT_TRUE(t.home(0));
  EXPECT_FALSE(t.home(1));
  EXPECT_TRUE(t.home(2));
  for (std::uint64_t key = 1'000'000; key < 1'000'000 + 3 * affinity_table::keys_most; ++key) come(t, key, all);
  EXPECT_EQ(t.size(), affinity_table::keys_most);
  EXPECT_FALSE(t.home(0));
  EXPECT_NEAR(t.load_of(0), t.load_of(1), 2);
}

TEST(affinity_tables, what_was_long_ago_counts_less) {
  affinity_table t;
  for (int i = 0; i < 1000; ++i) come(t, 1, {{0, 1, 0, 1}});
  const double then = t.load_of(0);
  for (std::size_t i = 0; i < 20 * affinity_table::remembered; ++i) come(t, 2, {{1, 1, 0, 1}});
  EXPECT_LT(t.load_of(0), then / 1e5);
  EXPECT_LE(t.load_of(1), 2.0 * affinity_table::remembered);
  EXPECT_GE(t.load_of(1), 1.0 * affinity_table::remembered);
}

TEST(affinity_tables, each_piece_of_the_last_few_counts_once) {
  affinity_table t;
  t.settle(1, equal_devices(1, 1));
  const auto data = [](std::uint64_t piece, std::int64_t bytes) { return read_data{{piece, bytes, 0}, 1}; };
  EXPECT_EQ(t.bytes_of(1), 0);
  t.came(1, 1, std::vector{data(1, 100), data(2, 50)});
  t.came(1, 1, std::vector{data(2, 50), data(3, 7)});
  EXPECT_EQ(t.bytes_of(1), 157);
  for (std::uint64_t i = 0; i < affinity_table::pieces_most; ++i) t.came(1, 1, std::vector{data(100 + i, 1)});
  EXPECT_EQ(t.bytes_of(1), static_cast<std::int64_t>(affinity_table::pieces_most));
  EXPECT_EQ(t.bytes_of(2), 0);
}

} // namespace
} // namespace tern::hetero::detail
