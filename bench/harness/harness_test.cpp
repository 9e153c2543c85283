// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/harness.hpp"
#include "bench/harness/series.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include <gtest/gtest.h>

using namespace tern::bench;

namespace {

metric simple(direction better, std::optional<double> target, double ours, double rival) {
  return {.name = "a.b",
          .unit = "s",
          .better = better,
          .target = target,
          .rival_name = "them",
          .ours = [=] { return ours; },
          .rival = [=] { return rival; }};
}

template <class Metrics> int run_with(std::vector<std::string> arguments, const Metrics& metrics) {
  arguments.insert(arguments.begin(), "bench_x");
  std::vector<char*> raw;
  for (auto& one : arguments) raw.push_back(one.data());
  raw.push_back(nullptr);
  return run(static_cast<int>(arguments.size()), raw.data(), metrics);
}

} // namespace

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

TEST(measurement, warms_up_then_alternates) {
  std::string order;
  metric m = simple(direction::lower, 1.0, 1, 1);
  m.ours = [&] { return order += 'o', 1.0; };
  m.rival = [&] { return order += 'r', 2.0; };
  const auto r = measure(m, 4);
  EXPECT_EQ(order, "or"
                   "or"
                   "ro"
                   "or"
                   "ro");
  EXPECT_DOUBLE_EQ(r.ratio, 0.5);
  EXPECT_DOUBLE_EQ(r.ours, 1);
  EXPECT_DOUBLE_EQ(r.rival, 2);
  EXPECT_EQ(r.status, verdict::ok);
}

// But it is told that the quartile alone meets the target.
TEST(measurement, one_noisy_half_does_not_decide) {
  int call = 0;
  metric m = simple(direction::lower, 0.6, 0, 1);
  m.ours = [&] { return ++call % 2 ? 0.5 : 5.0; };
  const result r = measure(m, 9); // after the warm-up 5 is measured once more than 0.5
  EXPECT_EQ(r.status, verdict::ok_by_quartile);
  EXPECT_DOUBLE_EQ(r.ratio, 0.5);
  EXPECT_DOUBLE_EQ(r.medians, 5);
  EXPECT_EQ(r.pairs, 9);
  EXPECT_EQ(to_json(r)["status"], "ok*");
  EXPECT_EQ(to_json(r)["medians"], 5.0);
  EXPECT_EQ(to_json(r)["pairs"], 9);
  const auto lines = table({r});
  EXPECT_TRUE(lines[0].ends_with("  ratio   medians  pairs    target  status")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with("    0.5         5      9     <=0.6  ok*")) << lines[1];
  EXPECT_NE(to_markdown(r).find("| 0.5, medians 5 | <= 0.6 | ok* |"), std::string::npos) << to_markdown(r);
}

TEST(measurement, the_best_of_several_is_that_of_the_best_median) {
  metric whole{.name = "whole", .unit = "s", .target = 0.5, .rival_name = "them, best size"};
  // The second has the best quartile, by chance; the third the best median.
  const auto often = [](double usual, double seldom) {
    auto m = simple(direction::lower, std::nullopt, usual, 1);
    m.ours = [=, n = 0]() mutable { return n++ % 3 == 0 ? seldom : usual; };
    return m;
  };
  whole.best_of = {often(2, 2), often(3, 0.1), often(0.5, 0.5)};
  whole.best_of[2].rival_name = "them, at 3";
  const result r = measure(whole, 9);
  EXPECT_EQ(r.name, "whole");
  EXPECT_EQ(r.rival_name, "them, at 3");
  EXPECT_DOUBLE_EQ(r.ratio, 0.5);
  EXPECT_EQ(r.status, verdict::ok);
  whole.best_of[1].ours = []() -> double { throw absent("no GPU"); };
  EXPECT_EQ(measure(whole, 9).status, verdict::absent);
  EXPECT_EQ(measure(whole, 9).why, "no GPU");
}

TEST(measurement, absent_and_impossible) {
  metric m = simple(direction::lower, 0.6, 1, 1);
  m.rival = []() -> double { throw absent("no GPU"); };
  const auto r = measure(m, 9);
  EXPECT_EQ(r.status, verdict::absent);
  EXPECT_EQ(r.why, "no GPU");
  for (const char* field : {"ratio", "medians", "pairs"}) EXPECT_TRUE(to_json(r)[field].is_null()) << field;
  EXPECT_THROW(measure(simple(direction::lower, 1, 0, 1), 9), std::runtime_error);
  EXPECT_THROW(measure(simple(direction::lower, 1, 1, std::nan("")), 9), std::runtime_error);
}

TEST(output, json_has_the_fields_and_the_table_is_aligned) {
  const auto r = measure(simple(direction::higher, 4, 8, 1), 9);
  const auto line = to_json(r);
  for (const char* field :
       {"name", "ours", "rival", "rival_name", "unit", "better", "ratio", "target", "status", "medians", "pairs"})
    EXPECT_TRUE(line.contains(field)) << field;
  EXPECT_EQ(line["better"], "higher");
  EXPECT_EQ(line["status"], "ok");
  EXPECT_EQ(line.dump().find('\n'), std::string::npos);
  const auto lines = table({r, measure(simple(direction::lower, std::nullopt, 8, 1), 9)});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("status"), lines[1].find("ok"));
  EXPECT_EQ(lines[0].find("status"), lines[2].find("info"));
}

TEST(output, a_line_of_a_markdown_table) {
  EXPECT_EQ(to_markdown(measure(simple(direction::lower, 2, 1.2345, 1), 3)),
            "| a.b | 1.23 s | 1 s, them | 1.23 | <= 2 | ok |");
  metric m = simple(direction::lower, std::nullopt, 1, 1);
  m.ours = []() -> double { throw absent("no GPU"); };
  EXPECT_EQ(to_markdown(measure(m, 3)), "| a.b | - | -, them | - | - | absent |");
}

TEST(a_series, serves_several_readers) {
  int runs = 0;
  const series both([&] {
    ++runs;
    return nlohmann::json{{"one", runs}, {"ten", 10 * runs}};
  });
  const auto one = both["one"], ten = both["ten"];
  EXPECT_EQ(one(), 1);
  EXPECT_EQ(one(), 2);
  EXPECT_EQ(ten(), 10);
  EXPECT_EQ(ten(), 20);
  EXPECT_EQ(ten(), 30);
  EXPECT_EQ(one(), 3);
  EXPECT_EQ(runs, 3);
  const auto known = once([&] { return static_cast<double>(++runs); });
  EXPECT_EQ(known() + known(), 8);
}

TEST(command_line, exit_codes) {
  const std::vector<metric> good{simple(direction::lower, 2, 1, 1)}, missed{simple(direction::lower, 0.5, 1, 1)};
  EXPECT_EQ(run_with({"--json"}, good), 0);
  EXPECT_EQ(run_with({}, missed), 0);
  EXPECT_EQ(run_with({"--strict", "--pairs", "3"}, missed), 3);
  EXPECT_EQ(run_with({"--bogus"}, good), 2);
  EXPECT_EQ(run_with({"--pairs", "0"}, good), 2);
  bool measured = false;
  auto other = simple(direction::lower, 1, 1, 1);
  other.ours = [&]() -> double { return measured = true, 1; };
  EXPECT_EQ(run_with({"--list"}, std::vector<metric>{other}), 0);
  EXPECT_EQ(run_with({"--filter", "nothing like it"}, std::vector<metric>{other}), 0);
  EXPECT_FALSE(measured);
  other.ours = []() -> double { throw std::runtime_error("planned"); };
  EXPECT_EQ(run_with({}, std::vector<metric>{other}), 1);
}

TEST(command_line, another_use_stands_alone) {
  int used = 0;
  const std::vector<metric> metrics{simple(direction::lower, 2, 1, 1)};
  const std::vector<other_use> others{{"--ablation", "Something else", [&] { return ++used, 7; }}};
  const auto go = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "bench_x");
    std::vector<char*> raw;
    for (auto& one : words) raw.push_back(one.data());
    raw.push_back(nullptr);
    return run(static_cast<int>(words.size()), raw.data(), metrics, others);
  };
  EXPECT_EQ(go({"--ablation"}), 7);
  EXPECT_EQ(go({"--list"}), 0);
  EXPECT_EQ(go({"--ablation", "--json"}), 2);
  EXPECT_EQ(used, 1);
}

TEST(command, output_json_and_failures) {
  EXPECT_EQ(run_command({"/bin/sh", "-c", "echo $X"}, {{"X", "7"}}).output, "7\n");
  EXPECT_GT(run_command({"/bin/true"}).peak_mib, 0);
  EXPECT_EQ(run_for_json({"/bin/sh", "-c", "echo hello; echo '{\"a\": 3}'; echo done"})["a"], 3);
  EXPECT_THROW(run_for_json({"/bin/sh", "-c", "echo none"}), std::runtime_error);
  EXPECT_THROW(run_command({"./no-such-program"}), absent);
  EXPECT_THROW(run_command({}), std::invalid_argument);
  try {
    run_command({"/bin/sh", "-c", "echo broken >&2; exit 3"});
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("exit code 3: broken"), std::string::npos) << e.what();
  }
  EXPECT_THROW(run_command({"/bin/sh", "-c", "kill -9 $$"}), std::runtime_error);
  const std::string file =
      std::filesystem::temp_directory_path() / ("tern-harness-" + std::to_string(getpid()) + ".json");
  EXPECT_EQ(run_for_json({"/bin/sh", "-c", "echo '{\"b\": 4}' > " + file}, file)["b"], 4);
  EXPECT_THROW(run_for_json({"/bin/true"}, file), std::runtime_error); // the old file does not count
}
