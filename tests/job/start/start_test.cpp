// SPDX-License-Identifier: Apache-2.0
/// \file
/// Jobs that cannot start, or fail: each ends all its ranks in time, with its exit code and one
/// clear message.
#include "start_test.hpp"

#include <csignal>
#include <filesystem>

namespace {

namespace fs = std::filesystem;
using namespace tern::test;

INSTANTIATE_TEST_SUITE_P(with, started, testing::Values("inproc", "openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

/// What makes no sense for ranks of one process.
class started_by_mpi : public started {};
INSTANTIATE_TEST_SUITE_P(with, started_by_mpi, testing::Values("openmpi", "mpich"),
                         [](const auto& chosen) { return chosen.param; });

/// Ended by itself, with `code`. MPICH's launcher kills the other ranks when one aborts, and then
/// sometimes ends with their signal instead: not zero is all that it promises.
void expect_code(const finished& end, int code, bool mpich) {
  EXPECT_TRUE(end.in_time()) << end.all();
  if (mpich)
    EXPECT_NE(end.code, 0) << end.all();
  else
    EXPECT_EQ(end.code, code) << end.all();
}

/// It did not start: code 2, the message once, and nothing of the program ran.
void expect_refused(const finished& end, const strings& parts, bool mpich = false) {
  expect_code(end, 2, mpich);
  EXPECT_EQ(count(end.err, "tern: cannot start: "), 1) << end.all();
  // clang puts the file into a lambda's name, so a part may stand there twice.
  for (const auto& part : parts) EXPECT_GE(count(end.err, part), 1) << part << "\n" << end.all();
  EXPECT_EQ(count(end.out, "hello"), 0) << end.all();
}

/// It failed while running: code 1, and each part once.
void expect_failed(const finished& end, const strings& parts, bool mpich = false) {
  expect_code(end, 1, mpich);
  for (const auto& part : parts) EXPECT_EQ(count(end.err, part), 1) << part << "\n" << end.all();
}

// Handlers ------------------------------------------------------------------------------------------------------------

TEST_P(started, functions_of_one_name_in_two_files_are_refused) {
  expect_refused(
      job(2, START_SAME_FUNCTION, {}),
      {"two handlers have the name", "report", "same_function_main.cpp", "same_function_other.cpp", "already_exists"},
      mpich());
}

TEST_P(started, lambdas_of_one_name_in_two_files_are_refused) {
  expect_refused(job(2, START_SAME_LAMBDA, {}),
                 {"two handlers have the name", "same_lambda_main.cpp", "same_lambda_other.cpp"}, mpich());
}

TEST(start, lambdas_of_one_file_do_not_collide) {
  const auto end = alone(START_TWO_LAMBDAS, {});
  EXPECT_EQ(end.code, 0) << end.all();
  EXPECT_EQ(end.out, "321\n") << end.all();
}

TEST_P(started_by_mpi, different_programs_in_one_job_are_refused) {
  const struct {
    strings programs;
    const char* culprit;
  } cases[] = {{{"-np", "1", START_ENDINGS, ":", "-np", "1", START_STRANGER}, "rank 1"},
               {{"-np", "1", START_STRANGER, ":", "-np", "1", START_ENDINGS}, "rank 1"},
               // Rank 0 sends to rank 3 at once. It must not run as another function there.
               {{"-np", "3", START_ENDINGS, "throw-handler", "3", ":", "-np", "1", START_STRANGER}, "rank 3"}};
  for (const auto& one : cases) {
    strings command = launcher(GetParam());
    command.insert(command.end(), one.programs.begin(), one.programs.end());
    const auto end = launch(command);
    expect_failed(end, {one.culprit + std::string(" runs another program than rank 0"), "start the same executable"},
                  mpich());
    EXPECT_EQ(count(end.out, "hello") + count(end.out, "met"), 0) << end.all();
  }
}

// Options -------------------------------------------------------------------------------------------------------------

TEST_P(started, unknown_option_suggests_the_nearest) {
  expect_refused(job(2, START_ENDINGS, {"hello", "--tern-wrokers=2"}),
                 {"unknown option --tern-wrokers", "did you mean --tern-workers?"}, mpich());
}

TEST_P(started, bad_values_name_their_origin_and_what_is_allowed) {
  const struct {
    strings arguments;
    variables environment;
    strings parts;
  } cases[] = {
      {{"--tern-workers=many"}, {}, {"option workers cannot be \"many\"", "on the command line", "allowed: "}},
      {{"--tern-workers=-1"}, {}, {"option workers cannot be \"-1\""}},
      {{"--tern-transport=pigeon"}, {}, {"cannot be \"pigeon\"", "auto, inproc, mpi, sim"}},
      {{"--tern-bind=glue"}, {}, {"cannot be \"glue\"", "one of none, core, numa"}},
      {{"--tern-stack-kib"}, {}, {"--tern-stack-kib needs a value"}},
      {{"-tern-ranks=4"}, {}, {"unknown option -tern-ranks; did you mean --tern-ranks?"}},
      {{"-tern-ranks", "4"}, {}, {"unknown option -tern-ranks; did you mean --tern-ranks?"}},
      {{"--tern_ranks=4"}, {}, {"unknown option --tern_ranks; did you mean --tern-ranks?"}},
      {{"--tern_ranks", "4"}, {}, {"unknown option --tern_ranks; did you mean --tern-ranks?"}},
      {{}, {{"TERN_RANKS", "0"}}, {"option ranks cannot be \"0\"", "TERN_RANKS in the environment", "1 to 100000"}},
      {{}, {{"TERN_RANKS", "abc"}}, {"option ranks cannot be \"abc\"", "TERN_RANKS in the environment"}},
      {{}, {{"TERN_UNHANDLED", "ignore"}}, {"option unhandled cannot be \"ignore\"", "one of stop, report"}},
      {{}, {{"TERN_SPIN_US", "1e9"}}, {"option spin-us cannot be \"1e9\"", "TERN_SPIN_US in the environment"}},
  };
  for (const auto& one : cases) {
    strings arguments{"hello"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    expect_refused(job(2, START_ENDINGS, arguments, one.environment), one.parts, mpich());
    if (under_mpi()) break; // launchers differ only in the process that prints it, and one case shows that
  }
}

TEST(start, options_files_that_cannot_be_read) {
  const temporary folder;
  const auto gone = (folder.path / "gone.json").string();
  const auto cut = folder.write("cut.json", "{\"workers\": ");
  const auto list = folder.write("list.json", "[1, 2]");
  const auto slip = folder.write("slip.json", "{\"wrokers\": 2}");
  const auto text = folder.write("text.json", "{\"workers\": \"2\"}");
  expect_refused(alone(START_ENDINGS, {"hello", "--tern-options=" + gone}), {"cannot read the options file " + gone});
  expect_refused(alone(START_ENDINGS, {}, {{"TERN_OPTIONS", gone}}), {gone, "named by TERN_OPTIONS"});
  expect_refused(alone(START_ENDINGS, {"hello", "--tern-options=" + cut}), {cut + " is no JSON", "line 1"});
  expect_refused(alone(START_ENDINGS, {"hello", "--tern-options=" + list}), {list + " holds array"});
  expect_refused(alone(START_ENDINGS, {"hello", "--tern-options=" + slip}),
                 {"unknown option \"wrokers\" in file " + slip, "did you mean workers?"});
  expect_refused(alone(START_ENDINGS, {"hello", "--tern-options=" + text}), {"option workers cannot be \"2\""});
  const auto good = folder.write("good.json", "{\"workers\": 1, \"ranks\": 3}");
  EXPECT_EQ(alone(START_ENDINGS, {"hello", "--tern-options", good}).out, "hello from 3\n");
}

TEST_P(started, unknown_variable_is_a_warning) {
  const auto end = job(2, START_ENDINGS, {"hello"}, {{"TERN_WROKERS", "2"}});
  EXPECT_EQ(end.code, 0) << end.all();
  EXPECT_EQ(end.out, "hello from 2\n") << end.all();
  EXPECT_EQ(count(end.err, "TERN_WROKERS is not one of Tern's; did you mean TERN_WORKERS?"), 1) << end.all();
}

TEST_P(started, help_is_printed_once_and_nothing_runs) {
  const auto end = job(3, START_ENDINGS, {"throw", "0", "--tern-help"});
  EXPECT_EQ(end.code, 0) << end.all();
  for (const char* name :
       {"bind", "log-level", "mpi", "options", "ranks", "spin-us", "stack-kib", "transport", "workers"})
    EXPECT_EQ(count(end.out, std::string("\n  --tern-") + name + "="), 1) << name << "\n" << end.all();
  EXPECT_EQ(count(end.out, "\n  --tern-help "), 1) << end.all();
  EXPECT_EQ(end.err, "");
}

TEST(start, mpi_without_a_plug_in) {
  const std::string library = START_NET_LIBRARY;
  if (library.empty()) GTEST_SKIP() << "static libraries, or a sanitizer";
  // The plug-ins lie beside the library, so it is taken from elsewhere.
  const temporary folder;
  fs::create_directories(folder.path / "lib");
  fs::create_directories(folder.path / "empty");
  const fs::path copy = folder.path / "lib" / fs::path(library).filename();
  fs::copy_file(library, copy);
  const variables environment{{"LD_PRELOAD", copy.string()}, {"TERN_PLUGIN_DIR", (folder.path / "empty").string()}};
  for (const std::string mpi : {"openmpi", "mpich"}) {
    const auto end = alone(START_ENDINGS, {"hello", "--tern-transport=mpi", "--tern-mpi=" + mpi}, environment);
    if (end.code == 0) GTEST_SKIP() << "Tern is installed on this machine, with its plug-ins";
    expect_refused(end, {"libtern_mpi_" + mpi + ".so", (folder.path / "empty").string(),
                         (folder.path / "lib/tern").string(), "lib" + mpi + "-dev"});
  }
}

TEST_P(started_by_mpi, bad_variables_of_the_transport_say_what_is_allowed) {
  const std::vector<std::pair<variables, strings>> cases{
      {{{"TERN_MPI_RINGS", "maybe"}},
       {"TERN_MPI_RINGS=maybe is none of on, unshared, reads, copies, heads and off", "use one of these"}},
      {{{"TERN_MPI_THREADS", "many"}}, {"TERN_MPI_THREADS=many is no thread level", "use single or funneled"}},
      {{{"TERN_MPI_THREADS", "single"}, {"TERN_WORKERS", "2"}},
       {"TERN_MPI_THREADS=single, but a rank with several workers needs funneled", "one worker a rank"}},
      {{{"TERN_MPI_FRAGMENT", "0"}}, {"TERN_MPI_FRAGMENT=0 is no number of bytes above 0"}},
      {{{"TERN_MPI_FRAGMENT", "1M"}}, {"TERN_MPI_FRAGMENT=1M is no number of bytes above 0"}},
  };
  for (const auto& [environment, parts] : cases) {
    expect_refused(job(1, START_ENDINGS, {"hello"}, environment), parts, mpich());
    if (!mpich()) break; // its launcher takes two seconds to end, and the same code reads the variables
  }
}

TEST_P(started_by_mpi, a_start_that_fails_on_one_rank_only_ends_all) {
  strings command = launcher(GetParam());
  command.insert(command.end(), {"-np", "1", START_ENDINGS, "hello", ":", "-np", "1", "/usr/bin/env",
                                 "TERN_WORKERS=many", START_ENDINGS, "hello"});
  expect_refused(launch(command), {"option workers cannot be \"many\""}, mpich());
}

// Failing -------------------------------------------------------------------------------------------------------------

TEST_P(started, ranks_that_do_different_things_together_are_told) {
  for (const char* how : {"disagree-on-root", "disagree-on-operation", "disagree-on-quiescence"}) {
    const auto end = job(2, START_ENDINGS, {how});
    expect_code(end, 1, mpich());
    // Both ranks notice, and either may be first.
    EXPECT_GE(count(end.err, "the ranks do different things together"), 1) << end.all();
    EXPECT_GE(count(end.err, "all ranks must call the same collectives"), 1) << end.all();
    EXPECT_GE(count(end.err, has(how, "quiescence") ? "quiesce (timers)" : "broadcast<int>(root"), 1) << end.all();
  }
}

TEST_P(started, exception_out_of_main_ends_all_ranks) {
  for (const std::string rank : {"0", "1"})
    expect_failed(job(3, START_ENDINGS, {"throw", rank}),
                  {"the main function failed on rank " + rank + ": std::out_of_range: no such cell"}, mpich());
}

TEST_P(started, error_of_terns_keeps_hint_and_code) {
  expect_failed(job(3, START_ENDINGS, {"throw-tern", "2"}),
                {"the main function failed on rank 2: the disk is full; empty it [io at ", "endings.cpp:"}, mpich());
}

TEST(start, exception_that_is_no_std_exception) {
  expect_failed(alone(START_ENDINGS, {"throw-int", "1"}, {{"TERN_RANKS", "3"}}),
                {"the main function failed on rank 1: an exception of type int"});
}

TEST_P(started, a_second_value_for_a_remote_promise_ends_all_ranks) {
  for (const char* first : {"1", "0"})
    expect_failed(job(3, START_ENDINGS, {"set-twice", first}),
                  {"rank 2 gave a second value or exception to a remote promise of rank 0",
                   "set each promise exactly once", "[already_exists at ", "endings.cpp:"},
                  mpich());
}

TEST_P(started, exception_in_a_sent_handler_ends_all_ranks) {
  expect_failed(
      job(3, START_ENDINGS, {"throw-handler", "2"}),
      {"std::domain_error: bad cell", "fail_in_handler", "on rank 2, for rank 0)", "use call instead of send"},
      mpich());
}

TEST_P(started, exceptions_in_sent_handlers_are_only_reported_if_wanted) {
  for (const std::string rank : {"2", "0"}) { // another rank, and the sender itself
    const auto end = job(3, START_ENDINGS, {"outlive", rank}, {{"TERN_UNHANDLED", "report"}});
    EXPECT_EQ(end.code, 0) << end.all();
    EXPECT_EQ(count(end.out, "went on with 3"), 1) << end.all();
    const std::string where = "' on rank " + rank + ", for rank 0)";
    // Each once: the exception, the handler, its rank, the sender's rank, and what could be done.
    for (const std::string& part :
         {std::string("std::domain_error: bad cell"), "fail_in_handler" + where, std::string("the disk is full"),
          std::string("empty it [io at "), std::string("an exception of type int")})
      EXPECT_EQ(count(end.err, part), 1) << part << "\n" << end.all();
    EXPECT_EQ(count(end.err, "fail_otherwise" + where), 2) << end.all();
    EXPECT_EQ(count(end.err, "use call instead of send"), 2) << end.all(); // the third has a hint of its own
    EXPECT_EQ(count(end.err, " r" + rank + " error] "), 3) << end.all();
    // The caller that waits for a call gets its exception; it is not reported elsewhere.
    EXPECT_EQ(count(end.out, "caught: std::out_of_range: no cell 3 (in handler"), 1) << end.all();
    EXPECT_EQ(count(end.err, "no cell 3"), 0) << end.all();
  }
  EXPECT_EQ(job(3, START_ENDINGS, {"outlive-with-code", "2"}, {{"TERN_UNHANDLED", "report"}}).code, 7);
}

TEST_P(started, exceptions_in_sent_handlers_end_the_job_unless_told_otherwise) {
  for (const variables& environment : {variables{}, variables{{"TERN_UNHANDLED", "stop"}}}) {
    const auto end = job(3, START_ENDINGS, {"outlive", "2"}, environment);
    expect_failed(end, {"std::domain_error: bad cell", "fail_in_handler' on rank 2, for rank 0)"}, mpich());
    EXPECT_EQ(count(end.out, "went on"), 0) << end.all();
    EXPECT_EQ(count(end.err, "the disk is full"), 0) << end.all();
  }
}

TEST(start, failure_is_one_line) {
  const auto end = alone(START_ENDINGS, {"throw", "2"}, {{"TERN_RANKS", "3"}, {"TERN_LOG_LEVEL", "warning"}});
  EXPECT_EQ(count(end.err, "\n"), 1) << end.all();
  EXPECT_EQ(count(end.err, "[tern "), 1) << end.all();
  EXPECT_EQ(count(end.err, " r2 error] "), 1) << end.all();
}

TEST_P(started, exit_code_is_the_largest_of_the_ranks) {
  EXPECT_EQ(job(3, START_ENDINGS, {"rank-as-code"}).code, 5);
  EXPECT_EQ(job(3, START_ENDINGS, {"one-fails", "1"}).code, 5);
}

TEST_P(started, exit_before_the_end_ends_all_ranks) {
  const std::string where = "called exit(7) before the job had ended";
  const auto expect = [&](const finished& end, const std::string& who, const std::string& what, int code) {
    expect_code(end, code, mpich());
    EXPECT_EQ(count(end.err, who + what), 1) << end.all();
  };
  for (const std::string rank : {"0", "2"}) {
    expect(job(3, START_ENDINGS, {"exit", rank}), "rank " + rank + " ", where, 7);
    expect(job(3, START_ENDINGS, {"exit-handler", rank}), "rank " + rank + " ", where, 7);
  }
  expect(job(2, START_ENDINGS, {"exit-well", "1"}), "rank 1 ", "called exit(0) before the job had ended", 1);
  expect(job(2, START_ENDINGS, {"exit-thread", "1"}), "a thread of the program ", where, 7);
}

TEST(start, forked_children_may_exit) {
  // A leak checker in the child takes what the other threads' stacks own, which it has not got, for
  // leaks.
  const auto end = alone(START_ENDINGS, {"exit-child"},
                         {{"TERN_RANKS", "2"}, {"ASAN_OPTIONS", "detect_stack_use_after_return=0:detect_leaks=0"}});
  EXPECT_EQ(end.code, 0) << end.all();
}

TEST_P(started, main_without_a_result_gives_zero) { EXPECT_EQ(job(2, START_ENDINGS, {"void"}).code, 0); }

TEST_P(started, codes_that_no_process_can_have_are_told_and_still_failures) {
  const auto one = job(2, START_ENDINGS, {"code", "256"}); // of the last rank
  EXPECT_EQ(one.code, 1) << one.all();
  EXPECT_EQ(count(one.err,
                  "r1 warning] the main function returned 256, of which the system keeps the last 8 bits as an exit "
                  "code: 0; Tern makes it 1, since 0 would mean success; return a number from 0 to 255"),
            1)
      << one.all();
  const auto negative = job(2, START_ENDINGS, {"code", "-1"});
  EXPECT_EQ(negative.code, 255) << negative.all();
  EXPECT_EQ(
      count(negative.err, "returned -1, of which the system keeps the last 8 bits as an exit code: 255; return a"), 1)
      << negative.all();
  const auto all = job(3, START_ENDINGS, {"code-of-all", "300"}); // the first speaks for all
  EXPECT_EQ(all.code, 44) << all.all();
  EXPECT_EQ(count(all.err, "the main function returned"), 1) << all.all();
  EXPECT_EQ(count(all.err, "r0 warning] the main function returned 300"), 1) << all.all();
  const auto fine = job(2, START_ENDINGS, {"code", "255"});
  EXPECT_EQ(fine.code, 255) << fine.all();
  EXPECT_EQ(count(fine.err, "the main function returned"), 0) << fine.all();
}

// Around the job ------------------------------------------------------------------------------------------------------

TEST_P(started, rank_is_unknown_outside_the_job) {
  const auto end = job(1, START_ENDINGS, {"ask-early"});
  EXPECT_EQ(end.code, 0) << end.all();
  for (const char* when : {"before", "after"})
    EXPECT_EQ(count(end.out, std::string(when) + ": this thread works for no rank"), 1) << end.all();
  EXPECT_EQ(count(end.out, "invalid_state"), 2) << end.all();
}

TEST(start, two_jobs_one_after_the_other) {
  const auto end = alone(START_ENDINGS, {"twice"}, {{"TERN_RANKS", "3"}});
  EXPECT_EQ(end.code, 0) << end.all();
  EXPECT_EQ(end.out, "codes 0 0, sum 33\n") << end.all();
}

TEST_P(started_by_mpi, second_job_under_mpi_is_refused) {
  const auto end = job(2, START_ENDINGS, {"twice"});
  EXPECT_TRUE(end.in_time()) << end.all();
  EXPECT_EQ(end.code, 2) << end.all();
  EXPECT_EQ(count(end.err, "MPI was finalised already in this process and cannot start again"), 1) << end.all();
}

TEST_P(started, a_signal_that_asks_it_to_ends_the_job) {
  for (const int number : {SIGTERM, SIGINT}) {
    const temporary scratch;
    variables environment{{"TERN_WORKERS", "1"}, {"TERN_RANKS", "3"}};
    strings command{START_ENDINGS, "for-ever"};
    if (under_mpi()) {
      environment.erase("TERN_RANKS");
      prepare_for_launcher(environment, scratch);
      command = under_launcher(3, START_ENDINGS, {"for-ever"});
    }
    child one(command, {.environment = environment});
    ASSERT_TRUE(one.wait_for_out("ready", 3)) << one.err;
    kill(process_of(one.out, 1), number);
    const int code = one.end(10);
    const std::string all = one.out + one.err;
    if (under_mpi())
      EXPECT_TRUE(code > 0) << code << all;
    else
      EXPECT_EQ(code, 128 + number) << all;
    const std::string rank = under_mpi() ? "rank 1" : "rank 0";
    EXPECT_EQ(count(one.err,
                    rank + " was asked to end: " + (number == SIGTERM ? "SIGTERM (Terminated)" : "SIGINT (Interrupt)") +
                        "; the job ends, with code " + std::to_string(128 + number)),
              1)
        << all;
  }
}

TEST(start, a_signal_that_the_program_handles_or_is_told_to_let_alone_is_its_own) {
  for (const char* const how : {"--tern-no-end-signals", "handles"}) {
    child one({START_ENDINGS, "for-ever", how}, {.environment = variables{{"TERN_RANKS", "2"}, {"TERN_WORKERS", "1"}}});
    ASSERT_TRUE(one.wait_for_out("ready", 2)) << one.err;
    one.signal(SIGTERM);
    EXPECT_EQ(one.end(10), has(how, "handles") ? 44 : 1000 + SIGTERM) << one.out << one.err;
    EXPECT_FALSE(has(one.err, "asked to end")) << one.err;
  }
}

} // namespace
