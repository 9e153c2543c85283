// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/history.hpp"

#include "bench/harness/harness.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

using namespace tern::bench;

namespace {

const circumstances old_days{"2026-01-02", "a machine, 2 CPUs", "abc123"};

result measured(const std::string& name, double ours, double rival, direction better = direction::lower) {
  result r;
  r.name = name;
  r.unit = "us";
  r.better = better;
  r.ours = ours;
  r.rival = rival;
  r.medians = ours / rival;
  r.ratio = r.medians;
  r.status = verdict::ok;
  r.pairs = 9;
  return r;
}

class a_history : public testing::Test {
protected:
  ~a_history() override { std::filesystem::remove(file); }
  change compared(const result& now) const {
    return history(file, old_days.machine).compare(now).value_or(change{.date = "never"});
  }
  std::string complaint() const {
    try {
      history(file, old_days.machine);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "none";
  }
  const std::string file =
      std::filesystem::temp_directory_path() / ("tern-history-" + std::to_string(getpid()) + ".jsonl");
};

} // namespace

TEST_F(a_history, has_a_json_object_a_line) {
  record(file, old_days, measured("a.b", 3, 2));
  result gone = measured("a.c", 1, 1);
  gone.status = verdict::absent;
  record(file, old_days, gone);
  std::ifstream in(file);
  std::string line, more;
  std::getline(in, line);
  EXPECT_TRUE(line.starts_with(R"({"date":"2026-01-02","machine":"a machine, 2 CPUs","commit":"abc123","name":"a.b",)"
                               R"("ours":3.0,"rival":2.0,)"))
      << line;
  EXPECT_FALSE(std::getline(in, more)) << more;
}

TEST_F(a_history, marks_what_is_worse_by_more_than_three_percent) {
  record(file, old_days, measured("a.b", 100, 100));
  record(file, old_days, measured("a.rate", 100, 100, direction::higher));
  EXPECT_FALSE(compared(measured("a.b", 102.9, 100)).marked);
  EXPECT_TRUE(compared(measured("a.b", 103.1, 100)).marked);
  // A machine that is slower today is so for the rival too.
  EXPECT_FALSE(compared(measured("a.b", 200, 200)).marked);
  EXPECT_TRUE(compared(measured("a.b", 100, 90)).marked);
  EXPECT_FALSE(compared(measured("a.rate", 98, 100, direction::higher)).marked);
  EXPECT_TRUE(compared(measured("a.rate", 97, 100, direction::higher)).marked);
  EXPECT_FALSE(compared(measured("a.rate", 200, 100, direction::higher)).marked);
  const result now = measured("a.b", 104.2, 100);
  EXPECT_EQ(describe(compared(now), now), "before: 100 us, medians 1 (2026-01-02, abc123): WORSE by 4.2 %");
  const result better = measured("a.b", 90, 100);
  EXPECT_EQ(describe(compared(better), better), "before: 100 us, medians 1 (2026-01-02, abc123): better by 10.0 %");
}

TEST_F(a_history, compares_with_the_last_record_of_the_same_machine) {
  record(file, old_days, measured("a.b", 50, 100));
  record(file, {"2026-01-03", old_days.machine, "def456+"}, measured("a.b", 100, 100));
  record(file, {"2026-01-04", "another, 64 CPUs", "def457"}, measured("a.b", 1, 100));
  const change c = compared(measured("a.b", 100, 100));
  EXPECT_EQ(c.date, "2026-01-03");
  EXPECT_EQ(c.commit, "def456+");
  EXPECT_EQ(c.ours, 100);
  EXPECT_EQ(c.worse, 0);
  EXPECT_EQ(compared(measured("a.c", 1, 1)).date, "never");
  result other_unit = measured("a.b", 1, 1);
  other_unit.unit = "ms";
  EXPECT_EQ(compared(other_unit).date, "never");
}

TEST_F(a_history, of_values_that_have_no_rival) {
  result zero = measured("a.allocations", 0, 1);
  zero.rival.reset();
  zero.medians = 0;
  record(file, old_days, zero);
  EXPECT_FALSE(compared(zero).marked);
  result more = zero;
  more.ours = 0.5;
  EXPECT_TRUE(compared(more).marked);
  EXPECT_EQ(describe(compared(more), more), "before: 0 us (2026-01-02, abc123): WORSE from 0");
  EXPECT_TRUE(to_json(compared(more))["worse"].is_null());
  EXPECT_EQ(compared(measured("a.allocations", 1, 1)).date, "never"); // it had no rival then
}

TEST_F(a_history, tells_what_is_wrong_with_a_file) {
  EXPECT_EQ(complaint(), "cannot read " + file + "; --record " + file + " writes it");
  const auto with = [&](const std::string& line) {
    record(file, old_days, measured("a.b", 1, 1));
    std::ofstream(file, std::ios::app) << line << "\n";
    std::string told = complaint();
    std::filesystem::remove(file);
    return told;
  };
  const std::string end = "; each line is an object as --record writes it", where = file + ":2: ";
  EXPECT_EQ(with(""), "none");
  EXPECT_EQ(with("{\"date\": "), where + "no JSON object" + end);
  EXPECT_EQ(with("7"), where + "no JSON object" + end);
  EXPECT_EQ(with("{\"date\": 7}"), where + "no \"date\" that is a text" + end);
  const std::string known = R"({"date":"","machine":"","commit":"","name":"","unit":"")";
  EXPECT_EQ(with(known + "}"), where + "no \"ours\" that is a number" + end);
  EXPECT_EQ(with(known + R"(,"ours":1,"medians":"x"})"), where + "\"medians\" is no number" + end);
}

TEST_F(a_history, is_written_and_compared_with_by_benchmarks) {
  double ours = 100;
  const auto go = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "bench_x");
    std::vector<char*> raw;
    for (auto& one : words) raw.push_back(one.data());
    raw.push_back(nullptr);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run(static_cast<int>(words.size()), raw.data(), [&](const scale&) {
      return std::vector<metric>{
          {.name = "a.b", .unit = "us", .rival_name = "them", .ours = [&] { return ours; }, .rival = budget(100)}};
    });
    std::string out = testing::internal::GetCapturedStdout();
    return std::tuple(code, std::move(out), testing::internal::GetCapturedStderr());
  };
  EXPECT_EQ(std::get<0>(go({"--compare", file})), 2);
  EXPECT_EQ(std::get<0>(go({"--record", file, "--tiny"})), 2);
  EXPECT_EQ(std::get<0>(go({"--record", file, "--pairs", "1"})), 0);
  ours = 105;
  const auto [code, out, err] = go({"--compare", file, "--record", file, "--pairs", "1"});
  EXPECT_EQ(code, 0);
  const circumstances now = here_and_now();
  EXPECT_NE(out.find("  info  before: 100 us, medians 1 (" + now.date + ", " + now.commit + "): WORSE by 5.0 %\n"),
            std::string::npos)
      << out;
  EXPECT_EQ(err, "bench_x: lines compared with " + file + ": 1, of which worse by more than 3 %: 1 (a.b)\n");
  const auto [again, line, told] = go({"--compare", file, "--json", "--pairs", "1"});
  EXPECT_EQ(again, 0);
  EXPECT_EQ(nlohmann::json::parse(line)["before"]["ours"], 105);
  EXPECT_EQ(nlohmann::json::parse(line)["before"]["marked"], false);
  EXPECT_EQ(told, "bench_x: lines compared with " + file + ": 1, of which worse by more than 3 %: 0\n");
}
