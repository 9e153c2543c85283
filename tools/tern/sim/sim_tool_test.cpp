// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern sim` from outside. Most programs here are shell scripts that fail with some seeds; one is
/// a program on Tern.
#include "child.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <unistd.h>

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;
using tern::test::count;
using tern::test::finished;
using tern::test::has;
using tern::test::strings;
using tern::test::temporary;
using tern::test::variables;

strings command(strings arguments) {
  arguments.insert(arguments.begin(), {TERN_TOOL_PATH, "sim"});
  return arguments;
}

finished sim(strings arguments, variables more = {}, const std::string& folder = "") {
  return tern::test::run(command(std::move(arguments)), 50, {.folder = folder, .environment = std::move(more)});
}

/// `options` and a script that counts as a program of tern::run, and can say `seed N…` to know
/// whether it has one of these seeds.
strings script(strings options, const std::string& text) {
  const std::string seed = "echo 0 $$ >> ${TERN_STARTED:-/dev/null}; "
                           "seed() { for s; do case ,$TERN_SIM, in *,seed=$s,*) return 0;; esac; done; return 1; }; ";
  options.insert(options.end(), {"--", "/bin/sh", "-c", seed + text});
  return options;
}

/// Line `index` of those after the one with `mark`, without blanks before it.
std::string line_after(const std::string& text, const std::string& mark, int index) {
  auto at = text.find(mark);
  for (int i = 0; i < index && at != text.npos; ++i) at = text.find('\n', at) + 1;
  if (at == text.npos) return {};
  at = text.find_first_not_of(' ', at);
  return text.substr(at, text.find('\n', at) - at);
}

/// Processes whose command line contains `mark`; this one excepted.
int processes_with(const std::string& mark) {
  int found = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(getpid())) continue;
    std::ifstream file(entry.path() / "cmdline");
    if (has({std::istreambuf_iterator<char>(file), {}}, mark)) ++found;
  }
  return found;
}

/// A number of seconds that no other sleep on this machine has.
std::string unique_sleep() {
  static int next = 0;
  return std::to_string(2'000'000 + getpid()) + "." + std::to_string(1000 + next++);
}

} // namespace

TEST(sim, one_run_gets_its_world_and_gives_its_code) {
  const std::string show = "echo $TERN_TRANSPORT $TERN_SIM $TERN_TRACE; echo err >&2; exit 7";
  const auto r = sim(script({"-n", "8", "--workers", "2", "--faults", "delay:reorder", "--seed", "5", "--world",
                             "latency=2us,jitter=0", "--trace", "a b.json"},
                            show),
                     {{"TERN_TRANSPORT", "inproc"}});
  EXPECT_EQ(r.out, "sim ranks=8,workers=2,seed=5,latency=2us,jitter=0,faults=delay:reorder a b.json\n");
  EXPECT_EQ(r.err, "err\n");
  EXPECT_EQ(r.code, 7);
  // On top of what is there.
  EXPECT_EQ(sim(script({"-n", "3"}, show), {{"TERN_SIM", "ranks=2,seed=9"}, {"TERN_WORKERS", "4"}}).out,
            "sim ranks=3,seed=9,workers=1\n");
  const auto killed = sim(script({"-n", "2"}, "kill -9 $$"));
  EXPECT_EQ(killed.code, 137);
  EXPECT_EQ(count(killed.err, "\n"), 1) << killed.err;
  EXPECT_TRUE(has(killed.err, "SIGKILL") && has(killed.err, "ranks=2,seed=1")) << killed.err;
}

TEST(sim, a_program_that_never_starts_tern_fails) {
  const std::string told = " did not call tern::run, so nothing was simulated";
  const auto one = sim({"/bin/echo", "without", "marker"});
  EXPECT_EQ(one.code, 1);
  EXPECT_EQ(one.out, "without marker\n");
  EXPECT_EQ(one.err.rfind("tern: /bin/echo" + told, 0), 0u) << one.err;
  EXPECT_EQ(count(one.err, "\n"), 1) << one.err;
  EXPECT_EQ(sim({"--", "/bin/sh", "-c", "exit 7"}).code, 7);
  for (const strings& many : {strings{"--seeds", "3"}, strings{"--check"}}) {
    strings arguments = many;
    arguments.insert(arguments.end(), {"--jobs", "1", "--", "/bin/sh", "-c", "echo ran >> ran; echo said"});
    const temporary in;
    const auto r = sim(arguments, {}, in.path);
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.out, "said\n");
    EXPECT_EQ(r.err.rfind("tern: /bin/sh" + told, 0), 0u) << r.err;
    EXPECT_EQ(count(r.err, "\n"), 1) << r.err;
    std::ifstream ran(in / "ran");
    EXPECT_EQ(std::count(std::istreambuf_iterator<char>(ran), {}, '\n'), 1) << "the other seeds tell no more";
  }
  const auto failed = sim({"--seeds", "3", "--", "/bin/sh", "-c", "exit 4"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_TRUE(has(failed.err, "seed 1 fails (exit code 4, before it called tern::run)")) << failed.err;
}

TEST(sim, a_program_that_a_script_starts_has_started) {
  const std::string hello = TERN_ENDINGS_PROGRAM " hello";
  for (const std::string& text : {"exec " + hello, hello + "; true", "env -u NOTHING " + hello + " | cat"}) {
    const auto r = sim({"-n", "3", "--", "/bin/sh", "-c", text}, {{"TERN_STARTED", "/dev/null"}});
    EXPECT_EQ(r.code, 0) << text << r.all();
    EXPECT_EQ(r.out, "hello from 3\n") << text << r.all();
    EXPECT_FALSE(has(r.err, "tern: ")) << r.err;
  }
}

TEST(sim, runs_a_program_on_tern) {
  const auto one = sim({"-n", "64", "--workers", "2", "--", TERN_ENDINGS_PROGRAM, "hello"});
  EXPECT_EQ(one.code, 0) << one.all();
  EXPECT_EQ(one.out, "hello from 64\n") << one.all();
  const auto many = sim({"-n", "5", "--faults", "reorder", "--seeds", "12", "--", TERN_ENDINGS_PROGRAM, "hello"});
  EXPECT_EQ(many.code, 0) << many.all();
  EXPECT_EQ(many.out, "") << many.all();
  EXPECT_EQ(many.err.rfind("tern: 12 seeds, none fails (", 0), 0u) << many.all();
  EXPECT_EQ(count(many.err, "\n"), 1) << many.all();

  const strings program{TERN_ENDINGS_PROGRAM, "one-fails", "2"};
  strings arguments{"-n", "3", "--seeds", "9", "--from", "41", "--"};
  arguments.insert(arguments.end(), program.begin(), program.end());
  const auto failed = sim(arguments);
  EXPECT_EQ(failed.code, 1) << failed.all();
  const std::string mark = "tern: seed 41 fails (exit code 5), the first of 1; to see it again:\n";
  ASSERT_TRUE(has(failed.err, mark)) << failed.all();
  const std::string again = line_after(failed.err, mark, 1), traced = line_after(failed.err, mark, 2);
  const temporary in;
  const auto same = tern::test::run({"/bin/sh", "-c", again}, 50, {.folder = in.path.string()});
  EXPECT_EQ(same.code, 5) << again << same.all();
  EXPECT_TRUE(has(same.err, "seed=41")) << same.all();
  ASSERT_EQ(traced.rfind(TERN_TOOL_PATH " sim ", 0), 0u) << traced;
  const auto with_trace = tern::test::run({"/bin/sh", "-c", traced}, 50, {.folder = in.path.string()});
  EXPECT_EQ(with_trace.code, 5) << traced << with_trace.all();
  EXPECT_TRUE(fs::exists(in / "replay.json")) << with_trace.all();
}

TEST(sim, wrong_usage_is_one_clear_line) {
  const struct {
    strings arguments;
    int code;
    std::string text;
  } cases[] = {
      {{"-n", "3"}, 2, "no program given; for example: tern sim -n 8 -- ./app"},
      {{"--fast", "--", "true"}, 2, "unknown option --fast"},
      {{"extra", "--", "true"}, 2, "\"extra\" stands before --"},
      {{"--", "no-such-program"}, 127, "there is no program \"no-such-program\""},
      {{"--seeds", "3", "--", "./no-such-program"}, 127, "there is no program ./no-such-program"},
      {{"-n", "0", "--", "true"}, 2, "ranks cannot be \"0\"; allowed: a whole number from 1 to 1000000"},
      {{"-n", "many", "--", "true"}, 2, "ranks cannot be \"many\""},
      {{"-n", "", "--", "true"}, 2, "it is empty"},
      {{"-n", "3,seed=4", "--", "true"}, 2, "is not a number"},
      {{"--workers", "-1", "--", "true"}, 2, "workers cannot be \"-1\""},
      {{"--seed", "-1", "--", "true"}, 2, "seed cannot be \"-1\""},
      {{"--seed", "1e3", "--", "true"}, 2, "seed cannot be \"1e3\""},
      {{"--world", "pigeons=3", "--", "true"}, 2, "there is no word \"pigeons\"; there are ranks, "},
      {{"--world", "ranks=3", "-n", "4", "--", "true"}, 2, "ranks is given twice; as an option and in --world"},
      {{"--world", "seed=3", "--seeds", "4", "--", "true"}, 2, "seed is given twice"},
      {{"--faults", "flood", "--", "true"}, 2, "there is no fault \"flood\"; there are delay, "},
      {{"--faults", "delay,reorder", "--", "true"}, 2, "colons between faults"},
      {{"-n", "4", "--faults", "crash=4", "--", "true"}, 2, "ranks are 0 to 3"},
      {{"--seeds", "0", "--", "true"}, 2, "--seeds"},
      {{"--seeds", "-3", "--", "true"}, 2, "--seeds"},
      {{"--seeds", "many", "--", "true"}, 2, "many"},
      {{"--seeds", "3", "--from", "18446744073709551614", "--", "true"}, 2, "the largest there is"},
      {{"--seeds", "3", "--from", "-1", "--", "true"}, 2, "seed cannot be \"-1\""},
      {{"--seeds", "3", "--seed", "1", "--", "true"}, 2, "given by --from"},
      {{"--seeds", "3", "--trace", "t.json", "--", "true"}, 2, "--trace goes with one run"},
      {{"--seeds", "3", "--jobs", "0", "--", "true"}, 2, "--jobs"},
      {{"--seeds", "3", "--limit", "0", "--", "true"}, 2, "--limit: it must be"},
      {{"--seeds", "3", "--limit", "nan", "--", "true"}, 2, "--limit: it must be"},
      {{"--seeds", "3", "--budget", "0", "--", "true"}, 2, "--budget: it must be"},
      {{"--check", "--seed", "1", "--", "true"}, 2, "given by --from"},
      {{"--check", "--trace", "t.json", "--", "true"}, 2, "--trace goes with one run"},
      {{"--check", "--seeds", "0", "--", "true"}, 2, "--seeds"},
      {{"--check", "-n", "0", "--", "true"}, 2, "ranks cannot be \"0\""},
      {{"--from", "3", "--", "true"}, 2, "--from requires --seeds or --check"},
      {{"--jobs", "3", "--", "true"}, 2, "--jobs requires --seeds or --check"},
      {{"--limit", "3", "--", "true"}, 2, "--limit requires --seeds or --check"},
      {{"--budget", "3", "--", "true"}, 2, "--budget requires --seeds or --check"},
  };
  for (const auto& one : cases) {
    const auto r = sim(one.arguments);
    EXPECT_EQ(r.code, one.code) << one.text << r.all();
    EXPECT_TRUE(has(r.err, one.text)) << one.text << "\n" << r.err;
    EXPECT_EQ(r.err.rfind("tern: ", 0), 0u) << r.err;
    EXPECT_EQ(count(r.err, "\n"), 1) << r.err;
    EXPECT_EQ(r.out, "");
  }
  const auto base = sim({"--", "true"}, {{"TERN_SIM", "ranks=x"}});
  EXPECT_EQ(base.code, 2);
  EXPECT_TRUE(has(base.err, "TERN_SIM in the environment: ") && has(base.err, "\"x\"")) << base.err;
}

TEST(sim, each_seed_runs_once_with_a_world_of_its_own) {
  const temporary in;
  const auto r = sim(script({"-n", "3", "--seeds", "20", "--from", "9", "--jobs", "3"},
                            "echo $TERN_TRANSPORT $TERN_SIM ${TERN_TRACE-none} >> worlds; cat"),
                     {{"TERN_TRACE", "t.json"}, {"TERN_TRANSPORT", "inproc"}}, in.path);
  EXPECT_EQ(r.code, 0) << r.all();
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err.rfind("tern: 20 seeds, none fails (", 0), 0u) << r.err;
  std::ifstream file(in / "worlds");
  const std::string worlds{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(count(worlds, "\n"), 20) << worlds;
  for (int seed = 9; seed < 29; ++seed)
    EXPECT_EQ(count(worlds, "sim ranks=3,seed=" + std::to_string(seed) + " none\n"), 1) << worlds;
}

TEST(check, each_combination_gets_each_seed) {
  const temporary in;
  const auto r = sim(script({"--check", "--seeds", "2", "--from", "7", "--faults", "slow=0@3:delay=50us"},
                            "echo $TERN_SIM $TERN_DEBUG_MIGRATE >> worlds"),
                     {{"TERN_SIM", "workers=2"}}, in.path);
  EXPECT_EQ(r.code, 0) << r.all();
  EXPECT_EQ(r.out, "");
  std::ifstream file(in / "worlds");
  const std::string worlds{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(count(worlds, "\n"), 32) << worlds;
  for (const std::string seed : {"7", "8"})
    for (const std::string faults : {"", "delay=50us:", "reorder:", "delay=50us:reorder:"})
      for (const std::string move : {"\n", " rotate\n", " random\n", " reserialize\n"})
        EXPECT_EQ(count(worlds, "ranks=4,workers=2,seed=" + seed + ",faults=" + faults + "slow=0@3" + move), 1)
            << seed << faults << move << worlds;
  EXPECT_EQ(r.err.rfind("tern: checked 4 ranks, 16 combinations of 2 seeds: 32 runs, none fails (", 0), 0u) << r.err;
  EXPECT_EQ(line_after(r.err, "tern: ", 1), "faults          objects stay       rotate       random  reserialize");
  EXPECT_EQ(line_after(r.err, "tern: ", 4), "reorder                    2            2            2            2");
  EXPECT_EQ(count(r.err, "\n"), 6) << r.err;
}

TEST(check, a_failure_is_told_with_its_combination_and_command) {
  const temporary in;
  const auto r = sim(script({"--check", "-n", "3"},
                            "echo $TERN_SIM; case $TERN_SIM$TERN_DEBUG_MIGRATE in *seed=2,*=delayrandom) exit 3;; "
                            "*seed=[3-9]*) exit 9;; esac"),
                     {}, in.path);
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "ranks=3,seed=2,faults=delay\n");
  const std::string mark = "tern: seed 2 with faults delay and objects that move (debug-migrate random) fails (exit "
                           "code 3), the first of 23; to see it again:\n";
  EXPECT_EQ(r.err.rfind(mark, 0), 0u) << r.err;
  const std::string again = line_after(r.err, mark, 1), traced = line_after(r.err, mark, 2);
  EXPECT_EQ(again.rfind("TERN_SIM=ranks=3,seed=2,faults=delay TERN_DEBUG_MIGRATE=random /bin/sh -c ", 0), 0u) << again;
  for (const auto& command : {again, traced})
    EXPECT_EQ(tern::test::run({"/bin/sh", "-c", command}, 50, {.folder = in.path.string()}).code, 3) << command;
  EXPECT_TRUE(has(r.err, "\ntern: checked 3 ranks, 16 combinations of 20 seeds; 2")) << r.err;
  EXPECT_TRUE(has(r.err, "\n  delay                      2            2        fails            1\n") ||
              has(r.err, "\n  delay                      2            2        fails            2\n"))
      << r.err;
  // What the environment says besides is overruled, also where the command is typed.
  const auto set = sim(script({"--check"}, "[ $TERN_DEBUG_MIGRATE != none ]"), {{"TERN_DEBUG_MIGRATE", "rotate"}});
  EXPECT_TRUE(has(set.err, "seed 1 with faults none and objects that stay fails")) << set.err;
  EXPECT_TRUE(has(set.err, "TERN_SIM=ranks=4,seed=1 TERN_DEBUG_MIGRATE=none /bin/sh")) << set.err;
}

TEST(check, budget_and_ranks_are_told) {
  const auto r = sim(script({"--check", "-n", "1", "--jobs", "1", "--budget", "2.5"},
                            "[ -z \"$TERN_DEBUG_MIGRATE\" ] || sleep " + unique_sleep()));
  EXPECT_EQ(r.code, 0) << r.all();
  EXPECT_EQ(
      r.err.rfind("tern: checked 1 rank, whose objects cannot move, 16 combinations of 20 seeds: 1 of 320 runs in "
                  "2.5 s, none fails\n",
                  0),
      0u)
      << r.err;
}

TEST(sim, the_smallest_failing_seed_is_told) {
  // Seed 5 fails at once, while 3 still takes its time, and 6 would never end.
  const std::string mark = unique_sleep();
  const auto r =
      sim(script({"-n", "2", "--seeds", "50", "--jobs", "4"},
                 "echo \"it's $TERN_SIM\"; echo err >&2; seed 5 && exit 4; seed 3 && sleep 1 && kill -SEGV $$; "
                 "seed 6 && sleep " +
                     mark + "; seed 7 8 9 && exit 9; exit 0"),
          {{"TERN_TRANSPORT", "inproc"}});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "it's ranks=2,seed=3\nerr\n");
  const std::string told = "tern: seed 3 fails (killed by SIGSEGV), the first of 3; to see it again:\n";
  EXPECT_EQ(r.err.rfind(told, 0), 0u) << r.err;
  EXPECT_TRUE(has(r.err, "\n  TERN_SIM=ranks=2,seed=3 TERN_TRANSPORT=sim /bin/sh -c 'echo 0 $$ >>")) << r.err;
  EXPECT_TRUE(has(r.err, "echo \"it'\\''s $TERN_SIM\"")) << r.err;
  EXPECT_TRUE(
      has(r.err, "\n  " TERN_TOOL_PATH " sim --world ranks=2,seed=3 --trace replay.json -- /bin/sh -c 'echo 0 $$ >>"))
      << r.err;
  EXPECT_EQ(processes_with(mark), 0);
}

TEST(sim, the_end_of_much_output_is_kept) {
  const auto r =
      sim(script({"--seeds", "1"}, "i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; exit 1"));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(has(r.err, "the first of 1")) << r.err;
  EXPECT_EQ(r.out.rfind("tern: … ", 0), 0u) << r.out.substr(0, 200);
  EXPECT_LT(r.out.size(), 65u * 1024);
  EXPECT_GT(r.out.size(), 63u * 1024);
  EXPECT_TRUE(has(r.out, "\nline 29999\n"));
}

TEST(sim, what_takes_too_long_has_failed_and_is_ended_with_all_it_started) {
  const std::string mark = unique_sleep();
  const auto r = sim(script({"--seeds", "8", "--jobs", "2", "--limit", "2"},
                            "seed 4 || exit 0; trap '' TERM INT HUP; setsid sleep " + mark + " & sleep " + mark +
                                " & echo started; while :; do wait; sleep 1; done"));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(has(r.out, "started\n")) << r.out;
  EXPECT_TRUE(has(r.err, "tern: seed 4 fails (still running after 2 s), the first of 4; ")) << r.err;
  EXPECT_EQ(processes_with(mark), 0);
}

TEST(sim, what_a_seed_leaves_behind_is_ended) {
  const std::string mark = unique_sleep();
  const auto r = sim(script({"--seeds", "6", "--jobs", "2"}, "setsid sleep " + mark + " & exit 0"));
  EXPECT_EQ(r.code, 0) << r.all();
  EXPECT_EQ(processes_with(mark), 0);
}

TEST(sim, a_budget_ends_the_search) {
  const std::string mark = unique_sleep();
  const auto some = sim(script({"--seeds", "1000", "--jobs", "2", "--budget", "2.5"}, "seed 1 2 3 || sleep " + mark));
  EXPECT_EQ(some.code, 0) << some.all();
  EXPECT_EQ(some.err, "tern: 3 of 1000 seeds in 2.5 s, none fails\n");
  const auto none = sim(script({"--seeds", "1000", "--jobs", "2", "--budget", "0.5"}, "sleep " + mark));
  EXPECT_EQ(none.code, 1) << none.all();
  EXPECT_EQ(none.err, "tern: none of 1000 seeds came to its end in 0.5 s; give them more (--budget)\n");
  const auto unsure =
      sim(script({"--seeds", "9", "--jobs", "3", "--budget", "2.5"}, "seed 3 && exit 1; sleep " + mark));
  EXPECT_EQ(unsure.code, 1) << unsure.all();
  EXPECT_TRUE(has(unsure.err, "tern: seed 3 fails (exit code 1), and a smaller one may too; ")) << unsure.err;
  EXPECT_EQ(processes_with(mark), 0);
}

TEST(sim, interrupt_ends_everything) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const temporary in;
    const std::string mark = unique_sleep();
    tern::test::child child(command(script({"--seeds", "100", "--jobs", "3"},
                                           "seed 1 2 && exit 0; trap '' TERM INT HUP; setsid sleep " + mark +
                                               " & echo >> started; while :; do wait; sleep 1; done")),
                            {.folder = in.path, .environment = variables()});
    const auto started = [&] {
      std::ifstream file(in / "started");
      return std::count(std::istreambuf_iterator<char>(file), {}, '\n') >= 3;
    };
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!started() && std::chrono::steady_clock::now() < limit) usleep(5000);
    ASSERT_TRUE(started());
    child.signal(signal);
    EXPECT_EQ(child.end(), 128 + signal);
    EXPECT_TRUE(has(child.err, signal == SIGINT ? "tern: interrupted after " : "tern: ended by SIG")) << child.err;
    EXPECT_TRUE(has(child.err, "; 2 of 100 seeds, none fails\n")) << child.err;
    EXPECT_EQ(child.out, "");
    EXPECT_EQ(processes_with(mark), 0);
  }
}
