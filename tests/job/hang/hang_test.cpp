// SPDX-License-Identifier: Apache-2.0
/// \file
/// Jobs that can never go on say so and end; those that only wait for long do not.
#include "launcher.hpp"

#include <csignal>
#include <cstdio>
#include <memory>

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

constexpr const char* found = "nothing can happen any more, and ";

std::unique_ptr<child> start(const std::string& how, variables environment = {}, const temporary* folder = nullptr) {
  environment.try_emplace("TERN_RANKS", "2");
  environment.try_emplace("TERN_WORKERS", "1");
  environment.try_emplace("TERN_HETERO_DEVICES", "host"); // a driver's own threads may bring something
  return std::make_unique<child>(
      strings{HANG_PROGRAM, how},
      tern::test::surroundings{.folder = folder ? folder->path.string() : std::string(), .environment = environment});
}

class hang : public testing::Test {
protected:
  void SetUp() override {
    if (HANG_THREADS) GTEST_SKIP() << "the thread sanitizer has a thread, which might bring something";
  }
};

TEST_F(hang, each_form_is_told_of_and_ends) {
  struct form {
    std::string how, says;
    variables options = {};
  };
  const std::vector<form> forms{{"future", "'main': waits for future 0x"},
                                {"semaphore", "'main': waits for semaphore 0x"},
                                {"condition", "'main': waits for condition_variable 0x"},
                                {"collective", "waits for rank 1 in operation "},
                                {"call", "answer_never', since "},
                                {"epoch", "epoch 1 of rank 0: "},
                                {"object", "an exclusive invocation runs, "},
                                {"access", "'main': waits for "},
                                {"future", "'main': waits for future 0x", {{"TERN_WORKERS", "3"}}},
                                {"call", "answer_never', since ", {{"TERN_PROGRESS", "thread"}}},
                                {"collective", "waits for rank ", {{"TERN_RANKS", "12"}}},
                                {"semaphore", "and 1 rank has not ended", {{"TERN_RANKS", "1"}}}};
  std::vector<std::unique_ptr<child>> jobs; // side by side
  for (const form& f : forms) jobs.push_back(start(f.how, f.options));
  for (std::size_t i = 0; i < forms.size(); ++i) {
    EXPECT_EQ(jobs[i]->end(25), 1) << forms[i].how << jobs[i]->err;
    EXPECT_EQ(count(jobs[i]->err, found), 1) << forms[i].how << jobs[i]->err;
    EXPECT_TRUE(has(jobs[i]->err, forms[i].says)) << forms[i].how << jobs[i]->err;
    EXPECT_TRUE(has(jobs[i]->err, ", main function of rank 0\n")) << forms[i].how << jobs[i]->err;
    EXPECT_TRUE(has(jobs[i]->err, "look at what they wait for, and which code should have sent it; --tern-hang=report"))
        << jobs[i]->err;
  }
}

TEST_F(hang, waiting_for_long_is_none) {
  const strings forms{"thread", "timer", "limit", "read", "compute"};
  std::vector<std::unique_ptr<child>> jobs;
  for (const std::string& how : forms) jobs.push_back(start(how));
  for (std::size_t i = 0; i < forms.size(); ++i) {
    EXPECT_EQ(jobs[i]->end(30), 0) << forms[i] << jobs[i]->err;
    EXPECT_FALSE(has(jobs[i]->err, "nothing can happen") || has(jobs[i]->err, "progress")) << forms[i] << jobs[i]->err;
    EXPECT_FALSE(has(jobs[i]->out, "there is no form")) << forms[i];
  }
}

// What the program has beside Tern may bring something: a line says so, and the job goes on.
TEST_F(hang, what_others_may_end_is_not_ended) {
  const auto thread = start("thread-for-ever", {{"TERN_HANG_NOTICE", "3"}, {"TERN_RANKS", "1"}});
  const auto handler = start("handler", {{"TERN_HANG_NOTICE", "3"}});
  ASSERT_TRUE(thread->wait_for_err("writes a report of what each fiber waits for")) << thread->err;
  ASSERT_TRUE(handler->wait_for_err("writes a report of what each fiber waits for")) << handler->err;
  const std::string pid = std::to_string(process_of(thread->out, 0));
  EXPECT_TRUE(has(thread->err, "the rank waits and no progress has been made for 3 s (a thread that is not Tern's may "
                               "bring something yet): kill -USR1 " +
                                   pid + ", on "))
      << thread->err;
  EXPECT_TRUE(has(handler->err, "all 2 ranks wait ") &&
              has(handler->err, "(a handler of the signal SIGALRM may bring something yet)"))
      << handler->err;
  EXPECT_EQ(thread->end(1.5), -1) << thread->err;
  EXPECT_EQ(handler->end(0.1), -1) << handler->err;
  EXPECT_EQ(count(thread->err, "progress"), 1) << thread->err;
}

TEST_F(hang, the_option_keeps_the_job_and_ctrl_c_tells_who_waits) {
  const auto one = start("collective", {{"TERN_HANG", "report"}, {"TERN_RANKS", "3"}});
  ASSERT_TRUE(one->wait_for_err("which code should have sent it")) << one->err;
  EXPECT_EQ(one->end(1.5), -1) << "it has ended: " << one->err;
  EXPECT_EQ(count(one->err, found), 1) << one->err;
  const std::size_t before = one->err.size();
  one->signal(SIGINT);
  EXPECT_EQ(one->end(20), 130) << one->err;
  const std::string said = one->err.substr(before);
  EXPECT_EQ(said.find("tern: nothing goes on in this job; what its fibers wait for:\nrank 0: "), 0u) << said;
  EXPECT_TRUE(has(said, "waits for rank 2 in operation ")) << said;
  EXPECT_TRUE(has(said, "'main': waits for semaphore 0x")) << said;
  EXPECT_LE(count(said.substr(0, said.find("[tern ")), "\n"), 20) << said;
}

TEST_F(hang, nobody_looks_if_told_not_to) {
  const auto one = start("semaphore", {{"TERN_HANG", "off"}});
  ASSERT_TRUE(one->wait_for_out("ready", 2)) << one->err;
  EXPECT_EQ(one->end(5), -1) << one->err;
  EXPECT_FALSE(has(one->err, found)) << one->err;
}

TEST_F(hang, thousands_of_lines_are_cut_to_twenty) {
  const auto one = start("future", {{"TERN_HANG", "report"}, {"TERN_RANKS", "40"}});
  ASSERT_TRUE(one->wait_for_err("which code should have sent it")) << one->err;
  const std::size_t before = one->err.size();
  one->signal(SIGINT);
  EXPECT_EQ(one->end(20), 130) << one->err;
  const std::string said = one->err.substr(before);
  EXPECT_LE(count(said.substr(0, said.find("[tern ")), "\n"), 20) << said;
}

/// Under each MPI.
class mpi_hang : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (launcher(GetParam()).empty()) GTEST_SKIP() << "no " << GetParam() << " here, or a sanitizer";
  }
  std::unique_ptr<child> start(const std::string& how, variables environment) const {
    strings command = launcher(GetParam());
    command.insert(command.end(), {"-np", "2", HANG_PROGRAM, how});
    environment.insert({{"TERN_WORKERS", "1"}, {"TERN_HANG_NOTICE", "3"}, {"TERN_HETERO_DEVICES", "host"}});
    tern::test::prepare_for_launcher(environment, scratch_);
    return std::make_unique<child>(command, tern::test::surroundings{.environment = environment});
  }

private:
  const temporary scratch_;
};
INSTANTIATE_TEST_SUITE_P(with, mpi_hang, testing::Values("openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

TEST_P(mpi_hang, one_line_of_the_job_names_the_signal_for_a_report) {
  const auto one = start("collective", {});
  ASSERT_TRUE(one->wait_for_err("writes a report of what each fiber waits for")) << one->err;
  const std::string signal = GetParam() == "mpich" ? "USR2" : "USR1";
  EXPECT_TRUE(has(one->err, "all 2 ranks wait and no progress has been made for ") &&
              has(one->err, ": kill -" + signal + " " + std::to_string(process_of(one->out, 0)) + ", on "))
      << one->err;
  EXPECT_EQ(one->end(4), -1) << one->err;
  EXPECT_EQ(count(one->err, "progress"), 1) << one->err;
}

TEST_P(mpi_hang, a_rank_that_computes_or_sleeps_is_progress) {
  const auto computes = start("compute", {}), sleeps = start("timer", {});
  EXPECT_EQ(computes->end(30), 0) << computes->err;
  EXPECT_EQ(sleeps->end(30), 0) << sleeps->err;
  EXPECT_FALSE(has(computes->err + sleeps->err, "progress")) << computes->err << sleeps->err;
}

TEST_F(hang, stacks_name_all_inlined_functions_with_their_lines) {
  if (!HANG_STACKS) GTEST_SKIP() << "there are no stacks with Boost.Context";
  child one({HANG_INLINED}, {.environment = variables{{"TERN_RANKS", "1"}, {"TERN_WORKERS", "1"}}});
  EXPECT_EQ(one.end(20), 1) << one.err;
  int row = 0, rows = 0, solve = 0;
  ASSERT_EQ(std::sscanf(one.out.c_str(), "lines %d %d %d", &row, &rows, &solve), 3) << one.out;
  const auto line = [](int n) { return "inlined.cpp:" + std::to_string(n); };
  const auto inner = one.err.find(" wait_for_row"), middle = one.err.find(" exchange_rows"),
             outer = one.err.find(" solve(int) at ");
  ASSERT_TRUE(inner < middle && middle < outer && outer != std::string::npos) << one.err;
  EXPECT_TRUE(has(one.err.substr(inner, middle - inner), line(row) + ", inlined\n")) << one.err;
  EXPECT_TRUE(has(one.err.substr(middle, outer - middle), line(rows) + ", inlined\n")) << one.err;
  EXPECT_TRUE(has(one.err.substr(outer), line(solve) + "\n")) << one.err;
}

} // namespace
