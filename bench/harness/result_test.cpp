// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/result.hpp"

#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

using namespace tern::bench;

TEST(quantile, interpolates_between_neighbours) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4, 5, 6, 7, 8, 9}, 0.25), 3);
  EXPECT_DOUBLE_EQ(quantile({1, 2}, 0.25), 1.25);
  EXPECT_DOUBLE_EQ(quantile({7}, 1), 7);
  EXPECT_DOUBLE_EQ(quantile({2, 1}, 0), 1);
  EXPECT_THROW(quantile({}, 0.5), std::invalid_argument);
  EXPECT_THROW(quantile({1}, 1.5), std::invalid_argument);
  EXPECT_THROW(quantile({1}, std::nan("")), std::invalid_argument);
}

TEST(judgement, takes_the_better_quartile) {
  const std::vector<double> ratios{1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_DOUBLE_EQ(better_quartile(ratios, direction::lower), 3);
  EXPECT_DOUBLE_EQ(better_quartile(ratios, direction::higher), 7);
  EXPECT_EQ(judge(0.6, 0.6, direction::lower, 0.6), verdict::ok);
  EXPECT_EQ(judge(0.6, 0.61, direction::lower, 0.6), verdict::ok_by_quartile);
  EXPECT_EQ(judge(0.61, 0.5, direction::lower, 0.6), verdict::short_of_target);
  EXPECT_EQ(judge(4.0, 4.0, direction::higher, 4.0), verdict::ok);
  EXPECT_EQ(judge(4.0, 3.9, direction::higher, 4.0), verdict::ok_by_quartile);
  EXPECT_EQ(judge(3.9, 4.1, direction::higher, 4.0), verdict::short_of_target);
  EXPECT_EQ(judge(99, 99, direction::lower, std::nullopt), verdict::informational);
}

// A value that is judged by itself has no ratio; one that is the same each time says that it was
// taken once; and several rivals say which of them is not there.
TEST(output, what_is_not_usual_is_told) {
  result r;
  r.name = "a.zero";
  r.unit = "per 1000";
  r.target = 0;
  r.ours = 0.5;
  r.ratio = 0.5;
  r.status = verdict::short_of_target;
  r.pairs = 1;
  r.once = true;
  const auto json = to_json(r);
  for (const char* field : {"rival", "ratio", "medians"}) EXPECT_TRUE(json[field].is_null()) << field;
  EXPECT_EQ(json["once"], true);
  EXPECT_EQ(json["target"], 0.0);
  EXPECT_FALSE(json.contains("missing"));
  EXPECT_EQ(to_markdown(r), "| a.zero | 0.5 per 1000, once | - | - | <= 0 | short |");
  result several;
  several.name = "a.fib";
  several.rival_name = "TBB";
  several.rival = 2;
  several.status = verdict::tiny;
  several.missing = {"libomp", "libgomp"};
  const auto lines = table({r, several});
  EXPECT_NE(lines[1].find(" -         -   once       <=0  short"), std::string::npos) << lines[1];
  EXPECT_TRUE(lines[2].ends_with("  tiny  (without libomp, libgomp)")) << lines[2];
  EXPECT_EQ(to_json(several)["missing"], (std::vector<std::string>{"libomp", "libgomp"}));
  EXPECT_EQ(to_json(several)["once"], false);
}
