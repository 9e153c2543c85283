// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/harness.hpp"
#include "bench/harness/series.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

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

int run_with(std::vector<std::string> arguments, const std::vector<metric>& metrics,
             const std::vector<other_use>& others = {}) {
  arguments.insert(arguments.begin(), "bench_x");
  std::vector<char*> raw;
  for (auto& one : arguments) raw.push_back(one.data());
  raw.push_back(nullptr);
  return run(
      static_cast<int>(arguments.size()), raw.data(), [&](const scale&) { return metrics; }, others);
}

struct said {
  int code;
  std::string out, err;
};
said all_of(const std::vector<std::string>& arguments, const std::vector<metric>& metrics) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_with(arguments, metrics);
  std::string out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
  return {code, std::move(out), std::move(err)};
}

metric without(const std::string& what) {
  metric m = simple(direction::lower, 2, 1, 1);
  m.rival = [what]() -> double { throw absent(what); };
  return m;
}

} // namespace

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
  EXPECT_DOUBLE_EQ(r.rival.value(), 2);
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

TEST(measurement, once_is_one_pair_without_a_warm_up) {
  int runs = 0;
  metric m = simple(direction::lower, 2, 1, 1);
  m.once = true;
  m.ours = [&] { return ++runs, 1.0; };
  const result r = measure(m, 9);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(r.pairs, 1);
  EXPECT_TRUE(r.once);
  EXPECT_EQ(r.status, verdict::ok);
}

TEST(measurement, without_a_rival_zero_can_be_asked_for) {
  metric m{.name = "a.allocations", .unit = "per 1000", .target = 0, .ours = [] { return 0.0; }};
  EXPECT_EQ(measure(m, 9).status, verdict::ok);
  EXPECT_FALSE(measure(m, 9).rival.has_value());
  m.ours = [] { return 1e-9; };
  EXPECT_EQ(measure(m, 9).status, verdict::short_of_target);
  m.ours = [] { return -1.0; };
  EXPECT_THROW(measure(m, 9), std::runtime_error);
}

TEST(output, json_has_the_fields_and_the_table_is_aligned) {
  const auto r = measure(simple(direction::higher, 4, 8, 1), 9);
  const auto line = to_json(r);
  for (const char* field : {"name", "ours", "rival", "rival_name", "unit", "better", "ratio", "target", "status",
                            "medians", "pairs", "once"})
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
  EXPECT_EQ(run_with({"--list"}, {other}), 0);
  EXPECT_EQ(run_with({"--filter", "nothing like it"}, {other}), 0);
  EXPECT_FALSE(measured);
  other.ours = []() -> double { throw std::runtime_error("planned"); };
  EXPECT_EQ(run_with({}, {other}), 1);
}

TEST(command_line, another_use_stands_alone) {
  int used = 0;
  const std::vector<metric> metrics{simple(direction::lower, 2, 1, 1)};
  const std::vector<other_use> others{{"--ablation", "Something else", [&] { return ++used, 7; }}};
  const auto go = [&](const std::vector<std::string>& words) { return run_with(words, metrics, others); };
  EXPECT_EQ(go({"--ablation"}), 7);
  EXPECT_EQ(go({"--list"}), 0);
  EXPECT_EQ(go({"--ablation", "--json"}), 2);
  EXPECT_EQ(used, 1);
}

TEST(command_line, strict_fails_on_what_is_absent) {
  const metric lacking = without("no GPU");
  EXPECT_EQ(run_with({}, {lacking}), 0);
  const said strict = all_of({"--strict"}, {lacking});
  EXPECT_EQ(strict.code, 3);
  EXPECT_EQ(strict.err, "bench_x: absent: a.b (no GPU); install what is missing and configure again, or --allow-absent "
                        "NAME: a line, the beginning of lines' names up to a dot, or a rival\n");
  for (const char* name : {"a.b", "a", "them"})
    EXPECT_EQ(run_with({"--strict", "--allow-absent", name}, {lacking}), 0) << name;
  for (const char* name : {"a.", "a.b.c", "b", "the"})
    EXPECT_EQ(all_of({"--strict", "--allow-absent", name}, {lacking}).code, 3) << name;
  // One of several rivals.
  metric some = simple(direction::lower, 2, 1, 1);
  some.missing = {"libomp"};
  const said less = all_of({"--strict"}, {some});
  EXPECT_EQ(less.code, 3);
  EXPECT_TRUE(less.err.starts_with("bench_x: absent: a.b without libomp; ")) << less.err;
  EXPECT_TRUE(less.out.ends_with("  ok  (without libomp)\n")) << less.out;
  EXPECT_EQ(run_with({"--strict", "--allow-absent", "x", "--allow-absent", "libomp"}, {some}), 0);
  // Both.
  const said both = all_of({"--strict"}, {lacking, simple(direction::lower, 0.5, 1, 1)});
  EXPECT_EQ(both.code, 3);
  EXPECT_TRUE(both.err.starts_with("bench_x: short of the target: a.b\nbench_x: absent: a.b (no GPU); ")) << both.err;
}

TEST(command_line, tiny_runs_each_once_and_judges_nothing) {
  std::string order;
  metric m = simple(direction::lower, 0.5, 1, 1);
  bool was_tiny = false;
  char name[] = "bench_x", option[] = "--tiny", strict[] = "--strict";
  char* words[] = {name, option, strict, nullptr};
  testing::internal::CaptureStdout();
  EXPECT_EQ(run(3, words,
                [&](const scale& of) {
                  was_tiny = of.tiny();
                  m.ours = [&, n = of(1000, 2)] { return order += 'o', n; };
                  m.rival = [&] { return order += 'r', 1; };
                  return std::vector<metric>{m};
                }),
            0);
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(order, "or");
  EXPECT_TRUE(was_tiny);
  EXPECT_NE(out.find(" 2 s "), std::string::npos) << out;
  EXPECT_TRUE(out.ends_with("  tiny\n")) << out;
  // A wrong result is a failure, and what is absent is one with --strict.
  metric wrong = m;
  wrong.rival = []() -> double { throw std::runtime_error("element 3 is 7"); };
  const said failed = all_of({"--tiny"}, {wrong});
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.err, "a.b failed: element 3 is 7\n");
  EXPECT_EQ(run_with({"--tiny"}, {without("StarPU")}), 0);
  EXPECT_EQ(all_of({"--tiny", "--strict"}, {without("StarPU")}).code, 3);
  EXPECT_EQ(all_of({"--tiny", "--pairs", "9"}, {m}).code, 2);
}

TEST(command_line, the_lines_are_those_of_a_file) {
  const std::string file = std::filesystem::temp_directory_path() / ("tern-lines-" + std::to_string(getpid()) + ".txt");
  const metric m = simple(direction::lower, 2, 1, 1);
  std::ofstream(file) << "a.b\n";
  EXPECT_EQ(all_of({"--tiny", "--lines", file}, {m}).code, 0);
  std::ofstream(file) << "a.b\na.c\n";
  const said gone = all_of({"--tiny", "--lines", file}, {m});
  EXPECT_EQ(gone.code, 1);
  EXPECT_EQ(gone.err, "bench_x: there is no line a.c, which is in " + file + "\n");
  std::ofstream(file) << "";
  const said fresh = all_of({"--tiny", "--lines", file}, {m});
  EXPECT_EQ(fresh.code, 1);
  EXPECT_EQ(fresh.err, "bench_x: the line a.b is not in " + file + "; add it there\n");
  std::filesystem::remove(file);
  const said none = all_of({"--lines", file}, {m});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "bench_x: cannot read " + file + "\n");
}
