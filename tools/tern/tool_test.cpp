// SPDX-License-Identifier: Apache-2.0
/// \file
/// The `tern` command from outside: what it says, its exit codes, and that no process of a job is
/// left, however it ends.
#include "child.hpp"
#include "tools/tern/launch/launcher.hpp"
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tern/trace/recorder.hpp>
#include <tern/trace/trace.hpp>

using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;
using tern::test::finished;
using tern::test::has;
using tern::test::strings;
using tern::test::temporary;

/// The tool as a child of the test.
class tool : public tern::test::child {
public:
  explicit tool(strings arguments, const std::string& input = "/dev/null")
      : child(command(std::move(arguments)), {.input = input}) {}
  static strings command(strings arguments) {
    arguments.insert(arguments.begin(), TERN_TOOL_PATH);
    return arguments;
  }
};

finished run(strings arguments, const std::string& input = "/dev/null") {
  return tern::test::run(tool::command(std::move(arguments)), 50, {.input = input});
}

int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

/// Processes whose command line contains `mark`; this one excepted.
int processes_with(const std::string& mark) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(getpid())) continue;
    std::ifstream file(entry.path() / "cmdline");
    if (has({std::istreambuf_iterator<char>(file), {}}, mark)) ++count;
  }
  return count;
}

/// A number of seconds that no other sleep on this machine has.
std::string unique_sleep() {
  static int next = 0;
  return std::to_string(1'000'000 + getpid()) + "." + std::to_string(1000 + next++);
}

strings usable_mpis() {
  strings names;
#if defined(TERN_SANITIZED) && TERN_SANITIZED
  return names; // the reports would be about the MPI libraries
#endif
  for (const auto& one : tern::tool::find_mpis())
    if (one.launcher && one.plugin) names.push_back(one.name);
  return names;
}

} // namespace

TEST(help, version_and_examples) {
  EXPECT_EQ(run({"--version"}).out, "tern " TERN_VERSION "\n");
  const auto help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(has(help.out, "tern run -n 4 -- ./app")) << help.out;
  EXPECT_TRUE(has(run({"run", "--help"}).out, "--transport"));
}

TEST(trace, is_made_of_what_is_left_of_a_job) {
  const temporary in;
  {
    const tern::trace::recorder r({.folder = in / "t.json.parts", .ranks = 2});
    tern::trace::instant("here");
  }
  const auto done = run({"trace", in / "t.json"});
  EXPECT_EQ(done.code, 0) << done.all();
  EXPECT_TRUE(has(done.out, "1 event in ")) << done.out;
  EXPECT_TRUE(has(done.out, "missing: rank 1: nothing was recorded")) << done.out;
  std::ifstream file(in / "t.json");
  EXPECT_TRUE(nlohmann::json::parse(file).is_array());
  EXPECT_EQ(run({"trace", in / "t.json.parts", "-o", in / "other.json", "--remove"}).code, 0);
  EXPECT_TRUE(fs::exists(in / "other.json"));
  EXPECT_FALSE(fs::exists(in / "t.json.parts"));
}

TEST(usage, errors_are_one_clear_line) {
  const struct {
    strings arguments;
    int code;
    std::string text;
  } cases[] = {
      {{}, 2, "subcommand is required"},
      {{"fly"}, 2, "no subcommand \"fly\""},
      {{"trace"}, 2, "FILE is required"},
      {{"trace", "no-such-trace"}, 2, "neither no-such-trace nor a folder no-such-trace.parts"},
      {{"trace", "/etc/passwd"}, 2, "there is no folder /etc/passwd.parts"},
      {{"trace", "/etc"}, 2, "say with -o where"},
      {{"trace", "/etc", "-o", "no-such-folder/t.json"}, 1, "there are no parts of a trace in /etc"},
      {{"run", "-n", "0", "--", "true"}, 2, "from 1 to 100000"},
      {{"run", "-n", "-3", "--", "true"}, 2, "from 1 to 100000"},
      {{"run", "-n", "100001", "--", "true"}, 2, "from 1 to 100000"},
      {{"run", "-n", "many", "--", "true"}, 2, "many"},
      {{"run", "-n", "2"}, 2, "no program given; for example: tern run -n 4 -- ./app"},
      {{"run", "-n", "2", "--"}, 2, "no program given"},
      {{"run", "--fast", "--", "true"}, 2, "unknown option --fast"},
      {{"run", "extra", "--", "true"}, 2, "\"extra\" stands before --"},
      {{"run", "--", "no-such-program"}, 127, "there is no program \"no-such-program\" in PATH"},
      {{"run", "--", "./no-such-program"}, 127, "there is no program ./no-such-program"},
      {{"run", "--", "/"}, 126, "/ is a folder"},
      {{"run", "--", "/etc/passwd"}, 126, "/etc/passwd is not executable"},
      {{"run", "--transport", "pigeon", "--", TERN_ENDINGS_PROGRAM},
       2,
       "option transport cannot be \"pigeon\""}, // it may be the program's
      {{"run", "--mpi", "nompi", "--", "true"}, 2, "nompi"},
      {{"run", "--transport", "inproc", "--mpi", "mpich", "--", "true"}, 2, "--mpi goes with --transport mpi"},
      {{"run", "--bind", "glue", "--", "true"}, 2, "glue"},
      {{"run", "--workers", "0", "--", "true"}, 2, "workers"},
      {{"run", "-n", "2", "--gdb", "2", "--", "true"}, 2, "only ranks 0 to 1"},
      {{"run", "--per-socket", "--per-node", "--", "true"}, 2, "--per-"},
      {{"run", "-n", "5", "--per-node", "--", "true"}, 2, "too few for 5 ranks"},
  };
  for (const auto& one : cases) {
    const auto r = run(one.arguments);
    EXPECT_EQ(r.code, one.code) << r.err;
    EXPECT_TRUE(has(r.err, one.text)) << one.text << "\n" << r.err;
    EXPECT_EQ(r.err.rfind("tern: ", 0), 0u) << r.err;
    EXPECT_EQ(lines(r.err), 1) << r.err;
    EXPECT_EQ(r.out, "");
  }
}

TEST(usage, a_program_in_this_folder_is_suggested) {
  const temporary folder;
  const fs::path program = folder.path / "my-own-app";
  std::ofstream(program) << "#!/bin/sh\n";
  chmod(program.c_str(), 0755);
  const auto r =
      run({"run", "--", "sh", "-c", "cd " + folder.path.string() + " && exec " TERN_TOOL_PATH " run -- my-own-app"});
  EXPECT_EQ(r.code, 127);
  EXPECT_TRUE(has(r.err, "did you mean ./my-own-app?")) << r.err;
}

TEST(inproc, environment_arguments_and_exit_code) {
  const auto r =
      run({"run", "-n", "3", "--workers", "2", "--bind", "none", "--", "sh", "-c",
           "echo $TERN_RANKS $TERN_TRANSPORT $TERN_WORKERS $TERN_BIND \"$@\"; exit 4", "sh", "--flag", "--", "a b"});
  EXPECT_EQ(r.out, "3 inproc 2 none --flag -- a b\n");
  EXPECT_EQ(r.code, 4);
  EXPECT_EQ(run({"run", "echo", "without", "marker"}).out, "without marker\n");
}

TEST(inproc, input_from_a_file_is_passed_on) {
  const temporary folder;
  std::ofstream(folder.path / "in") << "words\n";
  EXPECT_EQ(run({"run", "--", "cat"}, folder.path / "in").out, "words\n");
}

TEST(inproc, a_killed_program_gives_one_line) {
  const auto killed = run({"run", "-n", "2", "--", "sh", "-c", "kill -9 $$"});
  EXPECT_EQ(killed.code, 137);
  EXPECT_EQ(lines(killed.err), 1) << killed.err;
  EXPECT_TRUE(has(killed.err, "SIGKILL") && has(killed.err, "memory ran out") && has(killed.err, "all 2 ranks"))
      << killed.err;
}

TEST(inproc, a_crash_is_told_with_the_command_for_gdb) {
  const temporary folder;
  const fs::path program = folder.path / "my=app";
  std::ofstream(program)
      << "#!/bin/sh\necho \"$TERN_RANKS $TERN_TRANSPORT $TERN_WORKERS $TERN_BIND\" \"$@\"\nkill -11 $$\n";
  chmod(program.c_str(), 0755);
  const auto r = run({"run", "--workers", "2", "-n", "3", "--bind", "none", "--transport", "inproc", "--", program,
                      "it's", "a b", "", "*", "--", "-n"});
  EXPECT_EQ(r.code, 139);
  const auto at = r.err.find("; to see where:\n  ");
  ASSERT_NE(at, std::string::npos) << r.err;
  EXPECT_TRUE(has(r.err, "SIGSEGV")) << r.err;
  EXPECT_EQ(lines(r.err), 2) << r.err;
  const std::string hint = r.err.substr(at + 18);
  EXPECT_EQ(hint, TERN_TOOL_PATH " run --gdb 0 -n 3 --workers 2 --bind none -- " + program.string() +
                      " 'it'\\''s' 'a b' '' '*' -- -n\n");
  // A shell takes it for the same words. (gdb is another, which shows what it is given.)
  std::ofstream(folder.path / "gdb") << "#!/bin/sh\nshift\nexec \"$@\"\n";
  chmod((folder.path / "gdb").c_str(), 0755);
  const auto again = tern::test::run({"/bin/sh", "-c", "PATH=" + folder.path.string() + ":$PATH; " + hint}, 50);
  EXPECT_EQ(again.out, "3 inproc 2 none it's a b  * -- -n\n") << again.all();
  EXPECT_EQ(again.out, r.out);
}

TEST(run, a_program_that_never_starts_tern_is_told_of) {
  const auto four = run({"run", "-n", "4", "--", "/bin/echo", "hi"});
  EXPECT_EQ(four.code, 0);
  EXPECT_EQ(four.out, "hi\n");
  EXPECT_EQ(four.err, "tern: warning: /bin/echo did not call tern::run, so it ran once, without ranks\n");
  const auto failed = run({"run", "--", "sh", "-c", "exit 3"});
  EXPECT_EQ(failed.code, 3);
  EXPECT_EQ(failed.err, "tern: warning: sh did not call tern::run, so it ran once, without ranks\n");
  // One that does, in whatever way it is started and ends; nor does a variable of another job
  // matter.
  const std::string hello = TERN_ENDINGS_PROGRAM " hello";
  const strings scripts{"exec " + hello, hello + "; exit 0", hello + " --tern-help",
                        hello + " --tern-no-such=1; exit 2"};
  for (const auto& script : scripts) {
    const auto r = run({"run", "-n", "2", "--", "env", "sh", "-c", script});
    EXPECT_EQ(r.code, has(script, "no-such") ? 2 : 0) << script << r.all();
    EXPECT_FALSE(has(r.err, "warning")) << script << r.all();
  }
  for (const auto& mpi : usable_mpis()) {
    const auto r = run({"run", "-n", "3", "--mpi", mpi, "--", "/bin/echo", "hi"});
    EXPECT_EQ(r.code, 0) << mpi;
    EXPECT_EQ(r.out, "hi\nhi\nhi\n") << mpi;
    EXPECT_EQ(r.err, "tern: warning: /bin/echo did not call tern::run, so it ran 3 times, each without knowing of the "
                     "others\n");
    const auto good = run({"run", "-n", "2", "--mpi", mpi, "--", "sh", "-c", "exec " + hello});
    EXPECT_EQ(good.code, 0) << mpi << good.all();
    EXPECT_FALSE(has(good.err, "warning")) << mpi << good.all();
  }
}

TEST(inproc, interrupt_ends_everything) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string mark = unique_sleep();
    tool child({"run", "-n", "4", "--", "sh", "-c", "sleep " + mark + " & echo started; wait"});
    ASSERT_TRUE(child.wait_for_out("started"));
    child.signal(signal);
    EXPECT_EQ(child.end(), 128 + signal);
    EXPECT_TRUE(has(child.err, signal == SIGINT ? "tern: interrupted after " : "tern: ended by SIG")) << child.err;
    EXPECT_TRUE(has(child.err, "all 4 ranks ended")) << child.err;
    EXPECT_EQ(processes_with(mark), 0);
  }
}

TEST(inproc, a_second_interrupt_kills) {
  const std::string mark = unique_sleep();
  tool child({"run", "--", "sh", "-c",
              "trap 'echo caught' INT; setsid sleep " + mark + " & echo started; while :; do wait; done"});
  ASSERT_TRUE(child.wait_for_out("started"));
  child.signal(SIGINT);
  ASSERT_TRUE(child.wait_for_out("caught"));
  child.signal(SIGINT);
  EXPECT_EQ(child.end(), 130);
  EXPECT_EQ(processes_with(mark), 0);
}

TEST(inproc, what_the_program_leaves_behind_is_ended) {
  const std::string mark = unique_sleep();
  EXPECT_EQ(run({"run", "--", "sh", "-c", "setsid sleep " + mark + " > /dev/null 2>&1 & exit 0"}).code, 0);
  EXPECT_EQ(processes_with(mark), 0);
}

TEST(inproc, gdb_runs_the_program) {
  if (!tern::tool::look_for_program("gdb")) GTEST_SKIP() << "no gdb";
  const temporary folder;
  std::ofstream(folder.path / "commands") << "run\nquit\n";
  const auto r = run({"run", "-n", "2", "--gdb", "1", "--", "/bin/echo", "hello"}, folder.path / "commands");
  EXPECT_TRUE(has(r.err, "rank 1")) << r.err;
  EXPECT_TRUE(has(r.out, "hello")) << r.out << r.err;
}

TEST(info, checkpoints) {
  const temporary folder;
  const std::string path = folder / "run";
  const auto saved = tern::test::run({TERN_CHECKPOINT_PROGRAM, path, "3"}, 50,
                                     {.environment = tern::test::variables{{"TERN_RANKS", "2"}}});
  ASSERT_EQ(saved.code, 0) << saved.err;
  const auto text = run({"info", path});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part : {"checkpoint-000003\n", "checkpoint-000002\n", "ranks     2, with ", "page: 20 objects, ",
                           "array     of ", "page, (20)\n", "roots     tern::mobile_array<"})
    EXPECT_TRUE(has(text.out, part)) << part << " is not in " << text.out;
  const auto json = nlohmann::json::parse(run({"info", "--json", path}).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["ranks"], 2);
  EXPECT_EQ(json[1]["arrays"][0]["extents"][0], 20);
  std::ofstream(path + "/checkpoint-000003/rank-00001", std::ios::app) << "x";
  const auto damaged = run({"info", path});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_TRUE(has(damaged.out, "checkpoint-000003: damaged\n")) << damaged.out;
  const auto none = run({"info", folder / "none"});
  EXPECT_NE(none.code, 0);
  EXPECT_TRUE(has(none.err, "there is no folder of checkpoints")) << none.err;
}

TEST(info, text_and_json) {
  const auto text = run({"info"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word : {"machine", "binding", "inproc", "devices      host", "MADV_GUARD_INSTALL"})
    EXPECT_TRUE(has(text.out, word));
  const auto json = nlohmann::json::parse(run({"info", "--json"}).out);
  EXPECT_EQ(json["tern"]["version"], TERN_VERSION);
  EXPECT_GE(json["machine"]["cpus"], 1);
  EXPECT_EQ(json["transports"].size(), 3u);
  ASSERT_GE(json["devices"].size(), 3u); // OpenCL's, or why there are none
  EXPECT_EQ(json["devices"][0]["name"], "host");
  for (const auto& device : json["devices"]) EXPECT_NE(device.contains("why_not"), device["usable"].get<bool>());
}

TEST(options, of_all_layers_and_what_is_set) {
  const tern::test::surroundings around{.environment = tern::test::variables{{"TERN_STACK_KIB", "128"}}};
  const auto text = tern::test::run(tool::command({"options"}), 50, around);
  EXPECT_EQ(text.code, 0) << text.all();
  for (const char* name : {"balance", "hetero-policy", "log-level", "mobile-memory", "record", "transport"})
    EXPECT_TRUE(has(text.out, std::string("\n  --tern-") + name + "=TEXT ")) << name << "\n" << text.all();
  EXPECT_TRUE(has(text.out, "TERN_STACK_KIB, default 256, now 128 (environment)")) << text.all();
  const auto table = tern::test::run(tool::command({"options", "--markdown"}), 50, around);
  EXPECT_EQ(table.code, 0) << table.all();
  EXPECT_TRUE(table.out.starts_with("| option | environment | default | meaning |\n")) << table.all();
  EXPECT_TRUE(has(table.out, "\n| `--tern-stack-kib=INTEGER` | `TERN_STACK_KIB` | `256` | ")) << table.all();
}

TEST(bench, runs_what_is_there) {
  const temporary folder;
  const auto script = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path / name) << "#!/bin/sh\n" << text << "\n";
    chmod((folder.path / name).c_str(), 0755);
  };
  // Tern's own, as far as they are built.
  const auto listed = run({"bench", "--list", "sim"});
  const bool built = fs::exists(fs::path(TERN_TOOL_PATH).parent_path().parent_path() / "bench" / "bench_sim");
  EXPECT_EQ(listed.code, built ? 0 : 1) << listed.all();
  EXPECT_EQ(has(listed.err, "\"sim\" is not built; to build it:\n  cmake "), !built) << listed.all();
  // A build without any.
  const fs::path bin = folder.path / "the build" / "bin", tern = bin / "tern";
  fs::create_directories(bin);
  fs::copy_file(TERN_TOOL_PATH, tern);
  const auto elsewhere = [&](const strings& arguments) {
    strings all{tern, "bench"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return tern::test::run(all, 50, {.folder = folder.path.string()});
  };
  const std::string names =
      "balance, collectives, cuda, fiber, global, grain, hetero, jacobi3d, mesh, mobile, nbody, net, sim, task, trace";
  EXPECT_EQ(elsewhere({"--list"}).out, "not built: " + names +
                                           "\nto build one of them (without --target: all)\n  in the folder of Tern's "
                                           "sources: cmake --preset release && cmake --build build/release --target "
                                           "bench_balance\n");
  std::ofstream(folder.path / "the build" / "CMakeCache.txt") << "\n";
  const auto list = elsewhere({"--list"});
  EXPECT_EQ(list.code, 0) << list.all();
  EXPECT_TRUE(has(list.out, "\n  cmake -DTERN_BUILD_BENCH=ON 'the build' && cmake --build 'the build' --target bench_"))
      << list.out;
  const auto json = elsewhere({"--list", "--json"});
  EXPECT_EQ(json.out, "");
  EXPECT_TRUE(has(json.err, names)) << json.err;
  const auto not_built = elsewhere({"net"});
  EXPECT_EQ(not_built.code, 1);
  EXPECT_EQ(not_built.err,
            "tern: the benchmark \"net\" is not built; to build it:\n  cmake -DTERN_BUILD_BENCH=ON 'the build' && "
            "cmake --build 'the build' --target bench_net\n");
  const auto nothing = elsewhere({});
  EXPECT_EQ(nothing.code, 1);
  EXPECT_TRUE(has(nothing.err, "there can be " + names + "; to build them:\n  cmake ")) << nothing.err;
  EXPECT_EQ(elsewhere({"gold"}).code, 2);
  setenv("TERN_BENCH_DIR", folder.path.c_str(), 1);
  const auto none = run({"bench"});
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(has(none.err, "no benchmark programs")) << none.err;
  script("bench_good", "echo good \"$@\"");
  script("bench_bad", "exit 5");
  const auto all = run({"bench", "--json"});
  EXPECT_EQ(all.code, 1);
  EXPECT_EQ(all.out, "good --json\n");
  EXPECT_TRUE(has(all.err, "benchmark bad failed with exit code 5")) << all.err;
  EXPECT_EQ(run({"bench", "good", "--pairs", "3"}).out, "good:\ngood --pairs 3\n");
  EXPECT_EQ(run({"bench", "good", "--strict", "--allow-absent", "cuda", "--allow-absent", "StarPU lws", "--record", "a",
                 "--compare", "b"})
                .out,
            "good:\ngood --strict --allow-absent cuda --allow-absent StarPU lws --record a --compare b\n");
  EXPECT_EQ(run({"bench", "--allow-absent", "cuda", "good", "--tiny"}).out, "good:\ngood --tiny --allow-absent cuda\n");
  EXPECT_EQ(run({"bench", "good", "--tiny", "--record", "a"}).code, 2);
  const auto unknown = run({"bench", "gold"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "no benchmark \"gold\"; there are: bad, good")) << unknown.err;
  const auto nobody = run({"bench", "--ablation"});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_TRUE(has(nobody.err, "no benchmark here has --ablation")) << nobody.err;
  script("bench_able", "[ \"$1\" != --help ] && echo able \"$@\" || echo '  --ablation  What each brings'");
  EXPECT_EQ(run({"bench", "--ablation"}).out, "able:\nable --ablation\n");
  const auto not_able = run({"bench", "able", "good", "--ablation"});
  EXPECT_EQ(not_able.code, 2);
  EXPECT_EQ(not_able.out, "");
  EXPECT_TRUE(has(not_able.err, "the benchmark \"good\" has no --ablation; these have: able")) << not_able.err;
  EXPECT_EQ(run({"bench", "able", "--ablation", "--json"}).code, 2);
  unsetenv("TERN_BENCH_DIR");
}

TEST(mpi, runs_under_each) {
  for (const auto& mpi : usable_mpis()) {
    const auto r = run({"run", "-n", "2", "--mpi", mpi, "--", TERN_RANKS_PROGRAM, "single"});
    EXPECT_EQ(r.code, 0) << mpi << r.err;
    EXPECT_TRUE(has(r.out, " 0 failed")) << r.out;
    EXPECT_EQ(r.err, "") << mpi;
  }
}

TEST(mpi, a_rank_killed_ends_the_job_with_one_line) {
  for (const auto& mpi : usable_mpis()) {
    tool child({"run", "-n", "3", "--mpi", mpi, "--", TERN_RANKS_PROGRAM, "hold"});
    ASSERT_TRUE(child.wait_for_out(" process ", 3)) << child.out << child.err;
    ASSERT_TRUE(child.wait_for_out("\n", 3));
    const auto at = child.out.find("rank 1 process ");
    ASSERT_NE(at, std::string::npos);
    const auto start = std::chrono::steady_clock::now();
    kill(static_cast<pid_t>(std::stol(child.out.substr(at + 15))), SIGKILL);
    EXPECT_EQ(child.end(), 137) << child.err;
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s); // the promise, not a measurement
    EXPECT_EQ(lines(child.err), 1) << mpi << ": " << child.err;
    EXPECT_EQ(lines(child.out), 3) << mpi << ": " << child.out;
    EXPECT_TRUE(has(child.err, "SIGKILL") && has(child.err, "all 3 ranks ended")) << child.err;
  }
}

TEST(mpi, a_crash_is_told_with_the_rank_and_the_command_for_gdb) {
  for (const auto& mpi : usable_mpis()) {
    tool child({"run", "-n", "3", "--mpi", mpi, "--workers", "1", "--", TERN_RANKS_PROGRAM, "hold", "it's"});
    ASSERT_TRUE(child.wait_for_out("\n", 3)) << child.out << child.err;
    const auto at = child.out.find("rank 2 process ");
    ASSERT_NE(at, std::string::npos);
    kill(static_cast<pid_t>(std::stol(child.out.substr(at + 15))), SIGSEGV);
    EXPECT_EQ(child.end(), 139) << child.err;
    const auto told = [&](const std::string& who, const std::string& where, const std::string& rank) {
      return "tern: " + who + " was killed by SIGSEGV (Segmentation fault); all 3 ranks ended; to see where" + where +
             ":\n  " TERN_TOOL_PATH " run --gdb " + rank + " -n 3 --mpi " + mpi +
             " --workers 1 -- " TERN_RANKS_PROGRAM " hold 'it'\\''s'\n";
    };
    // MPI's own handler may speak before. MPICH's launcher now and then names a rank that it has
    // killed itself.
    const bool unknown =
        mpi == "mpich" && child.err.ends_with(told("a rank", ", for each RANK that it may be", "RANK"));
    EXPECT_TRUE(unknown || child.err.ends_with(told("rank 2", "", "2"))) << child.err;
  }
}

TEST(mpi, abort_keeps_the_code) {
  for (const auto& mpi : usable_mpis()) {
    const auto r = run({"run", "-n", "2", "--mpi", mpi, "--", TERN_RANKS_PROGRAM, "abort"});
    EXPECT_EQ(r.code, 7) << mpi << r.err;
    EXPECT_EQ(lines(r.err), 1) << mpi << ": " << r.err;
  }
}

TEST(mpi, interrupt_ends_all_ranks) {
  for (const auto& mpi : usable_mpis()) {
    tool child({"run", "-n", "3", "--mpi", mpi, "--", TERN_RANKS_PROGRAM, "hold"});
    ASSERT_TRUE(child.wait_for_out("\n", 3)) << child.out << child.err;
    strings ranks;
    std::istringstream words(child.out);
    for (std::string word; words >> word;)
      if (word == "process" && words >> word) ranks.push_back(word);
    child.signal(SIGINT);
    EXPECT_EQ(child.end(), 130) << mpi;
    EXPECT_TRUE(has(child.err, "tern: interrupted after ") && has(child.err, "all 3 ranks ended")) << child.err;
    EXPECT_EQ(ranks.size(), 3u);
    for (const auto& rank : ranks) EXPECT_FALSE(fs::exists("/proc/" + rank)) << mpi;
  }
}

TEST(mpi, what_is_missing_is_named) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const auto r = run({"run", "--mpi", "mpich", "--", "/bin/true"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(has(r.err, "no launcher of MPICH in PATH")) << r.err;
}

TEST(mpi, gdb_on_one_rank) {
  if (!tern::tool::look_for_program("gdb")) GTEST_SKIP() << "no gdb";
  const temporary folder;
  std::ofstream(folder.path / "commands") << "run\nquit\n";
  for (const auto& mpi : usable_mpis()) {
    const auto r =
        run({"run", "-n", "2", "--mpi", mpi, "--gdb", "1", "--", "/bin/echo", "hello"}, folder.path / "commands");
    EXPECT_TRUE(has(r.out, "exited normally")) << mpi << r.out << r.err;
  }
}

// The launchers' banners, as they are. What an application prints passes unchanged, also if it
// looks alike.
TEST(noise, banners_are_dropped_and_understood) {
  const std::string dashes(74, '-'), equals(83, '=');
  const auto filtered = [](const std::string& text, std::size_t step, tern::tool::job_failure& seen) {
    tern::tool::launcher_noise filter(seen);
    std::string out;
    for (std::size_t i = 0; i < text.size(); i += step) out += filter.feed(std::string_view(text).substr(i, step));
    return out + filter.end();
  };
  const std::string openmpi = dashes +
                              "\nmpirun noticed that process rank 2 with PID 0 on node vm exited on signal 11 "
                              "(Segmentation fault).\n" +
                              dashes + "\n";
  const std::string mpich =
      "\n" + equals +
      "\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 123 RUNNING AT "
      "vm\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n" +
      equals +
      "\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\nThis typically refers to a "
      "problem with your application.\nPlease see the FAQ page for debugging suggestions\n";
  const std::string own = "a\n\n" + dashes + "\nresults\n" + dashes + "\n\n" + equals + "\n= mine\n[x] y\nno line feed";
  for (const std::size_t step : {1u, 7u, 100000u}) {
    tern::tool::job_failure first, second, third;
    EXPECT_EQ(filtered("before\n" + openmpi + "after\n", step, first), "before\nafter\n");
    EXPECT_EQ(first.rank, 2);
    EXPECT_EQ(first.signal, 11);
    EXPECT_EQ(filtered("before\n" + mpich + "after\n", step, second), "before\nafter\n");
    EXPECT_EQ(second.pid, 123);
    EXPECT_EQ(second.signal, 9);
    std::string victim = mpich; // 123 was killed in the clean-up
    victim.replace(victim.find("Killed (signal 9)"), 17, "Segmentation fault (signal 11)");
    tern::tool::job_failure fourth;
    EXPECT_EQ(filtered(victim, step, fourth), "");
    EXPECT_EQ(fourth.signal, 11);
    EXPECT_EQ(fourth.pid, -1);
    EXPECT_EQ(filtered(own, step, third), own);
    EXPECT_FALSE(third.known);
  }
  tern::tool::job_failure seen;
  tern::tool::launcher_noise filter(seen);
  EXPECT_EQ(filter.feed("progress 10 %\r"), "progress 10 %\r"); // at once
}
