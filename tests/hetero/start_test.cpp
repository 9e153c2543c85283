// SPDX-License-Identifier: Apache-2.0
/// \file
/// Programs that use devices: how they start, with many ranks, without a folder, with wrong
/// options; and what reports say of them when they hang.
#include "child.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;
using tern::test::child;
using tern::test::finished;
using tern::test::has;
using tern::test::run;
using tern::test::strings;
using tern::test::temporary;
using tern::test::variables;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

strings program(const std::string& what, const strings& options = {}) {
  strings all{DEVICE_TROUBLES, what, "--tern-hetero-cache=off", "--tern-hetero-models=off"};
  all.insert(all.end(), options.begin(), options.end());
  return all;
}
const strings on_opencl{"--tern-hetero-devices=opencl"};
// PoCL and its LLVM lose memory of their own where they compile a kernel; where the cache has it,
// as in most tests, none.
const std::string with_leaks_of_pocl = "detect_stack_use_after_return=0:detect_leaks=0";

finished with_ranks(int ranks, const strings& command, variables environment = {}) {
  environment["TERN_RANKS"] = std::to_string(ranks);
  return run(command, 50, {.environment = environment});
}

/// PoCL is not compiled with the thread sanitizer, which takes its locks for none.
bool opencl_can_be_tested() {
  static const bool can = !THREADS_ARE_WATCHED && run(program("compute", on_opencl)).code == 0;
  return can;
}
#define SKIP_WITHOUT_OPENCL()                                                                                          \
  if (!opencl_can_be_tested()) GTEST_SKIP() << "there is no OpenCL device, or it cannot be watched"

/// So often, or as often as half a minute allows.
void expect_all_right(int times, int ranks, const strings& command, const variables& environment = {}) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; i < times && std::chrono::steady_clock::now() < until; ++i) {
    const finished f = with_ranks(ranks, command, environment);
    ASSERT_EQ(f.code, 0) << "start " << i << ":\n" << f.all();
  }
}

// Many ranks ----------------------------------------------------------------------------------------------------------

TEST(ranks_at_once, find_all_devices_that_there_are) {
  SKIP_WITHOUT_OPENCL();
  expect_all_right(15, 8, program("compute", {"--tern-hetero-simulated=2", "--tern-hetero-policy=round-robin"}));
}

TEST(ranks_at_once, compile_the_same_kernels) {
  SKIP_WITHOUT_OPENCL();
  for (int i = 0; i < 3; ++i) {
    const temporary cache; // with nothing in it
    expect_all_right(1, 8, program("compute", on_opencl),
                     {{"POCL_CACHE_DIR", cache.path.string()}, {"ASAN_OPTIONS", with_leaks_of_pocl}});
  }
}

TEST(ranks_at_once, find_devices_of_cuda_and_simulated_ones) {
  expect_all_right(5, 8,
                   program("compute", {"--tern-hetero-devices=host,simulated,cuda", "--tern-hetero-simulated=2",
                                       "--tern-hetero-policy=round-robin", "--tern-cuda-libraries=" MOCK_CUDA}),
                   {{"TERN_MOCK_CUDA", "devices=2"}});
}

// Folders -------------------------------------------------------------------------------------------------------------

/// `command` with nothing that names a folder for caches, but for `more`, and `scratch` for
/// temporary files.
strings without_folders(const temporary& scratch, const strings& more, const strings& command) {
  strings all{"/usr/bin/env",
              "-u",
              "HOME",
              "-u",
              "XDG_CACHE_HOME",
              "-u",
              "POCL_CACHE_DIR",
              "TMPDIR=" + scratch.path.string(),
              "ASAN_OPTIONS=" + with_leaks_of_pocl};
  all.insert(all.end(), more.begin(), more.end());
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

TEST(folders, that_cannot_be_written_do_not_matter_and_nothing_is_left) {
  SKIP_WITHOUT_OPENCL();
  for (const strings& names : {strings{},
                               {"HOME=/dev/null/x"},
                               {"XDG_CACHE_HOME=/dev/null/x"},
                               {"HOME=/dev/null/x", "POCL_CACHE_DIR=/dev/null/y"}}) {
    const temporary scratch;
    const finished f = with_ranks(2, without_folders(scratch, names, program("compute", on_opencl)));
    EXPECT_EQ(f.code, 0) << f.all();
    EXPECT_TRUE(fs::is_empty(scratch.path)) << fs::directory_iterator(scratch.path)->path();
  }
}

TEST(folders, the_cause_is_told_where_there_is_none_at_all) {
  SKIP_WITHOUT_OPENCL();
  const temporary scratch;
  const finished f =
      run(without_folders(scratch, {"HOME=/dev/null/x", "TMPDIR=/dev/null/y"}, program("compute", on_opencl)));
  EXPECT_EQ(f.code, 2) << f.all();
  EXPECT_THAT(f.err, AllOf(HasSubstr("has no folder for what it compiles: /dev/null/x cannot be made: Not a directory"),
                           HasSubstr("TMPDIR"), HasSubstr("set POCL_CACHE_DIR")));
}

TEST(folders, of_a_killed_process_go_with_the_next_one) {
  SKIP_WITHOUT_OPENCL();
  const temporary scratch;
  const auto files = [&] { return std::distance(fs::directory_iterator(scratch.path), fs::directory_iterator()); };
  {
    child killed(without_folders(scratch, {"TERN_REPORT_SIGNAL=off"}, program("hold")));
    ASSERT_TRUE(killed.wait_for_out("ready")) << killed.err;
    EXPECT_EQ(files(), 1);
    const finished beside = run(without_folders(scratch, {}, program("compute", on_opencl)));
    EXPECT_EQ(beside.code, 0) << beside.all();
    EXPECT_EQ(files(), 1); // the folder of a live process stays
    killed.signal(SIGKILL);
    killed.end();
  }
  EXPECT_EQ(files(), 1);
  const finished next = run(without_folders(scratch, {}, program("compute", on_opencl)));
  EXPECT_EQ(next.code, 0) << next.all();
  EXPECT_EQ(files(), 0);
}

// Options -------------------------------------------------------------------------------------------------------------

void expect_refused(const strings& options, const std::string& text) {
  const finished f = with_ranks(2, program("compute", options));
  EXPECT_EQ(f.code, 2) << f.all();
  EXPECT_THAT(f.err, AllOf(HasSubstr("tern: cannot start: option "), HasSubstr(text)));
}

TEST(wrong_options, of_devices_are_refused_before_the_start) {
  expect_refused(
      {"--tern-hetero-devices=hots", "--tern-hetero-simulated=2"},
      "hetero-devices cannot be \"hots\" (on the command line): there is no device 'hots' here; did you mean "
      "host? there are: host, simulated0, simulated1");
  expect_refused(
      {"--tern-hetero-devices=simulated2", "--tern-hetero-simulated=2"},
      "there is no device 'simulated2' here; did you mean simulated0? there are: host, simulated0, simulated1");
  expect_refused(
      {"--tern-hetero-simulated=2:bandwith=4G"},
      "hetero-simulated cannot be \"2:bandwith=4G\" (on the command line): there is no word \"bandwith\"; did you "
      "mean bandwidth? there are: bandwidth, peer-bandwidth, ");
  expect_refused({"--tern-hetero-policy=egaer"},
                 "hetero-policy cannot be \"egaer\" (on the command line): there is no policy 'egaer'; did you mean "
                 "eager? there are: auto, dmda, eager, energy, locality, own-policy, ");
}

TEST(wrong_options, name_also_devices_that_nobody_asked_for) {
  SKIP_WITHOUT_OPENCL();
  expect_refused({"--tern-hetero-devices=opencll0"}, "did you mean opencl0? there are: host, opencl0");
  expect_refused({"--tern-hetero-devices=opencl77"}, "there is no device 'opencl77' here");
  const finished f =
      with_ranks(2, program("compute"), {{"TERN_HETERO_DEVICES", "cuda0"}, {"TERN_CUDA_LIBRARIES", "/no/libcuda.so"}});
  EXPECT_EQ(f.code, 2) << f.all();
  EXPECT_THAT(f.err, AllOf(HasSubstr("option hetero-devices cannot be \"cuda0\" (TERN_HETERO_DEVICES in the "
                                     "environment): there is no device 'cuda0' here; no CUDA devices: "),
                           HasSubstr("/no/libcuda.so"), HasSubstr("there are: host, opencl0")));
}

TEST(right_options, a_policy_that_the_program_registers_is_accepted) {
  const finished f =
      with_ranks(2, program("compute", {"--tern-hetero-devices=host,simulated", "--tern-hetero-simulated=1",
                                        "--tern-hetero-policy=own-policy"}));
  EXPECT_EQ(f.code, 0) << f.all();
}

// Reports -------------------------------------------------------------------------------------------------------------

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What a program that hangs writes at SIGUSR1, as soon as it has `part`.
std::string report_of(const std::string& what, const strings& options, const std::string& part) {
  const temporary folder;
  const std::string file = folder / "report.txt";
  strings command = program(what, options);
  command.push_back("--tern-report=" + file);
  child hangs(command, {.environment = variables{{"TERN_RANKS", "2"}}});
  EXPECT_TRUE(hangs.wait_for_out("ready", 2)) << hangs.err;
  std::string text;
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       !has(text, part) && std::chrono::steady_clock::now() < until;) {
    hangs.signal(SIGUSR1);
    EXPECT_TRUE(hangs.wait_for_err("report in ")) << hangs.err;
    text = text_of(file);
    if (!has(text, part)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  hangs.signal(SIGKILL);
  hangs.end();
  return text;
}

TEST(device_reports, say_who_holds_access) {
  const std::string text = report_of("hold", {"--tern-hetero-devices=host"}, "held since");
  EXPECT_THAT(text, ContainsRegex("  tasks on objects: 3 that have not ended, with those for host access\n"
                                  "    host access \\(write\\) at [^ ]*device_troubles.cpp:[0-9]+ by fiber [0-9]+ to "
                                  "hetero_object<int> 'grid' of 1024, held since [0-9.]+ s\n"
                                  "      for it waits task 'later', and 1 more after it\n"
                                  "    host access \\(read\\) at [^ ]*device_troubles.cpp:[0-9]+ by fiber [0-9]+ to "
                                  "hetero_object<int> 'grid' of 1024, since [0-9.]+ s, waits for task 'later'\n"));
}

TEST(device_reports, say_what_devices_are_at) {
  const std::string text = report_of(
      "stay", {"--tern-hetero-devices=simulated", "--tern-hetero-simulated=1:launch=1000s,memory=4k"}, "task 'next'");
  EXPECT_THAT(text, ContainsRegex("    device simulated0: 1 kernel under way,( 1 copy under way,)? 1 task waits for "
                                  "its memory, nothing has ended "
                                  "there since [0-9.]+ s\n"
                                  "      kernel of task 'long'\n"
                                  "      for it waits host access \\(read\\) at [^ ]*device_troubles.cpp:"));
  EXPECT_THAT(text, HasSubstr("      task 'next' waits for memory: it uses 4096 bytes there, of 4096, where there is "
                              "hetero_object<int> of 1024 (used by task 'long')\n"));
}

} // namespace
