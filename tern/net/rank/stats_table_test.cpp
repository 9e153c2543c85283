// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the option `stats` shows of the layers above, and of messages.
#include <tern/net/rank/stats_table.hpp>

#include <gtest/gtest.h>

using tern::net::add_tables;
using tern::net::message_totals;
using tern::net::stats_table;

namespace {

stats_table some(const char* name, double moves, double mib) {
  return {"class", {{"moves"}, {"MiB", 1}}, {{name, {moves, mib}}}};
}

} // namespace

TEST(stats_table, sums_over_ranks_by_name) {
  std::vector<stats_table> all;
  add_tables(all, {some("walker", 3, 0.5)});
  add_tables(all, {}); // a rank that has none
  add_tables(all, {some("grid<2>", 10, 1), {"device", {{"kernels"}}, {{"host", {7}}}}});
  add_tables(all, {some("walker", 4, 0.25)});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text(), "class    moves  MiB\n"
                           "grid<2>     10  1.0\n"
                           "walker       7  0.8\n");
  EXPECT_EQ(all[1].text(), "device  kernels\n"
                           "host          7\n");
}

TEST(stats_table, without_rows_says_nothing) {
  EXPECT_EQ((stats_table{"class", {{"moves"}}, {}}).text(), "");
  EXPECT_EQ(stats_table().text(), "");
}

TEST(message_totals, add_up_in_words) {
  EXPECT_EQ((message_totals{8, 1, 3}).text(),
            "messages: 12 sent = 8 handled + 1 forwarded + 3 of collective operations");
  EXPECT_EQ((message_totals{8, 0, 0}).text(), "messages: 8 sent = 8 handled");
}
