// SPDX-License-Identifier: Apache-2.0
/// \file
/// Programs that know nothing of simulations, run in one: TERN_SIM, --tern-transport=sim:…, and the
/// command that shows a failure again.
#include "child.hpp"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace {

using tern::test::count;
using tern::test::finished;
using tern::test::strings;
using tern::test::temporary;
using tern::test::variables;

finished simulated(const std::string& world, strings arguments, variables more = {}) {
  strings command{START_ENDINGS};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (!world.empty()) more["TERN_SIM"] = world;
  return tern::test::run(command, 30, {.environment = more});
}

/// What follows `mark` on its line.
std::string rest_of_line(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  if (at == text.npos) return {};
  const auto begin = at + mark.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}
const std::string again = "tern: to see it again: ";

TEST(simulated_start, by_environment_and_by_option) {
  for (const auto& end :
       {simulated("ranks=64,workers=2", {"hello"}), simulated("", {"hello", "--tern-transport=sim:ranks=64,workers=2"}),
        simulated("ranks=3", {"hello", "--tern-sim=ranks=64"}),
        simulated("", {"hello", "--tern-transport=sim"}, {{"TERN_RANKS", "64"}}),
        simulated("seed=3", {"hello"}, {{"TERN_RANKS", "64"}, {"TERN_WORKERS", "3"}}),
        simulated("ranks=7", {"hello", "--tern-transport=sim:ranks=64,faults=delay:reorder"})}) {
    EXPECT_EQ(end.code, 0) << end.all();
    EXPECT_EQ(end.out, "hello from 64\n") << end.all();
    EXPECT_EQ(count(end.err, again), 0) << end.all();
  }
}

TEST(simulated_start, another_transport_wins_over_a_world) {
  const auto end = simulated("ranks=64", {"hello", "--tern-transport=inproc", "--tern-ranks=2"});
  EXPECT_EQ(end.out, "hello from 2\n") << end.all();
}

TEST(simulated_start, a_world_that_cannot_be_names_the_word) {
  const struct {
    const char *text, *part;
  } cases[] = {{"ranks=4,pigeon=1", "pigeon"},
               {"ranks=many", "many"},
               {"ranks=0", "ranks"},
               {"ranks", "ranks"},
               {"faults=delay:flood", "flood"},
               {"ranks=4,faults=crash=9@1ms", "9"},
               {"topology=ring:4", "ring"},
               {"latency=3parsec", "3parsec"},
               {"ranks=4,,seed=2", "ranks=4,,seed=2"}};
  for (const auto& one : cases) {
    const auto end = simulated(one.text, {"hello"});
    EXPECT_EQ(end.code, 2) << end.all();
    EXPECT_EQ(count(end.err, "tern: cannot start: "), 1) << end.all();
    EXPECT_GE(count(end.err, one.part), 1) << one.text << end.all();
    EXPECT_EQ(end.out, "") << end.all();
  }
}

TEST(simulated_start, codes_are_the_largest) {
  const auto end = simulated("ranks=5", {"rank-as-code"});
  EXPECT_EQ(end.code, 7) << end.all();
  EXPECT_EQ(count(end.err, again), 1) << end.all();
}

TEST(simulated_start, twice_in_one_program) {
  const auto end = simulated("ranks=4", {"twice"});
  EXPECT_EQ(end.code, 0) << end.all();
  EXPECT_EQ(end.out, "codes 0 0, sum 44\n") << end.all();
}

TEST(simulated_start, failures_end_it_and_tell_how_to_see_them_again) {
  const struct {
    strings arguments;
    const char* part;
  } cases[] = {{{"throw-handler", "1"}, "bad cell"},
               {{"disagree-on-root"}, "the ranks do different things together"},
               {{"one-fails", "2"}, ""}};
  for (const auto& one : cases) {
    const auto end = simulated("ranks=3,seed=41,faults=reorder", one.arguments);
    EXPECT_NE(end.code, 0) << end.all();
    EXPECT_EQ(count(end.err, again), 1) << end.all();
    EXPECT_TRUE(!*one.part || count(end.err, one.part) >= 1) << end.all();
    const std::string command = rest_of_line(end.err, again);
    EXPECT_NE(command.find("seed=41"), command.npos) << command;
    EXPECT_NE(command.find("TERN_SIM="), command.npos) << command;
    // It does the same again, by itself, with a trace.
    const temporary folder;
    const auto same = tern::test::run({"/bin/sh", "-c", command}, 30, {.folder = folder.path.string()});
    EXPECT_EQ(same.code, end.code) << command << same.all();
    EXPECT_TRUE(!*one.part || count(same.err, one.part) >= 1) << same.all();
    EXPECT_TRUE(std::filesystem::exists(folder / "replay.json")) << same.all();
  }
}

} // namespace
