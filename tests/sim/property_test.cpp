// SPDX-License-Identifier: Apache-2.0
// The harness's own test: failures of every kind are seen and told, replays show the same, and runs
// do not depend on processes, addresses or heaps.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "child.hpp"

namespace tern::property {
namespace {

using test::finished;
using test::has;
using test::strings;

finished planted(const strings& arguments, const test::variables& environment = {}) {
  strings argv{PLANTED};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return test::run(argv, 50, {.environment = environment});
}
finished property(const std::string& name, strings arguments = {}) {
  arguments.insert(arguments.end(), {"--property", name});
  return planted(arguments);
}
std::string after(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  if (at == text.npos) return {};
  const std::size_t begin = at + word.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}
finished in_shell(const std::string& command) {
  return test::run({"/bin/sh", "-c", command}, 50, {.environment = {{}}});
}

TEST(property, what_holds_is_told_and_counted) {
  const auto run = property("holds", {"--seeds", "50"});
  EXPECT_EQ(run.code, 0) << run.all();
  EXPECT_TRUE(has(run.out, "holds: held for 50 seeds in ")) << run.all();
  EXPECT_EQ(run.err, "") << "there is no terminal";
}

struct planted_failure {
  const char *property, *kind, *text;
  int replay_code;
};
const planted_failure failures[] = {
    {"check_fails", "check", "steps (rank() != 1 || knob(\"steps\") < 5), on rank 1 at ", 1},
    {"afterwards_fails", "check", "counted (e.outcome.messages == ~std::uint64_t{0}), after the job", 1},
    {"body_throws", "exception", "out of the body: out of paper, on rank 1 at ", 1},
    {"handler_throws", "exit", "the process ended itself with code 1: ", 1},
    {"is_killed", "signal", "killed by signal 15 (Terminated)", 128 + 15},
    {"check_fails_and_is_killed", "check", "this comes first", 128 + 15},
    {"is_stuck", "deadlock", "nothing can happen any more", 1},
};

TEST(property, failures_of_each_kind_are_seen_and_replayed) {
  for (const auto& f : failures) {
    const auto run = property(f.property, {"--shrink", "0"});
    EXPECT_EQ(run.code, 1) << run.all();
    EXPECT_TRUE(has(run.out, std::string(f.property) + ": FAILED at seed ")) << run.all();
    EXPECT_TRUE(has(run.out, std::string("\n  ") + f.kind + ": ")) << run.all();
    EXPECT_TRUE(has(run.out, f.text)) << run.all();
    const std::string command = after(run.out, "replay: ");
    const auto again = in_shell(command);
    const int code = again.code > 1000 ? 128 + again.code - 1000 : again.code; // some shells become what they run
    EXPECT_EQ(code, f.replay_code) << command << again.all();
    const std::string what = after(run.out, std::string("\n  ") + f.kind + ": ");
    if (std::string(f.kind) != "exit" && std::string(f.kind) != "signal") {
      EXPECT_TRUE(has(again.err, what)) << what << " is not in\n" << again.all();
    }
  }
}

TEST(property, what_a_failure_wrote_is_shown) {
  const auto run = property("handler_throws", {"--shrink", "0"});
  EXPECT_TRUE(has(run.out, "out of ink")) << run.all();
  EXPECT_FALSE(has(run.out, "to see it again")) << run.all();
  const auto killed = property("check_fails_and_is_killed", {"--shrink", "0"});
  EXPECT_TRUE(has(killed.out, "and then it was killed by a signal: Terminated")) << killed.all();
}

TEST(property, a_case_that_takes_too_long_is_ended) {
  const auto run = property("takes_for_ever", {"--timeout", "0.2", "--shrink", "0"});
  EXPECT_EQ(run.code, 1) << run.all();
  EXPECT_TRUE(has(run.out, "time-out: it took longer than ")) << run.all();
  EXPECT_TRUE(has(run.out, "at seed 1,")) << run.all();
}

TEST(property, a_deadlock_may_be_allowed) {
  const auto run = property("may_be_stuck", {"--seeds", "20"});
  EXPECT_EQ(run.code, 0) << run.all();
}

TEST(property, the_first_seed_that_fails_is_told_whoever_is_faster) {
  for (const char* jobs : {"1", "3", "7"}) {
    const auto run = property("fails_seldom", {"--jobs", jobs, "--shrink", "0"});
    EXPECT_TRUE(has(run.out, "FAILED at seed 77, ")) << run.all();
  }
  EXPECT_TRUE(has(property("fails_seldom", {"--from", "79", "--shrink", "0"}).out, "FAILED at seed 140, "));
  EXPECT_TRUE(has(property("fails_seldom", {"--seeds", "76"}).out, "held for 76 seeds"));
}

TEST(property, a_failure_is_shrunk_to_the_smallest) {
  const auto run = property("has_a_smallest", {"--seeds", "500", "--jobs", "2", "--shrink", "40"});
  ASSERT_EQ(run.code, 1) << run.all();
  const std::string smaller = after(run.out, "smaller, found in ");
  for (const char* part : {"--case 'ranks=3,seed=", ",faults=delay", ";other=3,steps=7'"})
    EXPECT_TRUE(has(smaller, part)) << part << run.all();
  const auto again = in_shell(smaller.substr(smaller.find(": ") + 2));
  EXPECT_EQ(again.code, 1) << again.all();
  EXPECT_TRUE(has(again.err, "planted, with 7")) << again.all();
}

TEST(property, too_few_seeds_are_said_loudly) {
  const auto run = property("holds", {"--budget", "0"});
  EXPECT_EQ(run.code, 3) << run.all();
  EXPECT_TRUE(has(run.out, "holds: 0 of 200 seeds in ")) << run.all();
  EXPECT_TRUE(has(run.out, "TOO FEW SEEDS: 0 were tried, at least 200 are demanded")) << run.all();
  const auto enough = property("holds", {"--budget", "0", "--least", "0"});
  EXPECT_EQ(enough.code, 0) << enough.all();
}

TEST(property, the_environment_says_how_many_seeds) {
  const auto run = planted({"--property", "holds", "--seeds", "500"}, {{"TERN_SIM_SEEDS", "7"}});
  EXPECT_EQ(run.code, 0) << run.all();
  EXPECT_TRUE(has(run.out, "held for 7 seeds")) << run.all();
  EXPECT_EQ(planted({}, {{"TERN_SIM_SEEDS", "some"}}).code, 2);
}

TEST(property, must_fail_turns_success_round) {
  const auto fails = property("check_fails", {"--must-fail", "there are"});
  EXPECT_EQ(fails.code, 0) << fails.all();
  EXPECT_TRUE(has(fails.out, "check_fails: failed as it must at seed ")) << fails.all();
  const auto holds = property("holds", {"--must-fail", "", "--seeds", "20"});
  EXPECT_EQ(holds.code, 1) << holds.all();
  EXPECT_TRUE(has(holds.out, "holds: DID NOT FAIL")) << holds.all();
}

TEST(property, what_must_fail_says_which_invariant) {
  const auto other = property("check_fails", {"--must-fail", "there is no paper"});
  EXPECT_EQ(other.code, 1) << other.all();
  EXPECT_TRUE(has(other.out, "check_fails: ANOTHER INVARIANT BROKE than must, for no seed 'there is no paper':"))
      << other.all();
  EXPECT_TRUE(has(other.out, "\n  check: planted_properties.cpp:")) << other.all();
}

TEST(property, a_bug_is_there_when_it_is_wanted) {
  const auto without = property("has_a_bug", {"--seeds", "20"});
  EXPECT_EQ(without.code, 0) << without.all();
  const auto with = property("has_a_bug", {"--bug", "planted", "--shrink", "0"});
  EXPECT_EQ(with.code, 1) << with.all();
  const std::string command = after(with.out, "replay: ");
  EXPECT_TRUE(has(command, "--bug planted")) << with.all();
  EXPECT_EQ(in_shell(command).code, 1) << command;
  const auto caught = property("has_a_bug", {"--bug", "planted", "--must-fail", "the planted bug"});
  EXPECT_EQ(caught.code, 0) << caught.all();
  EXPECT_TRUE(has(caught.out, "has_a_bug: held for the same ")) << caught.all();
}

TEST(property, what_fails_without_the_bug_catches_none) {
  const auto run = property("check_fails", {"--bug", "planted", "--must-fail", "there are", "--shrink", "0"});
  EXPECT_EQ(run.code, 1) << run.all();
  EXPECT_TRUE(has(run.out, "check_fails: FAILS WITHOUT THE BUG TOO")) << run.all();
}

TEST(property, bad_arguments_are_named) {
  const auto refused = [](const strings& arguments, const std::string& part) {
    const auto run = planted(arguments);
    EXPECT_EQ(run.code, 2) << run.all();
    EXPECT_TRUE(has(run.err, part)) << run.all();
  };
  refused({"--nonsense"}, "unknown argument '--nonsense'");
  refused({"--seeds"}, "--seeds needs a value");
  refused({"--seeds", "0"}, "--seeds needs a number of at least 1, not '0'");
  refused({"--property", "none"}, "there is no property 'none'; there are: holds check_fails");
  refused({"--case", "ranks=1"}, "--case needs one --property");
  refused({"--property", "holds", "--case", "ranks=1"}, "lacks the knob 'steps'");
  refused({"--property", "holds", "--case", "ranks=1;stops=3"}, "names 'stops', which is no knob");
  refused({"--property", "holds", "--case", "ranks=1;steps=many"}, "has no number for 'steps'");
  refused({"--property", "holds", "--case", "ranks=none;steps=1"}, "ranks");
  EXPECT_EQ(planted({"--help"}).code, 0);
  EXPECT_TRUE(has(planted({"--list"}).out, "check_fails: ranks=2..4 steps=1..20"));
}

// Replay --------------------------------------------------------------------------------------------------------------

TEST(replay, two_runs_that_differ_are_a_failure) {
  const auto run = property("differs", {"--twice", "--shrink", "0"});
  EXPECT_EQ(run.code, 1) << run.all();
  EXPECT_TRUE(has(run.out, "replay: two runs differ: trace ")) << run.all();
}

std::vector<std::string> digests(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto held = line.find(": held "), digest = line.find(" digest ");
    if (held != line.npos && digest != line.npos) all.push_back(line.substr(0, held) + line.substr(digest, 8 + 16));
  }
  return all;
}

TEST(replay, traces_depend_on_the_seed_only) {
  const std::string seeds = REPLAY_SEEDS;
  struct surroundings {
    strings before, arguments;
    test::variables environment;
  };
  const std::vector<surroundings> all{
      {{}, {"--jobs", "1"}, {}},
      {{}, {"--twice"}, {}},
      {{}, {"--junk", "1"}, {}},
      {{}, {"--junk", "2"}, {{"MALLOC_PERTURB_", "165"}}},
      {{}, {}, {{"MALLOC_TOP_PAD_", "3000000"}, {"MALLOC_MMAP_THRESHOLD_", "4096"}}},
      {{"/usr/bin/setarch", "-R"}, {}, {}},
      {{}, {}, {{"LONG_ENVIRONMENT", std::string(50'000, 'x')}}},
  };
  const bool fixed = test::run({"/usr/bin/setarch", "-R", "/bin/true"}).code == 0;
  if (!fixed) std::printf("no setarch -R here: not tried with a fixed address layout\n");
  for (const char* program : {NET_PROPERTIES, MOBILE_PROPERTIES, PLANTED}) {
    const auto run = [&](const surroundings& s) {
      strings argv = s.before;
      argv.insert(argv.end(), {program, "--seeds", seeds, "--jobs", "2"});
      if (program == std::string(PLANTED)) argv.insert(argv.end(), {"--property", "holds"});
      argv.insert(argv.end(), s.arguments.begin(), s.arguments.end());
      return test::run(argv, 50, {.environment = s.environment});
    };
    const auto first = run({});
    const auto expected = digests(first.out);
    ASSERT_FALSE(expected.empty()) << first.all();
    for (const auto& s : all) {
      if (!s.before.empty() && !fixed) continue;
      const auto other = run(s);
      EXPECT_EQ(other.code, 0) << other.all();
      EXPECT_EQ(digests(other.out), expected) << other.all();
    }
  }
}

TEST(replay, one_case_gives_the_same_numbers_in_another_process) {
  const std::string text = "ranks=5,workers=2,seed=11,faults=delay:reorder:pause;calls=20,fibers=3,open=5";
  const strings argv{NET_PROPERTIES, "--property", "answers_match", "--case", text};
  const auto one = test::run(argv), two = test::run(argv);
  EXPECT_EQ(one.code, 0) << one.all();
  EXPECT_TRUE(has(one.out, "answers_match held: trace ")) << one.all();
  EXPECT_EQ(one.out, two.out);
  strings other = argv;
  other.back() = "ranks=5,workers=2,seed=12,faults=delay:reorder:pause;calls=20,fibers=3,open=5";
  EXPECT_NE(test::run(other).out, one.out);
}

} // namespace
} // namespace tern::property
