// SPDX-License-Identifier: Apache-2.0
/// \file
/// A program gets into trouble: what is written of it, how it ends, and that nothing is written
/// without trouble.
#include "launcher.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;
using tern::test::child;
using tern::test::count;
using tern::test::has;
using tern::test::launcher;
using tern::test::process_of;
using tern::test::strings;
using tern::test::temporary;
using tern::test::variables;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> files_in(const temporary& folder) {
  return {fs::directory_iterator(folder.path), fs::directory_iterator()};
}

/// The text of the one file there, as soon as it has `part` so many times; what there is after ten
/// seconds.
std::string report_in(const temporary& folder, const std::string& part, int times = 1) {
  std::string text;
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
       std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    const auto files = files_in(folder);
    if (files.size() == 1 && count(text = text_of(files[0]), part) >= times) return text;
  }
  ADD_FAILURE() << "no '" << part << "' in the report, but:\n" << text;
  return text;
}

/// The part that begins with the line `rank N: `.
std::string of_rank(const std::string& report, int rank) {
  const auto begin = report.find("\nrank " + std::to_string(rank) + ": ");
  if (begin == std::string::npos) return {};
  return report.substr(begin, std::min(report.find("\nrank ", begin + 1), report.find("\n-- ", begin)) - begin);
}

/// How the ranks of a job are started: "inproc", "openmpi" or "mpich".
class job : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (under_mpi() && launcher(GetParam()).empty()) GTEST_SKIP() << "no " << GetParam() << " here, or a sanitizer";
  }
  bool under_mpi() const { return GetParam() != "inproc"; }
  /// Runs in `folder`, where the report will be.
  child start(const temporary& folder, int ranks, const std::string& trouble, variables environment = {}) const {
    strings command{REPORT_TROUBLES, trouble};
    if (under_mpi()) {
      strings all = launcher(GetParam());
      all.insert(all.end(), {"-np", std::to_string(ranks)});
      command.insert(command.begin(), all.begin(), all.end());
      tern::test::prepare_for_launcher(environment, scratch_);
    } else {
      environment.try_emplace("TERN_RANKS", std::to_string(ranks));
    }
    environment.try_emplace("TERN_WORKERS", "1");
    environment.try_emplace("TERN_HANG", "off"); // else it would end first
    return child(command, {.folder = folder.path.string(), .environment = environment});
  }

private:
  const temporary scratch_; // Open MPI leaves its shared memory behind when ranks end badly
};
INSTANTIATE_TEST_SUITE_P(with, job, testing::Values("inproc", "openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

/// What makes no sense for ranks of one process, or for several.
class mpi_job : public job {};
INSTANTIATE_TEST_SUITE_P(with, mpi_job, testing::Values("openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });
class one_process : public job {};
INSTANTIATE_TEST_SUITE_P(with, one_process, testing::Values("inproc"), [](const auto& chosen) { return chosen.param; });

void expect_hang(const std::string& report) {
  const std::string first = of_rank(report, 0), last = of_rank(report, 1);
  EXPECT_TRUE(has(first, "1 call without answer:\n    of rank 1, ") && has(first, "answer_never', since ")) << report;
  EXPECT_TRUE(has(first, "'main': waits for future 0x") && has(first, ", since 0.")) << report;
  EXPECT_TRUE(has(first, "ago to rank 1: '") && has(first, "ago from rank 1: 'tern collective', ")) << report;
  EXPECT_TRUE(has(first, "epoch 'patience' of rank 0: 2 things go on here, and more elsewhere that was sent from here, "
                         "made at ") &&
              has(first, "troubles.cpp:"))
      << report;
  EXPECT_TRUE(has(last, "epoch 1 of rank 0: 1 thing goes on here\n")) << report;
  EXPECT_TRUE(has(last, "waits for rank 0 in operation ") && has(last, "'barrier at ")) << report;
  EXPECT_TRUE(has(last, "answer_never': waits for semaphore 0x")) << report;
  EXPECT_TRUE(has(last, "1 arrived and are not done")) << report;
  if (REPORT_STACKS) {
    EXPECT_TRUE(has(last, " wait_for_what_never_comes() ") && has(last, " tern::semaphore::acquire(")) << report;
  }
}

TEST_P(job, watchdog_writes_who_waits_for_what_once) {
  const temporary folder;
  child one = start(folder, 2, "hang", {{"TERN_WATCHDOG", "0.4"}});
  ASSERT_TRUE(one.wait_for_err("tern: report in tern-report-")) << one.err;
  const std::string report = report_in(folder, "all 2 ranks have reported");
  expect_hang(report);
  EXPECT_TRUE(has(report, "reason: the watchdog: no rank of this process has made progress for 0.")) << report;
  EXPECT_TRUE(has(report, std::string("/report_troubles hang\n"))) << report;
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  EXPECT_EQ(text_of(files_in(folder).at(0)), report) << "it was written again";
}

TEST_P(job, an_object_that_nobody_gets_is_named_with_who_waits_for_it) {
  const temporary folder;
  child one = start(folder, 2, "object", {{"TERN_WATCHDOG", "0.4"}});
  const std::string report = report_in(folder, "all 2 ranks have reported");
  const std::string first = of_rank(report, 0), last = of_rank(report, 1);
  EXPECT_TRUE(has(first, "  3 calls without answer:\n    of rank 1, ") && has(first, "vault::open', since ") &&
              has(first, "vault::look', since ") && has(first, "'migrate', since "))
      << report;
  EXPECT_TRUE(has(first, "'main': waits for future 0x")) << report;
  EXPECT_FALSE(has(first, "mobile object")) << report;
  EXPECT_TRUE(has(last, "  1 mobile object, of which 1 is waited for:\n    object 1:1 (") &&
              has(last, "vault), an exclusive invocation runs, 1 invocation waits, the first is '") &&
              has(last, "vault::look' of rank 0, 1 migration waits\n"))
      << report;
  EXPECT_TRUE(has(last, "vault::open': waits for semaphore 0x")) << report;
}

TEST_P(job, watchdog_ends_the_job_if_it_shall) {
  const temporary folder;
  child one = start(folder, 2, "hang", {{"TERN_WATCHDOG", "0.4"}, {"TERN_WATCHDOG_ABORT", "1"}});
  const int code = one.end(15);
  // MPICH's launcher promises no more when a rank aborts.
  EXPECT_TRUE(GetParam() == "mpich" ? code > 0 : code == 1) << code << one.err;
  EXPECT_TRUE(has(one.err, "the watchdog ends the job: no rank of this process has made progress for ")) << one.err;
}

TEST_P(job, computing_is_no_hang) {
  const temporary folder;
  child one = start(folder, 2, "compute", {{"TERN_WATCHDOG", "0.5"}});
  EXPECT_EQ(one.end(30), 0) << one.err;
  EXPECT_TRUE(files_in(folder).empty()) << text_of(files_in(folder)[0]);
}

TEST_P(job, nothing_is_written_without_trouble) {
  const temporary folder;
  child one = start(folder, 2, "none", {{"TERN_WATCHDOG", "20"}, {"TERN_REPORT", "x.txt"}});
  EXPECT_EQ(one.end(30), 0) << one.err;
  EXPECT_TRUE(files_in(folder).empty());
  EXPECT_FALSE(has(one.err, "report")) << one.err;
}

TEST_P(job, signal_asks_for_a_report_and_it_goes_on) {
  const temporary folder;
  child one = start(folder, 2, "hang");
  ASSERT_TRUE(one.wait_for_out("ready", 2)) << one.err;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // MPICH has the first for itself. Each rank is asked; under inproc they are one process.
  for (const int rank : {0, 1})
    if (rank == 0 || under_mpi()) kill(process_of(one.out, rank), GetParam() == "mpich" ? SIGUSR2 : SIGUSR1);
  ASSERT_TRUE(one.wait_for_err("tern: report in tern-report-")) << one.err;
  const std::string report = report_in(folder, "all 2 ranks have reported");
  expect_hang(report);
  EXPECT_TRUE(has(report, "reason: a signal asked for it\n")) << report;
  EXPECT_EQ(one.end(0.3), -1) << "it has ended: " << one.err;
}

TEST_P(mpi_job, peers_tell_of_a_stopped_rank) {
  const temporary folder;
  child one = start(folder, 3, "hang", {{"TERN_WATCHDOG", "1"}, {"TERN_FAILURE_LIMIT", "0"}});
  ASSERT_TRUE(one.wait_for_out("ready", 3)) << one.err;
  const int stopped = process_of(one.out, 2);
  kill(stopped, SIGSTOP);
  const std::string report = report_in(folder, "2 of 3 ranks have reported; missing: 2\n");
  EXPECT_TRUE(has(report, "rank 2: process " + std::to_string(stopped) + " on this host is stopped (SIGSTOP)"))
      << report;
  EXPECT_TRUE(has(of_rank(report, 0), "of rank 2, ")) << report;
  kill(stopped, SIGCONT);
}

// Crashes ------------------------------------------------------------------------------------------------------------

class crash : public job {
protected:
  void SetUp() override {
    if (REPORT_SANITIZED) GTEST_SKIP() << "sanitizers handle these signals themselves";
    job::SetUp();
  }
  /// \return the report.
  std::string crashes(const std::string& trouble, int signal) {
    const temporary folder;
    child one = start(folder, 2, trouble, {{"TERN_REPORT", "crash.txt"}});
    const int code = one.end(30);
    if (under_mpi())
      EXPECT_TRUE(code > 0 && code < 1000) << code << one.err; // the launchers'
    else
      EXPECT_EQ(code, 1000 + signal) << one.err;
    EXPECT_EQ(count(one.err, "tern: report in crash.txt\n"), 1) << one.err;
    err = one.err;
    return text_of(folder / "crash.txt");
  }
  /// What lies between the reason and the first rank.
  static std::string stack(const std::string& report) {
    const auto at = report.find("\nstack of ");
    return at == std::string::npos ? "" : report.substr(at, report.find("\n\n", at) - at);
  }
  std::string err;
};
INSTANTIATE_TEST_SUITE_P(with, crash, testing::Values("inproc", "openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

TEST_P(crash, invalid_access_in_a_handler_names_it_and_ends_as_without_us) {
  const std::string report = crashes("segv", SIGSEGV);
  EXPECT_TRUE(has(report, "reason: SIGSEGV (Segmentation fault) at address ")) << report;
  EXPECT_TRUE(has(stack(report), "worker 0 of 'tern r1', in fiber ") && has(stack(report), "crash_here':\n")) << report;
  EXPECT_TRUE(has(stack(report), "#0 write_to(int volatile*)") && has(stack(report), "crash_here>(")) << report;
  // The other process of an MPI job is asked for its part.
  EXPECT_TRUE(has(of_rank(report, 0), "1 call without answer:\n    of rank 1, ")) << report;
  EXPECT_EQ(count(report, "all 2 ranks have reported"), 1) << report;
}

TEST_P(crash, abort) {
  const std::string report = crashes("abort", SIGABRT);
  EXPECT_TRUE(has(report, "reason: SIGABRT (Aborted)\n")) << report;
  EXPECT_TRUE(has(stack(report), " abort ") && has(stack(report), "abort_here>(")) << report;
}

TEST_P(crash, call_of_no_function_names_who_called) {
  const std::string report = crashes("null-call", SIGSEGV);
  EXPECT_TRUE(has(stack(report), "call_nothing>(")) << report;
}

TEST_P(crash, stack_overflow_says_both) {
  const std::string report = crashes("overflow", SIGSEGV);
  EXPECT_EQ(count(err, "tern: stack overflow in fiber "), 1) << err;
  EXPECT_TRUE(has(err, "overflow_here', made at ")) << err;
  EXPECT_TRUE(has(stack(report), "recurse(int) in report_troubles, ") && has(stack(report), " times\n")) << report;
  EXPECT_TRUE(has(stack(report), "overflow_here>(")) << report;
}

TEST_P(crash, signal_from_outside_ends_it) {
  if (under_mpi()) GTEST_SKIP() << "the launchers' affair";
  EXPECT_TRUE(has(crashes("kill", SIGSEGV), "reason: SIGSEGV (Segmentation fault)\n"));
}

TEST_P(crash, that_the_programs_own_handler_survives_lets_the_job_end) {
  if (under_mpi()) GTEST_SKIP() << "the same";
  const temporary folder;
  child one = start(folder, 2, "survive", {{"TERN_REPORT", "r.txt"}});
  EXPECT_EQ(one.end(10), 0) << one.err;
  EXPECT_TRUE(has(one.out, "survived 0 of")) << one.out;
  EXPECT_EQ(count(text_of(folder / "r.txt"), "reason: SIGFPE (Floating point exception)\n"), 1);
}

TEST_P(crash, of_a_forked_child_waits_for_nobody) {
  if (under_mpi()) GTEST_SKIP() << "the same";
  const temporary folder;
  child one = start(folder, 2, "fork-abort", {{"TERN_REPORT", "r.txt"}});
  EXPECT_EQ(one.end(15), 0) << one.err;
  EXPECT_TRUE(has(one.out, "signal " + std::to_string(SIGABRT) + " ended 0 of")) << one.out;
  EXPECT_TRUE(files_in(folder).empty());
}

TEST_P(crash, is_told_of_on_standard_error_if_the_disk_is_full) {
  if (under_mpi()) GTEST_SKIP() << "the same";
  const temporary folder;
  child one = start(folder, 2, "segv", {{"TERN_REPORT", "/dev/full"}});
  EXPECT_EQ(one.end(30), 1000 + SIGSEGV) << one.err;
  EXPECT_TRUE(has(one.err, "cannot write the report /dev/full: No space left on device")) << one.err;
  EXPECT_TRUE(has(stack(one.err), "crash_here>(")) << one.err;
}

TEST_P(crash, nothing_is_written_unless_asked_for) {
  const temporary folder;
  child one = start(folder, 2, "segv");
  EXPECT_NE(one.end(30), 0) << one.err;
  EXPECT_TRUE(files_in(folder).empty());
  EXPECT_FALSE(has(one.err, "tern: report")) << one.err;
}

// Errors, and what programs ask for ----------------------------------------------------------------------------------

TEST_P(job, an_error_that_ends_the_job_is_reported) {
  const temporary folder;
  child one = start(folder, 2, "throw", {{"TERN_REPORT", "x.txt"}});
  const int code = one.end(30);
  EXPECT_TRUE(GetParam() == "mpich" ? code > 0 : code == 1) << code << one.err;
  EXPECT_EQ(count(one.err, "tern: report in x.txt\n"), 1) << one.err;
  const std::string report = text_of(folder / "x.txt");
  EXPECT_TRUE(has(report, "reason: the job ends: std::runtime_error: no such cell (in handler '")) << report;
  EXPECT_TRUE(has(report, "fail_alone")) << report;
  EXPECT_EQ(count(report, "all 2 ranks have reported"), 1) << report;
}

TEST_P(one_process, errors_of_all_ranks_at_once_do_not_cut_the_report_off) {
  for (int i = 0; i < 5 && !HasFailure(); ++i) {
    const temporary folder;
    child one = start(folder, 4, "throw-all", {{"TERN_REPORT", "x.txt"}});
    EXPECT_EQ(one.end(15), 1) << one.err;
    EXPECT_EQ(count(one.err, "tern: report in x.txt\n"), 1) << one.err;
    EXPECT_EQ(count(text_of(folder / "x.txt"), "all 4 ranks have reported"), 1) << text_of(folder / "x.txt");
  }
}

TEST_P(job, an_error_is_not_reported_unless_asked_for) {
  const temporary folder;
  child one = start(folder, 2, "throw");
  EXPECT_GT(one.end(30), 0) << one.err;
  EXPECT_TRUE(files_in(folder).empty());
  EXPECT_FALSE(has(one.err, "tern: report")) << one.err;
}

TEST_P(job, exceptions_in_dropped_futures_are_told_of_at_the_end) {
  const temporary folder;
  child one = start(folder, 2, "drop");
  EXPECT_EQ(one.end(30), 0) << one.err;
  EXPECT_EQ(count(one.err, "4 futures were dropped with an exception that was never retrieved:\n  "), 1) << one.err;
  EXPECT_TRUE(has(one.err, "std::out_of_range: no cell 0 (in handler '") && has(one.err, "no cell 2 (in handler '") &&
              has(one.err, "fail_in_call' on rank 1)") && has(one.err, "\n  and 1 more"))
      << one.err;
  EXPECT_FALSE(has(one.err, "no cell 7") || has(one.err, "no cell 8")) << one.err;
  EXPECT_FALSE(has(one.err, "broken")) << one.err;
}

TEST_P(job, and_end_it_if_they_shall) {
  const temporary folder;
  child one = start(folder, 2, "drop", {{"TERN_UNHANDLED", "stop-all"}});
  const int code = one.end(30);
  EXPECT_TRUE(GetParam() == "mpich" ? code > 0 : code == 1) << code << one.err;
  EXPECT_EQ(count(one.err, "a future was dropped with an exception that was never retrieved: "), 1) << one.err;
  EXPECT_TRUE(has(one.err, "no cell 0 (in handler '")) << one.err;
}

TEST_P(one_process, program_asks) {
  const temporary folder;
  child one = start(folder, 2, "write");
  EXPECT_EQ(one.end(30), 0) << one.err;
  const auto files = files_in(folder);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(has(one.out, files[0].filename().string() + " 0 of process")) << one.out;
  const std::string report = text_of(files[0]);
  EXPECT_TRUE(has(report, "reason: curiosity\nstack of thread ")) << report;
  EXPECT_TRUE(has(report, " tern::write_report(")) << report;
}

TEST_P(one_process, another_jobs_file_is_begun_anew) {
  const temporary folder;
  folder.write("r.txt", "Tern report, job 17\nold\n");
  child one = start(folder, 1, "write", {{"TERN_REPORT", "r.txt"}});
  EXPECT_EQ(one.end(30), 0) << one.err;
  const std::string report = text_of(folder / "r.txt");
  EXPECT_TRUE(has(report, "reason: curiosity\n")) << report;
  EXPECT_FALSE(has(report, "old\n")) << report;
}

TEST_P(one_process, a_file_that_is_no_report_is_added_to) {
  const temporary folder;
  folder.write("notes.txt", "Dear diary,\nno end of line");
  child one = start(folder, 2, "throw", {{"TERN_REPORT", "notes.txt"}});
  EXPECT_EQ(one.end(30), 1) << one.err;
  const std::string notes = text_of(folder / "notes.txt");
  EXPECT_EQ(notes.find("Dear diary,\nno end of line\nTern report, job "), 0u) << notes;
  EXPECT_EQ(count(notes, "Tern report, job "), 1) << notes;
  EXPECT_EQ(count(notes, "all 2 ranks have reported"), 1) << notes;
}

TEST_P(one_process, stderr_takes_a_report_and_keeps_the_rest) {
  const temporary folder;
  for (const std::string to : {"/dev/stderr", "log"}) {
    child one({"/bin/sh", "-c", "exec 2>log; echo before >&2; exec " REPORT_TROUBLES " throw"},
              {.folder = folder.path.string(),
               .environment = variables{{"TERN_RANKS", "2"}, {"TERN_WORKERS", "1"}, {"TERN_REPORT", to}}});
    EXPECT_EQ(one.end(30), 1);
    const std::string log = text_of(folder / "log");
    EXPECT_EQ(log.find("before\n"), 0u) << log;
    EXPECT_TRUE(has(log, "no such cell")) << log;
    EXPECT_EQ(count(log, "\nTern report, job "), 1) << log;
    EXPECT_EQ(count(log, "all 2 ranks have reported\n"), 1) << log;
    EXPECT_EQ(count(log, "tern: report in " + to + "\n"), 1) << log;
  }
}

TEST_P(one_process, a_link_is_not_followed_unless_it_was_named) {
  const temporary folder;
  child one({"/bin/sh", "-c", "ln -s victim tern-report-$$.txt; exec " REPORT_TROUBLES " write"},
            {.folder = folder.path.string(), .environment = variables{{"TERN_RANKS", "1"}, {"TERN_WORKERS", "1"}}});
  EXPECT_EQ(one.end(30), 0) << one.err;
  EXPECT_TRUE(has(one.err, "cannot write the report tern-report-")) << one.err;
  EXPECT_FALSE(fs::exists(folder / "victim"));
}

TEST_P(one_process, time_when_it_was_stopped_is_no_hang) {
  const temporary folder;
  child one = start(folder, 1, "rest", {{"TERN_WATCHDOG", "1.2"}});
  ASSERT_TRUE(one.wait_for_out("ready")) << one.err;
  std::this_thread::sleep_for(std::chrono::milliseconds(350)); // the watchdog has seen it rest
  one.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1800));
  one.signal(SIGCONT);
  EXPECT_EQ(one.end(30), 0) << one.err;
  EXPECT_TRUE(files_in(folder).empty()) << text_of(files_in(folder)[0]);
}

TEST_P(one_process, a_report_that_cannot_be_written_is_on_standard_error) {
  const temporary folder;
  for (const auto& [to, why] :
       {std::pair<std::string, std::string>{"no/such/folder/r.txt", "No such file or directory"},
        {"/dev/full", "No space left on device"}}) {
    child one = start(folder, 2, "write", {{"TERN_REPORT", to}});
    EXPECT_EQ(one.end(30), 0) << one.err;
    EXPECT_EQ(
        count(one.err, "tern: cannot write the report " + to + ": " + why + "; it follows here\nTern report, job "), 1)
        << one.err;
    EXPECT_EQ(count(one.err, "reason: curiosity\n"), 1) << one.err;
    EXPECT_TRUE(has(one.err, "\nrank 0: about ") && has(one.err, "\nrank 1: about ")) << one.err;
    EXPECT_FALSE(has(one.err, "report in")) << one.err;
    EXPECT_TRUE(has(one.out, " 0 of process")) << one.out; // no path
  }
}

TEST_P(one_process, the_watchdogs_last_report_is_not_lost_either) {
  const temporary folder;
  child one =
      start(folder, 2, "hang", {{"TERN_WATCHDOG", "0.4"}, {"TERN_WATCHDOG_ABORT", "1"}, {"TERN_REPORT", "/dev/full"}});
  EXPECT_EQ(one.end(15), 1) << one.err;
  EXPECT_TRUE(has(one.err, "cannot write the report /dev/full: No space left on device; it follows here")) << one.err;
  expect_hang(one.err);
}

TEST_P(one_process, thousands_of_fibers_take_few_lines) {
  const temporary folder;
  child one = start(folder, 1, "many", {{"TERN_WATCHDOG", "0.5"}, {"TERN_WORKERS", "2"}});
  ASSERT_TRUE(one.wait_for_err("tern: report in ")) << one.err;
  const std::string report = report_in(folder, "more like this: fibers ");
  EXPECT_TRUE(has(report, "and 1,999 more like this: fibers ")) << report;
  EXPECT_TRUE(has(report, "'main': waits for fiber ")) << report;
  EXPECT_LT(count(report, "\n"), 60) << report;
}

TEST_P(one_process, equal_ranks_are_told_of_once) {
  const temporary folder;
  child one = start(folder, 40, "hang", {{"TERN_WATCHDOG", "0.5"}});
  ASSERT_TRUE(one.wait_for_err("tern: report in ")) << one.err;
  const std::string report = report_in(folder, "all 40 ranks have reported");
  EXPECT_TRUE(has(report, " ranks differ from this one in numbers only: ")) << report;
  EXPECT_LT(count(report, "\nrank "), 15) << report;
}

} // namespace
