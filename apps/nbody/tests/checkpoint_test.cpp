// SPDX-License-Identifier: Apache-2.0
/// \file
/// A run of the nbody program that is stopped goes on with the same bits, sums and pictures, on
/// other ranks; what cannot go on is refused.
#include "nbody_program.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>

using namespace nbody_test;

namespace {

const strings body{"--model", "collision", "--n", "3000", "--quiet"};

/// Without seconds and imbalance, which are never the same.
strings lines_of_energies(const std::string& path) {
  strings all;
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    for (int i = 0; i < 2; ++i) line.erase(std::min(line.rfind(','), line.size()));
    all.push_back(line);
  }
  return all;
}

void remove_newest(const std::string& folder) {
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) newest = std::max(newest, entry.path());
  std::filesystem::remove_all(newest);
}

/// A folder of checkpoints of a run of which 4 of 6 steps are done; the last is saved, too.
const temporary& four_steps() {
  static const temporary folder;
  static const int code = run(job("inproc", 2, small + strings{"--checkpoint", folder / "run", "--every", "2"})).code;
  EXPECT_EQ(code, 0);
  static const bool cut = (remove_newest(folder / "run"), true);
  static_cast<void>(cut);
  return folder;
}

} // namespace

// Two ranks are killed half-way; three go on, and are killed; one comes to the same end.
TEST(checkpoint, killed_and_gone_on) {
  const temporary folder;
  const strings saving{"--checkpoint", folder / "run", "--every", "1"};
  const strings loud{"--model", "collision", "--n", "3000"}, steps{"--steps", "80"};
  for (const int ranks : {2, 3}) {
    child half(job("inproc", ranks, (ranks == 2 ? loud + steps : strings{"--restart", folder / "run"}) + saving, 1));
    ASSERT_TRUE(half.wait_for_err("is saved in " + (folder / "run"), 3)) << half.err;
    for (const pid_t p : processes_of(folder.path.string())) kill(p, SIGKILL);
    half.end();
  }
  const auto done = summary_of("", 1, {"--restart=" + (folder / "run"), "--quiet"});
  EXPECT_GE(done.value("gone_on_after", 0), 6);
  const auto alone = summary_of("", 1, body + steps);
  EXPECT_EQ(hash_of(done), hash_of(alone));
  EXPECT_EQ(done.value("steps", 0), 80);
}

class gone_on : public testing::TestWithParam<std::string> {};

TEST_P(gone_on, has_the_same_bits_whatever_moves) {
  const auto& where = GetParam();
  const auto alone = summary_of("", 1, small);
  for (const char* how : {"--tern-balance=greedy", "--tern-balance=none", "--tern-debug-migrate=rotate",
                          "--tern-debug-migrate=random", "--tern-debug-migrate=reserialize"}) {
    const temporary folder;
    const strings half{"--model", "collision", "--n", "3000", "--steps", "3", "--quiet"};
    const auto first = summary_of(where, 2, half + strings{"--checkpoint", folder / "run", how});
    EXPECT_EQ(first.count("gone_on_after"), 0u);
    for (const int ranks : {3, 1}) {
      const auto j = summary_of(where, ranks, {"--restart", folder / "run", "--steps", "6", "--quiet", how}, 1);
      EXPECT_EQ(hash_of(j), hash_of(alone)) << how << " on " << ranks;
      EXPECT_EQ(j.value("gone_on_after", 0), 3);
      for (const char* sum : {"energy", "interactions", "momentum_drift", "angular_momentum_drift", "kinetic"})
        EXPECT_EQ(j[sum], alone[sum]) << sum << how << " on " << ranks;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, gone_on, testing::ValuesIn(transports()), [](const auto& test) { return test.param; });

TEST(checkpoint, energies_and_film_go_on) {
  const temporary folder;
  const strings filmed{"--frames", "4", "--no-vtu"};
  const std::string whole = folder / "whole", cut = folder / "cut", saved = folder / "run";
  ASSERT_EQ(run(job("", 1, small + filmed + strings{"--out", whole})).code, 0);
  const strings saving{"--checkpoint", saved, "--every", "3"};
  ASSERT_EQ(run(job("inproc", 2, small + filmed + strings{"--out", cut} + saving)).code, 0);
  remove_newest(saved); // as if it had been stopped between steps 3 and 6
  for (const char* name : {"/frame_0002.png", "/frame_0003.png", "/film.webp", "/energies.csv", "/bodies.csv"})
    std::filesystem::remove(cut + name);
  const auto done = run(job("inproc", 3, {"--restart", saved, "--out", cut, "--no-vtu", "--quiet"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(has(done.out, "; gone on after step 3\n")) << done.out;
  const auto energies = lines_of_energies(cut + "/energies.csv");
  EXPECT_EQ(energies.size(), 8u); // names, the beginning, six steps
  EXPECT_EQ(energies, lines_of_energies(whole + "/energies.csv"));
  const auto film = has(done.out, "without libwebp") ? "/bodies.png" : "/film.webp";
  for (const char* name : {"/frame_0001.png", "/frame_0002.png", "/frame_0003.png", "/bodies.csv", film}) {
    EXPECT_FALSE(read_text(cut + name).empty()) << name;
    EXPECT_TRUE(read_text(cut + name) == read_text(whole + name)) << name;
  }
}

TEST(checkpoint, film_without_its_first_pictures) {
  const temporary folder;
  const strings saving{"--checkpoint", folder / "run", "--every", "3"};
  ASSERT_EQ(run(job("", 1, small + strings{"--frames", "4", "--out", folder / "a"} + saving)).code, 0);
  remove_newest(folder / "run");
  const auto done = run(job("", 1, {"--restart", folder / "run", "--out", folder / "b", "--quiet"}));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(has(done.err, "nbody: of the 2 pictures made before step 3, 2 are not in " + (folder / "b"))) << done.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "b/frame_0001.png"));
  EXPECT_TRUE(read_text(folder / "b/frame_0003.png") == read_text(folder / "a/frame_0003.png"));
}

TEST(checkpoint, more_steps_than_were_wanted) {
  const temporary folder;
  const strings steps{"--steps", "8"};
  summary_of("", 1, small + strings{"--checkpoint", folder / "run"}); // the last step is saved
  const auto j = summary_of("inproc", 2, strings{"--restart", folder / "run", "--quiet"} + steps);
  EXPECT_EQ(hash_of(j), hash_of(summary_of("", 1, body + steps)));
  EXPECT_EQ(j.value("gone_on_after", 0), 6);
}

TEST(checkpoint, takes_what_is_left_out_and_what_is_the_same) {
  const temporary folder;
  const strings how{"--model",  "plummer", "--n",         "500",  "--seed",    "4", "--theta", "0.4", "--order", "1",
                    "--dt",     "0.02",    "--softening", "0.05", "--gravity", "2", "--leaf",  "8",   "--group", "40",
                    "--pieces", "5",       "--steps",     "5",    "--quiet"};
  const auto whole = summary_of("", 1, how + strings{"--checkpoint", folder / "run", "--every", "2"});
  remove_newest(folder / "run");
  const auto bare = summary_of("inproc", 2, {"--restart", folder / "run", "--quiet"});
  EXPECT_EQ(hash_of(bare), hash_of(whole));
  for (const char* same : {"source", "pieces", "dt", "theta", "order", "softening", "steps", "energy"})
    EXPECT_EQ(bare[same], whole[same]) << same;
  EXPECT_EQ(hash_of(summary_of("inproc", 2, how + strings{"--restart", folder / "run"})), hash_of(whole));
}

// The bodies' file may be gone meanwhile.
TEST(checkpoint, of_bodies_from_a_file) {
  const temporary folder;
  ASSERT_EQ(run(job("", 1, {"--n", "300", "--steps", "0", "--out", folder / "a", "--no-pictures", "--quiet"})).code, 0);
  const strings file{"--input", folder / "a/bodies.csv", "--quiet"};
  const auto whole = summary_of("", 1, file + strings{"--steps", "4"});
  summary_of("", 1, file + strings{"--steps", "2", "--checkpoint", folder / "run"});
  std::filesystem::remove_all(folder / "a");
  EXPECT_EQ(hash_of(summary_of("", 1, {"--restart", folder / "run", "--steps", "4", "--quiet"})), hash_of(whole));
}

namespace {

struct restart_refusal {
  std::string name;
  strings arguments;
  std::string text, advice;
};

std::vector<restart_refusal> restart_refusals() {
  static const temporary empty;
  const strings again{"--restart", four_steps() / "run"};
  const std::string run = "the run in " + (four_steps() / "run");
  const std::string others = run + " was begun with other options: ";
  return {
      {"theta", again + strings{"--theta", "0.7"}, others + "--theta is 0.7 and was 0.5\n", "leave --theta out"},
      {"model_and_n", again + strings{"--n", "9", "--model", "cube"},
       others + "--model is cube and was collision, --n is 9 and was 3000\n", "leave --model and --n out"},
      {"dt_of_the_model", again + strings{"--dt", "0.5"}, "--dt is 0.5 and was 0.01", "leave --dt out"},
      {"input", again + strings{"--input", "b.csv"}, "--input is b.csv and was not given", "leave --input out"},
      {"frames", again + strings{"--frames", "3", "--out", empty / "out"}, "--frames is 3 and was 0",
       "begin anew without --restart"},
      {"fewer_steps", again + strings{"--steps", "3"}, "--steps is 3, and " + run + " has done 4 already",
       "give a larger --steps"},
      {"no_folder",
       {"--restart", empty / "none"},
       "there is no folder of checkpoints " + (empty / "none"),
       "the folder that was given to"},
      {"no_checkpoint", {"--restart", empty.path.string()}, "has no checkpoint", "give --tern-restart a folder"},
      {"no_value", {"--restart"}, "needs a value", "--tern-restart=VALUE"},
      {"every_alone", {"--every", "5"}, "--every is 5, and there is no folder for checkpoints", "add --checkpoint"},
      {"every_none",
       {"--every", "0", "--checkpoint", empty / "x"},
       "--every is 0: it must be a number of steps",
       "change --every"},
      {"checkpoint_nowhere",
       {"--checkpoint", "/dev/null/x"},
       "cannot write to the folder for checkpoints '/dev/null/x'",
       "choose another with --checkpoint"},
  };
}

} // namespace

TEST(checkpoint, refused_with_one_clear_message) {
  for (const auto& one : restart_refusals())
    for (const std::string where : {"", "inproc"}) {
      const auto done = run(job(where, 3, one.arguments), 10);
      EXPECT_TRUE(done.code > 0 && done.code < 1000) << one.name << " under '" << where << "': " << done.code;
      EXPECT_TRUE(has(done.err, one.text)) << one.name << ": " << done.err;
      EXPECT_TRUE(has(done.err, one.advice)) << one.name << ": " << done.err;
      EXPECT_EQ(done.out, "") << one.name;
    }
}
