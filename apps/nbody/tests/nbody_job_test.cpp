// SPDX-License-Identifier: Apache-2.0
/// \file
/// The nbody program from outside: its bits do not depend on how it is run, its physics is right,
/// it writes what it was asked for and refuses what is impossible.
#include "nbody_program.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>

using namespace nbody_test;

class same_bits : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(same_bits, whatever_ranks_workers_and_policy) {
  const auto& [where, ranks] = GetParam();
  const std::string alone = hash_of(summary_of("", 1, small));
  ASSERT_EQ(alone.size(), 16u);
  EXPECT_EQ(hash_of(summary_of(where, ranks, small, 1)), alone);
  EXPECT_EQ(hash_of(summary_of(where, ranks, small, 3)), alone);
  for (const char* how : {"--tern-balance=none", "--tern-balance=greedy", "--tern-debug-migrate=rotate",
                          "--tern-debug-migrate=random", "--tern-debug-migrate=reserialize"})
    EXPECT_EQ(hash_of(summary_of(where, ranks, small + strings{how})), alone) << how;
}

INSTANTIATE_TEST_SUITE_P(all, same_bits, testing::Combine(testing::ValuesIn(transports()), testing::Values(1, 2, 3, 4)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param)) + "ranks";
                         });

// Simulated ranks, whose messages come late and overtake each other.
TEST(bits, whatever_messages_do) {
  const strings few{"--model", "collision", "--n", "600", "--steps", "4", "--quiet"};
  const std::string alone = hash_of(summary_of("", 1, few));
  for (int seed = 1; seed <= 10; ++seed) {
    const temporary folder;
    const strings line{TERN_TOOL_PATH,       "sim", "-n",    "5", "--faults", "delay:reorder", "--seed",
                       std::to_string(seed), "--",  APP_PATH};
    const auto done =
        run(line + few +
            strings{"--json", folder / "s.json", seed % 2 ? "--tern-debug-migrate=random" : "--tern-balance=greedy"});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(hash_of(read_json(folder / "s.json")), alone) << "seed " << seed;
  }
}

TEST(bits, depend_on_the_bodies) {
  EXPECT_NE(hash_of(summary_of("", 1, small)), hash_of(summary_of("", 1, small + strings{"--seed", "2"})));
}

TEST(bits, more_ranks_than_bodies) {
  const strings two{"--model", "two", "--steps", "20", "--quiet"};
  EXPECT_EQ(hash_of(summary_of("inproc", 4, two)), hash_of(summary_of("", 1, two)));
}

TEST(forces, match_direct_summation) {
  double before = 1;
  for (const char* theta : {"1", "0.6", "0.3", "0"}) {
    const auto j = summary_of("inproc", 2, {"--n", "3000", "--steps", "0", "--quiet", "--verify", "--theta", theta});
    const double error = j.value("force_error", 1.0);
    EXPECT_LT(error, before) << theta;
    before = error;
  }
  EXPECT_LT(before, 3e-6);
}

TEST(physics, an_ellipse_closes) {
  // Ten periods. The error of leapfrog is of second order: half the step, a quarter of the way.
  double off[2] = {};
  for (int i = 0; i < 2; ++i) {
    const temporary folder;
    const int steps = i == 0 ? 4000 : 8000;
    const auto done = run(
        job("", 1,
            {"--model", "two", "--steps", std::to_string(steps), "--dt", std::to_string(20 * 3.14159265358979 / steps),
             "--out", folder.path.string(), "--no-pictures", "--quiet"}));
    ASSERT_EQ(done.code, 0) << done.err;
    std::istringstream lines(read_text(folder / "bodies.csv"));
    std::string line;
    std::getline(lines, line);
    std::getline(lines, line);
    double mass = 0, x = 0, y = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lf,%lf,%lf", &mass, &x, &y), 3) << line;
    off[i] = std::hypot(x - 0.75, y);
    EXPECT_LT(read_json(folder / "summary.json")["energy"]["drift"].get<double>(), 2e-3);
  }
  EXPECT_LT(off[0], 0.05);
  EXPECT_NEAR(off[0] / off[1], 4, 1);
}

TEST(physics, energy_converges_with_the_step) {
  const auto drift = [](const char* dt, const char* steps) {
    return summary_of("", 1, {"--model", "two", "--dt", dt, "--steps", steps, "--quiet"})["energy"]["drift"]
        .get<double>();
  };
  EXPECT_NEAR(drift("0.04", "300") / drift("0.02", "600"), 4, 0.6);
}

TEST(physics, energy_and_momentum_are_kept) {
  const auto j = summary_of("inproc", 2, {"--model", "plummer", "--n", "3000", "--steps", "100", "--quiet"});
  EXPECT_LT(j["energy"]["drift"].get<double>(), 1e-3);
  EXPECT_LT(j["momentum_drift"].get<double>(), 1e-3);
  EXPECT_LT(j["angular_momentum_drift"].get<double>(), 0.05);
  EXPECT_EQ(j["bodies"].get<int>(), 3000);
  EXPECT_NEAR(j["mass"].get<double>(), 1, 1e-9);
}

TEST(physics, a_cold_cube_falls_together) {
  const auto j = summary_of("inproc", 2, {"--model", "cube", "--n", "2000", "--steps", "160", "--quiet"});
  EXPECT_LT(j["energy"]["drift"].get<double>(), 0.05);
  EXPECT_GT(j["kinetic"].get<double>(), 0.5); // it began with none
}

TEST(physics, what_is_no_number_any_more_ends_the_run) {
  for (const std::string where : {"", "inproc"}) {
    const auto done = run(job(where, 2, {"--model", "two", "--dt", "1e308", "--steps", "9", "--quiet"}), 20);
    EXPECT_NE(done.code, 0) << where;
    EXPECT_LT(done.code, 1000) << where;
    EXPECT_TRUE(has(done.err, "the energy is no finite number any more")) << done.err;
    EXPECT_TRUE(has(done.err, "a shorter --dt")) << done.err;
  }
}

TEST(files, that_were_asked_for) {
  const temporary folder;
  const auto done = run(job("inproc", 2, small + strings{"--frames", "3", "--out", folder / "new/out"}));
  ASSERT_EQ(done.code, 0) << done.err;
  const auto at = [&](const std::string& name) { return folder / ("new/out/" + name); };
  for (const char* name : {"bodies.png", "frame_0000.png", "frame_0001.png", "frame_0002.png"}) {
    const auto png = read_text(at(name));
    EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n") << name;
  }
  if (!has(done.out, "without libwebp")) {
    const auto film = read_text(at("film.webp"));
    EXPECT_EQ(film.substr(0, 4), "RIFF");
    EXPECT_EQ(film.substr(8, 4), "WEBP");
    EXPECT_TRUE(has(film.substr(0, 64), "ANIM"));
  }
  const auto vtu = read_text(at("bodies.vtu"));
  EXPECT_TRUE(has(vtu, "NumberOfPoints=\"3000\""));
  EXPECT_TRUE(has(vtu.substr(vtu.size() - 40), "</VTKFile>"));
  const auto energies = read_text(at("energies.csv"));
  EXPECT_EQ(std::count(energies.begin(), energies.end(), '\n'), 8); // names, the beginning, six steps
  EXPECT_TRUE(read_json(at("summary.json")).is_object());
  const auto bodies = read_text(at("bodies.csv"));
  EXPECT_EQ(std::count(bodies.begin(), bodies.end(), '\n'), 3001);
}

TEST(files, go_on_from_what_was_written) {
  const temporary folder;
  ASSERT_EQ(run(job("", 1, small + strings{"--out", folder / "a", "--no-pictures", "--no-vtu"})).code, 0);
  const auto j = summary_of("inproc", 2, {"--input", folder / "a/bodies.csv", "--steps", "0", "--quiet"});
  EXPECT_EQ(hash_of(j), hash_of(read_json(folder / "a/summary.json")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path / "a"), {}), 3);
}

TEST(files, none_unless_asked_for) {
  const temporary folder;
  const auto done = run(job("inproc", 2, {"--n", "500", "--steps", "2"}), 20, {.folder = folder.path});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  for (const char* word : {"energy", "momentum", "interactions", "imbalance", "hash", "forces s"})
    EXPECT_TRUE(has(done.out, word)) << word << done.out;
  EXPECT_TRUE(has(done.err, "100 %")) << done.err;
}

namespace {

struct refusal {
  std::string name;
  strings arguments;
  std::string text, advice; ///< what stderr must contain: the thing, and what to do
};

const temporary& bad_files() {
  static const temporary folder;
  static const bool made = [] {
    std::ofstream(folder / "line.csv") << "mass,x,y,z,vx,vy,vz\n1,0,0,0,0,0,0\n1,0,0,left,0,0,0\n";
    std::ofstream(folder / "empty.csv") << "# nothing\n";
    return true;
  }();
  static_cast<void>(made);
  return folder;
}

std::vector<refusal> refusals() {
  const auto& folder = bad_files();
  return {
      {"missing_file", {"--input", folder / "none.csv"}, "none.csv: No such file", "check the path"},
      {"folder_as_file", {"--input", folder.path.string()}, "it is a folder", "check the path"},
      {"bad_line", {"--input", folder / "line.csv"}, "line.csv:3: 'left' is no finite number", "mass,x,y,z"},
      {"empty_file", {"--input", folder / "empty.csv"}, "empty.csv has no bodies", "mass,x,y,z"},
      {"n_zero", {"--n", "0"}, "--n is 0: a run has 1 to", "change --n"},
      {"n_negative", {"--n", "-5"}, "--n", "--help"},
      {"n_word", {"--n", "many"}, "many", "--help"},
      {"theta_negative", {"--theta", "-0.5"}, "--theta is -0.5: it must be an opening angle", "change --theta"},
      {"theta_nan", {"--theta", "nan"}, "--theta is nan", "change --theta"},
      {"theta_large", {"--theta", "3"}, "--theta is 3", "change --theta"},
      {"dt_nan", {"--dt", "nan"}, "--dt is nan: it must be a positive time", "change --dt"},
      {"dt_zero", {"--dt", "0"}, "--dt is 0", "change --dt"},
      {"dt_word", {"--dt", "short"}, "short", "--help"},
      {"softening_negative", {"--softening", "-1"}, "--softening is -1", "change --softening"},
      {"gravity_none", {"--gravity", "0"}, "--gravity is 0", "change --gravity"},
      {"model_unknown", {"--model", "spiral"}, "spiral", "--help"},
      {"order_three", {"--order", "3"}, "3", "--help"},
      {"leaf_zero", {"--leaf", "0"}, "--leaf is 0", "change --leaf"},
      {"group_zero", {"--group", "0"}, "--group is 0", "change --group"},
      {"pieces_many", {"--pieces", "2000000"}, "--pieces is 2000000", "change --pieces"},
      {"frames_many", {"--steps", "3", "--frames", "9"}, "--frames is 9", "change --frames"},
      {"frames_nowhere", {"--frames", "2"}, "--frames is 2, and there is no folder", "add --out"},
      {"out_below_a_file", {"--out", folder / "line.csv/out"}, "Not a directory", "choose another with --out"},
      {"json_nowhere", {"--json", folder / "none/s.json"}, "No such file", "choose another file with --json"},
      {"unknown_option", {"--fast"}, "not expected: --fast", "--help"},
      {"unknown_tern_option", {"--tern-fast"}, "unknown option --tern-fast", "--tern-help"},
  };
}

} // namespace

class refused : public testing::TestWithParam<std::size_t> {};

TEST_P(refused, with_one_clear_message) {
  const auto one = refusals()[GetParam()];
  for (const std::string where : {"", "inproc"}) {
    const auto done = run(job(where, 3, one.arguments), 10); // the promise, not a measurement
    EXPECT_NE(done.code, 0) << where;
    EXPECT_LT(done.code, 1000) << "signal, under '" << where << "'";
    EXPECT_NE(done.code, -1) << "still running after 10 s under '" << where << "'";
    EXPECT_TRUE(has(done.err, one.text)) << where << ": " << done.err;
    EXPECT_TRUE(has(done.err, one.advice)) << where << ": " << done.err;
    EXPECT_EQ(done.out, "") << where;
  }
}

INSTANTIATE_TEST_SUITE_P(input, refused, testing::Range<std::size_t>(0, refusals().size()),
                         [](const auto& test) { return refusals()[test.param].name; });
