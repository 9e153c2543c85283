// SPDX-License-Identifier: Apache-2.0
/// \file
/// Jobs that record what they do: the file is well formed and lacks nothing; or says what it lacks,
/// if the job died.
#include "traced_job.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using namespace trace_test;
using tern::test::child;
using tern::test::count;

INSTANTIATE_TEST_SUITE_P(with, traced, testing::Values("inproc", "openmpi", "mpich", "sim"),
                         [](const auto& chosen) { return chosen.param; });

TEST_P(traced, a_job_records_everything_that_happens) {
  for (const int ranks : {1, 4}) {
    const finished end = job(ranks, {"--tern-trace", file});
    ASSERT_EQ(end.code, 0) << end.all();
    EXPECT_TRUE(has(end.err, "trace " + file + ": ")) << end.all();
    expect_whole(file);
    const std::string text = contents(file);
    for (const char* part :
         {// fibers and why they wait
          R"("name":"main")", R"("name":"patient")", R"("name":"traced.cpp:)", R"("left":"yielded")",
          R"("left":"ended")", R"("waits for":"mutex")", R"("waits for":"sleep")", R"("waits for":"join")",
          R"("waits for":"future")",
          // what the program tells, in a fiber that waits
          R"("name":"the whole")", R"("name":"under the lock")", R"("name":"squaring")",
          R"("name":"temperature \"K\"")", R"("name":"half way")",
          // messages
          R"("name":"square")", R"("name":"ask_back")", R"("handler":"square")", R"("ph":"s")", R"("ph":"f")",
          // tracks
          R"("name":"worker 1")"})
      EXPECT_TRUE(has(text, part)) << part;
    EXPECT_EQ(has(text, R"("name":"parked")"), !simulated());
    EXPECT_EQ(count(text, R"("name":"temperature \"K\"")"), ranks);
  }
}

TEST_P(traced, tasklets_are_seen_and_stolen) {
  const finished end = job(2, {"tasklets", "--tern-trace", file});
  ASSERT_EQ(end.code, 0) << end.all();
  expect_whole(file);
  const std::string text = contents(file);
  EXPECT_TRUE(has(text, R"("cat":"tasklets")"));
  EXPECT_TRUE(has(text, R"("name":"steal")"));
}

TEST_P(traced, a_full_ring_forgets_the_oldest_and_says_so) {
  const finished end = job(2, {"much", "--tern-trace", file, "--tern-trace-kib=256"});
  ASSERT_EQ(end.code, 0) << end.all();
  EXPECT_TRUE(has(end.err, "warning] trace")) << end.all();
  EXPECT_TRUE(has(end.err, "missing: ")) << end.all();
  const finished check = checked(file, {});
  EXPECT_EQ(check.code, 0) << check.all();
  EXPECT_TRUE(has(contents(file), "INCOMPLETE"));
}

TEST_P(traced, a_lossless_one_forgets_nothing) {
  const finished end = job(2, {"much", "--tern-trace", file, "--tern-trace-kib=256", "--tern-trace-lossless"});
  ASSERT_EQ(end.code, 0) << end.all();
  expect_whole(file);
  EXPECT_EQ(count(contents(file), R"("name":"one of many")"), 2 * 2 * 20'000); // each begins and ends
}

TEST_P(traced, what_an_earlier_job_left_is_no_part_of_it) {
  fs::create_directory(file + ".parts");
  std::ofstream(file + ".parts/elsewhere-1-1.part") << "an old part";
  for (const char* old : {"1", "2"}) {
    const finished end = job(2, {"--tern-trace", file});
    ASSERT_EQ(end.code, 0) << old << end.all();
    expect_whole(file);
  }
}

TEST_P(traced, an_error_that_ends_the_job_leaves_a_trace) {
  const finished end = job(2, {"throws", "--tern-trace", file});
  EXPECT_TRUE(end.in_time() && end.code != 0) << end.all();
  if (simulated()) { // it is made at once
    EXPECT_FALSE(has(end.err, "tern trace")) << end.all();
  } else {
    EXPECT_TRUE(has(end.err, "`tern trace " + file + "` merges them")) << end.all();
    const finished merged = merge(file);
    EXPECT_EQ(merged.code, 0) << merged.all();
    EXPECT_TRUE(has(merged.out, "missing: ")) << merged.all();
  }
  const finished check = checked(file, {});
  EXPECT_EQ(check.code, 0) << check.all();
  EXPECT_TRUE(has(contents(file), R"("name":"fail")"));
}

TEST_P(traced, a_file_that_cannot_be_made_stops_the_start) {
  for (const std::string& bad : {std::string("/proc/nowhere/run.json"), scratch.path.string()}) {
    const finished end = job(2, {"--tern-trace", bad});
    EXPECT_TRUE(end.in_time() && end.code != 0) << end.all();
    EXPECT_EQ(count(end.err, "tern: cannot start: "), 1) << end.all();
    EXPECT_TRUE(has(end.err, bad)) << end.all();
  }
  const finished end = job(2, {"--tern-trace-kib", "5"});
  EXPECT_TRUE(has(end.err, "cannot be \"5\"") && has(end.err, "from 256")) << end.all();
}

TEST_P(traced, a_program_may_go_to_another_folder) {
  const finished end = tern::test::run(command(2, {"moves", "--tern-trace", "run.json"}), 40,
                                       {.folder = scratch.path.string(), .environment = around(2)});
  ASSERT_EQ(end.code, 0) << end.all();
  expect_whole(file);
}

TEST_P(traced, statistics_have_a_row_for_each_rank) {
  const finished end = job(3, {"--tern-stats"});
  ASSERT_EQ(end.code, 0) << end.all();
  EXPECT_EQ(count(end.err, "rank  sent"), 1) << end.all();
  for (const char* rank : {"\n   0  ", "\n   1  ", "\n   2  "}) EXPECT_EQ(count(end.err, rank), 1) << end.all();
  EXPECT_EQ(has(end.err, "of virtual time"), simulated()) << end.all();
  EXPECT_EQ(has(end.err, "one process"), !under_mpi()) << end.all();
  EXPECT_EQ(has(end.err, "peak MiB"), under_mpi()) << end.all();
  EXPECT_EQ(has(end.err, "cpu %"), !simulated()) << end.all();
}

// Options that not all ranks have
// ----------------------------------------------------------------------------------------

class differing : public traced {
protected:
  // Rank 0 has the first arguments, rank 1 the second ones.
  finished job_of(const strings& first, const strings& second) const {
    strings line = command(1, first);
    line.insert(line.end(), {":", "-np", "1", TRACE_TRACED});
    line.insert(line.end(), second.begin(), second.end());
    return tern::test::run(line, 40, {.environment = around(2)});
  }
};
INSTANTIATE_TEST_SUITE_P(with, differing, testing::Values("openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

TEST_P(differing, rank_0_decides_on_statistics) {
  const finished with = job_of({"--tern-stats"}, {"usual"});
  EXPECT_EQ(with.code, 0) << with.all();
  for (const char* part : {"rank  sent", "\n   0  ", "\n   1  "}) EXPECT_EQ(count(with.err, part), 1) << with.all();
  const finished without = job_of({"usual"}, {"--tern-stats"});
  EXPECT_EQ(without.code, 0) << without.all();
  EXPECT_EQ(count(without.err, "the option 'stats' must be given to rank 0 too"), 1) << without.all();
  EXPECT_FALSE(has(without.err, "rank  sent")) << without.all();
}

TEST_P(differing, rank_0_decides_on_the_trace) {
  const finished without = job_of({"usual"}, {"--tern-trace", file});
  EXPECT_EQ(without.code, 0) << without.all();
  EXPECT_EQ(count(without.err, "the option 'trace' must be given to rank 0 too"), 1) << without.all();
  EXPECT_FALSE(fs::exists(file) || fs::exists(file + ".parts"));

  const finished with = job_of({"--tern-trace", file}, {"usual"});
  EXPECT_EQ(with.code, 0) << with.all();
  EXPECT_EQ(count(with.err, "the option 'trace' was not given to it"), 1) << with.all();
  EXPECT_TRUE(has(with.err, "missing: rank 1: nothing was recorded")) << with.all();
  EXPECT_TRUE(has(with.err, "`tern trace " + file + "` merges them")) << with.all(); // what is missing may yet come
  EXPECT_TRUE(fs::exists(file + ".parts"));
  EXPECT_EQ(checked(file, {}).code, 0);

  const finished elsewhere = job_of({"--tern-trace", file}, {"--tern-trace", file + ".other"});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.all();
  EXPECT_EQ(count(elsewhere.err, "it records into " + file + ".other.parts"), 1) << elsewhere.all();
}

// Where ranks are threads or simulated
// -----------------------------------------------------------------------------------

TEST(simulated_trace, is_the_same_each_time) {
  const temporary scratch;
  std::string first;
  for (const char* name : {"a.json", "b.json"}) {
    const std::string file = scratch / name;
    const finished end =
        tern::test::run({TRACE_TRACED, "--tern-trace", file}, 40,
                        {.environment = variables{{"TERN_SIM", "ranks=8,workers=2,faults=slow:pause"}}});
    ASSERT_EQ(end.code, 0) << end.all();
    expect_whole(file);
    const std::string text = contents(file);
    EXPECT_TRUE(has(text, R"("cat":"fault")"));
    if (first.empty())
      first = text;
    else
      EXPECT_TRUE(first == text);
  }
}

TEST(simulated_trace, is_there_when_the_job_has_failed) {
  for (const char* world : {"ranks=2", "ranks=3,faults=crash=1@50us"}) {
    const temporary scratch;
    const std::string file = scratch / "run.json";
    const bool crash = has(world, "crash");
    const finished end = tern::test::run({TRACE_TRACED, crash ? "usual" : "stuck", "--tern-trace", file}, 40,
                                         {.environment = variables{{"TERN_SIM", world}}});
    EXPECT_EQ(end.code, 1) << end.all();
    EXPECT_TRUE(has(end.err, "=replay.json")) << end.all(); // in the command that shows it again
    const finished check = checked(file, {});
    EXPECT_EQ(check.code, 0) << check.all();
    EXPECT_TRUE(has(contents(file), crash ? R"("cat":"crash")" : R"("waits for":"mutex")"));
  }
}

TEST(simulated_trace, can_be_had_of_the_run_that_failed) {
  const temporary scratch;
  const finished end =
      tern::test::run({TRACE_TRACED, "stuck"}, 40, {.environment = variables{{"TERN_SIM", "ranks=2,seed=9"}}});
  const std::string mark = "tern: to see it again: ";
  const auto at = end.err.find(mark);
  ASSERT_NE(at, std::string::npos) << end.all();
  const auto from = at + mark.size();
  const finished again = tern::test::run({"/bin/sh", "-c", end.err.substr(from, end.err.find('\n', from) - from)}, 40,
                                         {.folder = scratch.path.string(), .environment = variables{}});
  EXPECT_EQ(again.code, 1) << again.all();
  const finished check = checked(scratch / "replay.json", {});
  EXPECT_EQ(check.code, 0) << check.all();
}

TEST(statistics, of_many_ranks_are_summed_up) {
  const finished end = tern::test::run({TRACE_TRACED, "uneven", "--tern-stats"}, 40,
                                       {.environment = variables{{"TERN_SIM", "ranks=40"}}});
  ASSERT_EQ(end.code, 0) << end.all();
  for (const char* part : {"40 ranks", "\nleast  ", "\n mean  ", "\n most  ", "\n    7 ", "\n    8 ", "unusual: "})
    EXPECT_TRUE(has(end.err, part)) << part << end.all();
  EXPECT_LT(count(end.err, "unusual: "), 5) << end.all();
}

TEST(two_jobs, with_one_trace_leave_each_other_what_they_record) {
  const temporary scratch;
  const std::string file = scratch / "run.json";
  const variables around{{"TERN_RANKS", "2"}, {"TERN_WORKERS", "2"}};
  child other({TRACE_TRACED, "long", "--tern-trace", file}, {.environment = around});
  ASSERT_TRUE(other.wait_for_out("ready")) << other.err;
  const std::string part = fs::directory_iterator(file + ".parts")->path().string();
  const finished end = tern::test::run({TRACE_TRACED, "--tern-trace", file}, 40, {.environment = around});
  EXPECT_EQ(end.code, 0) << end.all();
  EXPECT_EQ(count(end.err, "another job that still runs records into " + part), 1) << end.all();
  EXPECT_TRUE(has(end.err, "did not end")) << end.all();
  EXPECT_TRUE(has(end.err, "`tern trace " + file + "` merges them")) << end.all();
  EXPECT_TRUE(fs::exists(part));
  other.signal(SIGKILL);
  EXPECT_EQ(other.end(), 1000 + SIGKILL);
  const finished next = tern::test::run({TRACE_TRACED, "--tern-trace", file}, 40, {.environment = around});
  EXPECT_EQ(next.code, 0) << next.all();
  EXPECT_FALSE(has(next.err, "another job")) << next.all();
  expect_whole(file);
}

TEST(small_files, end_neither_the_job_nor_the_trace) {
  const temporary scratch;
  const std::string file = scratch / "run.json";
  const finished end = tern::test::run({"/bin/sh", "-c", // 4 MiB: sh counts by 512 bytes
                                        "ulimit -f 8192; exec \"$0\" much --tern-trace \"$1\" --tern-trace-lossless",
                                        TRACE_TRACED, file},
                                       40, {.environment = variables{{"TERN_RANKS", "2"}, {"TERN_WORKERS", "2"}}});
  EXPECT_EQ(end.code, 0) << end.all();
  EXPECT_TRUE(has(end.err, "File too large")) << end.all(); // what is merged is larger than the part
  const finished merged = merge(file);
  EXPECT_EQ(merged.code, 0) << merged.all();
  EXPECT_TRUE(has(merged.out, "missing: ")) << merged.all();
  EXPECT_EQ(checked(file, {}).code, 0);
}

// Killed
// -----------------------------------------------------------------------------------------------------------------

TEST(killed, a_job_of_threads_leaves_what_it_had_recorded) {
  const temporary scratch;
  const std::string file = scratch / "run.json";
  {
    child job({TRACE_TRACED, "long", "--tern-trace", file},
              {.environment = variables{{"TERN_RANKS", "3"}, {"TERN_WORKERS", "2"}}});
    ASSERT_TRUE(job.wait_for_out("ready")) << job.err;
    job.signal(SIGKILL);
    EXPECT_EQ(job.end(), 1000 + SIGKILL);
  }
  EXPECT_FALSE(fs::exists(file));
  const finished merged = merge(file);
  EXPECT_EQ(merged.code, 0) << merged.all();
  EXPECT_TRUE(has(merged.out, "missing: ")) << merged.all();
  const finished check = checked(file, {});
  EXPECT_EQ(check.code, 0) << check.all();
  const std::string text = contents(file);
  EXPECT_TRUE(has(text, "INCOMPLETE"));
  EXPECT_TRUE(has(text, R"("cut off")"));
  EXPECT_GT(count(text, R"("name":"square")"), 1000);
}

/// Processes whose parent is `parent`, or whose grandparent, …, that run `program`.
std::vector<pid_t> running(const std::string& program, const std::string& with) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = contents(entry.path() / "cmdline");
    if (line.starts_with(program) && has(line, with)) found.push_back(std::atoi(name.c_str()));
  }
  return found;
}

class killed_rank : public traced {};
INSTANTIATE_TEST_SUITE_P(with, killed_rank, testing::Values("openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

TEST_P(killed_rank, leaves_what_all_had_recorded) {
  {
    child job(command(3, {"long", "--tern-trace", file}), {.environment = around(3)});
    ASSERT_TRUE(job.wait_for_out("ready")) << job.err;
    const auto ranks = running(TRACE_TRACED, file);
    ASSERT_EQ(ranks.size(), 3u);
    ::kill(*std::max_element(ranks.begin(), ranks.end()), SIGKILL);
    EXPECT_NE(job.end(), 0); // the launcher ends the others
  }
  const finished merged = merge(file);
  EXPECT_EQ(merged.code, 0) << merged.all();
  EXPECT_TRUE(has(merged.out, "missing: ")) << merged.all();
  const finished check = checked(file, {});
  EXPECT_EQ(check.code, 0) << check.all();
  for (const char* rank : {"rank 0", "rank 1", "rank 2"})
    EXPECT_TRUE(has(contents(file), R"("name":"process_name","args":{"name":")" + std::string(rank))) << rank;
  EXPECT_TRUE(has(contents(file), R"("name":"square")"));
}

class clocks : public traced {};
INSTANTIATE_TEST_SUITE_P(with, clocks, testing::Values("openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

// As between hosts; here what they find is nearly nothing.
TEST_P(clocks, are_compared) {
  const finished end = job(3, {"--tern-trace", file}, {{"TERN_TRACE_COMPARE_CLOCKS", "1"}});
  ASSERT_EQ(end.code, 0) << end.all();
  expect_whole(file);
  EXPECT_TRUE(has(contents(file), R"("name":"tern clock")"));
}

} // namespace
