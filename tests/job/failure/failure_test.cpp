// SPDX-License-Identifier: Apache-2.0
/// \file
/// Ranks of an MPI job die or stop: the job ends in time, names the ranks, and leaves nothing
/// behind.
#include "launcher.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace {

using tern::test::child;
using tern::test::count;
using tern::test::has;
using tern::test::launcher;
using tern::test::process_of;
using tern::test::strings;
using tern::test::temporary;
using tern::test::variables;
using clock_type = std::chrono::steady_clock;

constexpr double in_time = 10; // seconds

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Is it there, and not only because its parent has not looked yet?
bool lives(int process) {
  const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat");
  const auto bracket = stat.rfind(')');
  return bracket != std::string::npos && stat.compare(bracket + 2, 1, "Z") != 0 &&
         has(text_of("/proc/" + std::to_string(process) + "/comm"), "failure_job");
}

class failing : public testing::TestWithParam<std::tuple<std::string, int>> {
protected:
  void SetUp() override {
    if (launcher(mpi()).empty()) GTEST_SKIP() << "no " << mpi() << " here, or a sanitizer";
  }
  static std::string mpi() { return std::get<0>(GetParam()); }
  static int ranks() { return std::get<1>(GetParam()); }
  strings command(const std::string& how) const {
    strings all = launcher(mpi());
    all.insert(all.end(), {"-np", std::to_string(ranks()), FAILURE_JOB, how});
    return all;
  }
  variables environment(variables given) const {
    tern::test::prepare_for_launcher(given, scratch_);
    given.try_emplace("TERN_WORKERS", "1");
    return given;
  }

  /// Starts the job, and waits until all ranks are there.
  void start(const std::string& how, const variables& given = {}) {
    one_.emplace(command(how),
                 tern::test::surroundings{.folder = scratch_.path.string(), .environment = environment(given)});
    ASSERT_TRUE(one_->wait_for_out("ready", ranks())) << one_->err;
    for (int r = 0; r < ranks(); ++r) processes_.push_back(process_of(one_->out, r));
  }
  void send(int rank, int signal) {
    kill(processes_.at(static_cast<std::size_t>(rank)), signal);
    since_ = clock_type::now();
  }
  std::string name_of(int rank) const {
    return "rank " + std::to_string(rank) + " (process " +
           std::to_string(processes_.at(static_cast<std::size_t>(rank))) + " on host ";
  }
  /// It ends in time, not well, and nothing of it is left.
  void expect_end() {
    const int code = one_->end(in_time);
    const double took = std::chrono::duration<double>(clock_type::now() - since_).count();
    EXPECT_NE(code, 0) << all();
    EXPECT_NE(code, -1) << "it goes on after " << took << " s: " << all();
    EXPECT_LT(took, in_time);
    std::printf("it took %.1f s, code %d\n", took, code);
    // The launcher may be gone before the last of those that it has killed.
    const auto limit = since_ + std::chrono::duration<double>(in_time);
    for (const int p : processes_) {
      while (lives(p) && clock_type::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_FALSE(lives(p)) << p << " lives on";
      if (lives(p)) kill(p, SIGKILL);
    }
  }
  std::string all() const { return "out: " + one_->out + "\nerr: " + one_->err; }

  const temporary scratch_;
  std::optional<child> one_;
  std::vector<int> processes_;
  clock_type::time_point since_;
};
std::string name_of_case(const testing::TestParamInfo<std::tuple<std::string, int>>& chosen) {
  return std::get<0>(chosen.param) + "_" + std::to_string(std::get<1>(chosen.param)) + "_ranks";
}
INSTANTIATE_TEST_SUITE_P(with, failing, testing::Combine(testing::Values("openmpi", "mpich"), testing::Values(2, 4)),
                         name_of_case);

TEST_P(failing, a_killed_rank_ends_the_job) {
  start("wait");
  send(ranks() - 1, SIGKILL);
  expect_end();
  // The launcher has seen it too, and may have been faster: then it says so itself.
  if (!has(one_->err, name_of(ranks() - 1))) {
    std::printf("the launcher was faster\n");
    return;
  }
  EXPECT_EQ(count(one_->err, name_of(ranks() - 1)), 1) << all();
  EXPECT_TRUE(has(one_->err, "was killed by SIGKILL") || has(one_->err, "has gone")) << all();
}

TEST_P(failing, a_killed_rank_ends_a_job_that_computes) {
  start("compute-for-ever");
  send(0, SIGKILL);
  expect_end();
}

TEST_P(failing, a_rank_killed_amid_large_messages_ends_the_job) {
  start("flood");
  send(ranks() - 1, SIGKILL);
  expect_end();
  EXPECT_FALSE(has(one_->err, "cannot read a message")) << all();
}

TEST_P(failing, a_stopped_rank_ends_the_job_and_all_say_what_they_know) {
  const int last = ranks() - 1;
  start("wait");
  send(last, SIGSTOP);
  expect_end();
  EXPECT_EQ(count(one_->err, name_of(last)), 1) << all();
  EXPECT_TRUE(has(one_->err, " has been stopped for 5.")) << all();
  EXPECT_TRUE(has(one_->err, "an MPI job cannot go on without one of its ranks")) << all();
  // Rank 0 called it; all had something of it at the first barrier.
  EXPECT_TRUE(has(one_->err, "waits for it in a call of '") && has(one_->err, "answer_never' since ")) << all();
  for (int r = 0; r < last; ++r)
    EXPECT_EQ(count(one_->err, "rank " + std::to_string(r) + " had its last message, ") +
                  count(one_->err, "rank " + std::to_string(r) + " knows of no message of it lately"),
              1)
        << r << all();
}

TEST_P(failing, a_stopped_rank_ends_a_job_that_computes) {
  start("compute-for-ever", {{"TERN_FAILURE_LIMIT", "1"}});
  send(0, SIGSTOP);
  expect_end();
  EXPECT_EQ(count(one_->err, name_of(0)), 1) << all();
}

TEST_P(failing, the_program_is_told_before) {
  start("handle", {{"TERN_FAILURE_LIMIT", "1"}});
  send(1, SIGSTOP);
  expect_end();
  for (int r = 0; r < ranks(); ++r)
    EXPECT_EQ(count(one_->out, "rank " + std::to_string(r) + " heard of rank 1 on '"), r == 1 ? 0 : 1) << r << all();
}

TEST_P(failing, a_rank_that_leaves_ends_the_job) {
  // It may leave, and the launcher kill the others, before these have said that they are ready.
  one_.emplace(command("exit"),
               tern::test::surroundings{.folder = scratch_.path.string(), .environment = environment({})});
  const int code = one_->end(2 * in_time);
  EXPECT_NE(code, 0) << all();
  EXPECT_NE(code, -1) << all();
}

TEST_P(failing, a_rank_that_goes_on_in_time_is_no_failure) {
  start("compute", {{"TERN_FAILURE_LIMIT", "4"}, {"TERN_FAILURE_SECONDS", "1.2"}});
  send(0, SIGSTOP);
  EXPECT_EQ(one_->end(1), -1) << all();
  send(0, SIGCONT);
  EXPECT_EQ(one_->end(20), 0) << all();
  EXPECT_FALSE(has(one_->err, "stopped")) << all();
}

TEST_P(failing, computing_is_no_failure) {
  for (const char* notes : {"on", "off"}) {
    const auto end =
        tern::test::run(command("compute"), 30,
                        {.folder = scratch_.path.string(),
                         .environment = environment({{"TERN_FAILURE_LIMIT", "1"},
                                                     {"TERN_MPI_NOTES", notes},
                                                     {"TERN_FAILURE_SECONDS", has(notes, "off") ? "2.5" : "1.5"},
                                                     {"TERN_PROGRESS", "thread"},
                                                     {"TERN_SILENCE_LIMIT", has(notes, "off") ? "1.5" : "0"}})});
    EXPECT_EQ(end.code, 0) << end.all();
    EXPECT_FALSE(has(end.err, "error")) << end.all();
  }
}

// Without what the host knows there is only silence.
TEST_P(failing, a_silent_rank_ends_the_job) {
  start("wait", {{"TERN_MPI_NOTES", "off"}, {"TERN_SILENCE_LIMIT", "2"}});
  send(ranks() - 1, SIGSTOP);
  expect_end();
  EXPECT_TRUE(has(one_->err, " has not been heard of for ")) << all();
  EXPECT_TRUE(has(one_->err, "rank " + std::to_string(ranks() - 1) + " (")) << all();
}

TEST_P(failing, a_stopped_rank_may_be_left_alone) {
  start("compute", {{"TERN_FAILURE_LIMIT", "0"}, {"TERN_FAILURE_SECONDS", "0.5"}});
  send(0, SIGSTOP);
  EXPECT_EQ(one_->end(6.5), -1) << all();
  send(0, SIGCONT);
  EXPECT_EQ(one_->end(20), 0) << all();
}

TEST_P(failing, a_failure_writes_the_others_report) {
  start("wait", {{"TERN_FAILURE_LIMIT", "1"}, {"TERN_REPORT", "failure.txt"}});
  send(1, SIGSTOP);
  expect_end();
  const std::string report = text_of(scratch_ / "failure.txt");
  EXPECT_TRUE(has(report, "reason: the job ends: rank 1 (process ")) << report;
  EXPECT_TRUE(has(report, std::to_string(ranks() - 1) + " of " + std::to_string(ranks()) + " ranks have reported"))
      << report;
  EXPECT_EQ(count(one_->err, "tern: report in failure.txt"), 1) << all();
}

} // namespace
