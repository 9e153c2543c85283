// SPDX-License-Identifier: Apache-2.0
/// \file
/// The jacobi3d program from outside: its bits are those of plain loops however it is run, it
/// writes what it was asked for and refuses what is impossible.
#include "apps/common/app_program.hpp"
#include "apps/jacobi3d/grid/serial.hpp"
#include "launcher.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace jacobi3d_test {

using namespace app_test;

const strings small{"--n", "24,16,12", "--iterations", "17", "--norm-every", "5"};

template <class T = double>
std::string plain_hash(const jacobi3d::cells& n, std::int64_t iterations, double alpha = 0.25) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(jacobi3d::run_serially<T>(n, iterations, alpha).hash()));
  return text;
}
const std::string& small_hash() {
  static const std::string hash = plain_hash({24, 16, 12}, 17);
  return hash;
}

/// Runs a job that must succeed, and gives its summary.
nlohmann::json summary_of(const std::string& where, int ranks, const strings& arguments, int workers = 0) {
  const temporary folder;
  const auto done = run(job(where, ranks, arguments + strings{"--quiet", "--json", folder / "s.json"}, workers));
  EXPECT_EQ(done.code, 0) << done.err;
  auto j = read_json(folder / "s.json");
  EXPECT_TRUE(j.is_object()) << done.err;
  if (!j.is_object()) return nlohmann::json::object();
  EXPECT_EQ(j.value("ranks", 0), ranks);
  return j;
}
std::string hash_of(const nlohmann::json& summary) { return summary.value("hash", std::string("none")); }
std::int64_t device_tasks(const nlohmann::json& summary) {
  std::int64_t all = 0;
  for (const auto& n : summary.at("device_tasks_by_rank")) all += n.get<std::int64_t>();
  return all;
}

class same_bits : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(same_bits, as_plain_loops_whatever_blocks_and_devices) {
  const auto& [where, ranks] = GetParam();
  for (const char* blocks : {"1", "1,1,2", "3,2,4", "24,1,3"})
    EXPECT_EQ(hash_of(summary_of(where, ranks, small + strings{"--blocks", blocks}, 1)), small_hash()) << blocks;
  const auto fake = summary_of(where, ranks, small + strings{"--on", "fake", "--blocks", "2,2,2"});
  EXPECT_EQ(hash_of(fake), small_hash());
  EXPECT_EQ(device_tasks(fake), 8 * (17 + 3)); // sweeps and norms
}

INSTANTIATE_TEST_SUITE_P(all, same_bits, testing::Combine(testing::ValuesIn(transports()), testing::Values(1, 2, 4)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param)) + "ranks";
                         });

TEST(bits, on_opencl_devices) {
  const auto j = summary_of("inproc", 2, small + strings{"--on", "opencl", "--blocks", "1,2,2"});
  EXPECT_EQ(hash_of(j), small_hash());
  EXPECT_EQ(device_tasks(j), 4 * (17 + 3));
  // With buffers of their own, and threads of PoCL's.
  EXPECT_EQ(
      hash_of(summary_of("inproc", 2,
                         small + strings{"--on", "opencl", "--blocks", "1,2,2", "--tern-hetero-opencl-pocl=pthread",
                                         "--tern-hetero-opencl-memory=buffers"})),
      small_hash());
}

// Groups that divide blocks, and a block with neighbours on all sides.
TEST(bits, on_opencl_devices_of_blocks_amid_others) {
  const strings line{"--n", "48,12,9", "--blocks", "3,3,3", "--iterations", "6", "--on", "opencl"};
  EXPECT_EQ(hash_of(summary_of("inproc", 2, line)), plain_hash({48, 12, 9}, 6));
  EXPECT_EQ(hash_of(summary_of("inproc", 2, line + strings{"--float"})), plain_hash<float>({48, 12, 9}, 6));
}

TEST(bits, on_all_devices_at_once) {
  const auto j = summary_of("inproc", 2, small + strings{"--on", "mix", "--tern-hetero-policy=round-robin"});
  EXPECT_EQ(hash_of(j), small_hash());
  EXPECT_GT(device_tasks(j), 0);
}

// Blocks go with their cells on devices, and the layers that have come.
TEST(bits, of_blocks_that_move) {
  for (const char* how : {"--tern-debug-migrate=rotate", "--tern-debug-migrate=random",
                          "--tern-debug-migrate=reserialize", "--tern-balance=greedy"})
    for (const char* on : {"host", "fake"})
      EXPECT_EQ(hash_of(summary_of("inproc", 3, small + strings{"--on", on, how})), small_hash()) << how << " " << on;
  for (const std::string& where : transports())
    EXPECT_EQ(hash_of(summary_of(where, 2, small + strings{"--tern-debug-migrate=rotate"})), small_hash()) << where;
}

// Boxes from 26 directions; also as many iterations as no depth divides.
TEST(bits, of_deep_layers) {
  struct one {
    const char *depth, *blocks, *norm_every;
    strings more;
  };
  const std::vector<one> all{{"2", "2", "4", {}},
                             {"3", "2", "0", {"--on", "opencl"}},
                             {"4", "3,2,2", "8", {"--on", "fake"}},
                             {"5", "1", "5", {}},
                             {"4", "6,4,3", "0", {"--tern-debug-migrate=rotate"}}};
  for (const one& o : all)
    EXPECT_EQ(hash_of(summary_of("inproc", 3,
                                 strings{"--n", "24,16,12", "--iterations", "17", "--depth", o.depth, "--blocks",
                                         o.blocks, "--norm-every", o.norm_every} +
                                     o.more)),
              small_hash())
        << o.depth << " " << o.blocks;
  for (const std::string& where : transports())
    EXPECT_EQ(hash_of(summary_of(
                  where, 2, {"--n", "24,16,12", "--iterations", "17", "--depth", "2", "--norm-every", "0", "--float"})),
              plain_hash<float>({24, 16, 12}, 17))
        << where;
}

TEST(norm, of_deep_layers_is_the_same) {
  const auto norms =
      summary_of("inproc", 2, {"--n", "24,16,12", "--iterations", "17", "--depth", "3", "--norm-every", "15"})
          .at("norms");
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_EQ(norms[0].at("change").get<double>(), jacobi3d::run_serially<double>({24, 16, 12}, 15, 0.25).change);
}

TEST(bits, whatever_runs_ahead) {
  for (const char* ahead : {"0", "1", "100"})
    EXPECT_EQ(hash_of(summary_of("inproc", 2, small + strings{"--ahead", ahead, "--on", "fake"}, 2)), small_hash())
        << ahead;
}

// Rows that are no whole vectors, groups with less than all rows, blocks of one cell.
TEST(bits, of_odd_shapes) {
  struct shape {
    jacobi3d::cells n;
    const char *cells, *blocks;
  };
  for (const shape& s : {shape{{300, 17, 3}, "300,17,3", "1,1,3"}, shape{{7, 33, 5}, "7,33,5", "7,1,5"},
                         shape{{3, 3, 3}, "3,3,3", "3,3,3"}, shape{{1, 1, 1}, "1,1,1", "1,1,1"}}) {
    const strings line{"--n", s.cells, "--blocks", s.blocks, "--iterations", "6"};
    EXPECT_EQ(hash_of(summary_of("inproc", 2, line)), plain_hash(s.n, 6)) << s.cells;
    EXPECT_EQ(hash_of(summary_of("inproc", 2, line + strings{"--float", "--alpha", "0"})), plain_hash<float>(s.n, 6, 0))
        << s.cells;
  }
}

// Simulated ranks, whose messages come late and overtake each other.
TEST(bits, whatever_messages_do) {
  for (int seed = 1; seed <= 6; ++seed) {
    const temporary folder;
    const strings line{TERN_TOOL_PATH,       "sim", "-n",    "5", "--faults", "delay:reorder", "--seed",
                       std::to_string(seed), "--",  APP_PATH};
    const auto done =
        run(line + small +
            strings{"--quiet", "--blocks", "2,2,3", "--json", folder / "s.json", "--on", seed % 2 ? "host" : "fake"});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(hash_of(read_json(folder / "s.json")), small_hash()) << "seed " << seed;
  }
}

TEST(bits, without_an_iteration_are_the_first) {
  EXPECT_EQ(hash_of(summary_of("inproc", 2, {"--n", "8", "--iterations", "0"})), plain_hash({8, 8, 8}, 0));
}

TEST(norm, is_the_largest_change_whatever_the_blocks) {
  const double expected = jacobi3d::run_serially<double>({24, 16, 12}, 15, 0.25).change;
  for (const char* blocks : {"1", "2,2,2", "4,1,3"}) {
    const auto norms = summary_of("inproc", 2, small + strings{"--blocks", blocks}).at("norms");
    ASSERT_EQ(norms.size(), 3u);
    EXPECT_EQ(norms[2].at("iteration").get<int>(), 15);
    EXPECT_EQ(norms[2].at("change").get<double>(), expected);
  }
}

TEST(norm, ends_a_run_one_norm_later) {
  const auto change = [](std::int64_t k) { return jacobi3d::run_serially<double>({16, 16, 16}, k, 0.25).change; };
  const double tolerance = (change(24) + change(28)) / 2; // 28 is the first norm below it
  ASSERT_LT(change(28), change(24));
  for (const char* ahead : {"1", "8", "50"}) {
    const auto j = summary_of("inproc", 2,
                              {"--n", "16", "--iterations", "500", "--norm-every", "4", "--ahead", ahead, "--tolerance",
                               std::to_string(tolerance)});
    EXPECT_EQ(j.at("iterations").get<int>(), 32);
    EXPECT_TRUE(j.at("converged").get<bool>());
    EXPECT_EQ(hash_of(j), plain_hash({16, 16, 16}, 32));
  }
  const auto never = summary_of("inproc", 2, {"--n", "16", "--iterations", "30", "--tolerance", "1e-9"});
  EXPECT_EQ(never.at("iterations").get<int>(), 30);
  EXPECT_FALSE(never.at("converged").get<bool>());
}

TEST(verify, tells_whether_all_bits_are_right) {
  const auto done = run(job("inproc", 2, small + strings{"--verify"}));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(has(done.out, "all bits are those of plain loops")) << done.out;
}

TEST(files, that_were_asked_for) {
  const temporary folder;
  const auto done = run(job("inproc", 2, small + strings{"--blocks", "2,2,2", "--out", folder / "new/out"}));
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* name : {"slice.png", "course.png"})
    EXPECT_EQ(read_text(folder / ("new/out/" + std::string(name))).substr(0, 8), "\x89PNG\r\n\x1a\n") << name;
  const std::string vti = read_text(folder / "new/out/grid.vti");
  EXPECT_TRUE(has(vti, "WholeExtent=\"0 24 0 16 0 12\"")) << vti.substr(0, 400);
  // The cells stand behind the mark and a length, as they are in memory.
  const auto expected = jacobi3d::run_serially<double>({24, 16, 12}, 17, 0.25).values;
  const auto at = vti.find("encoding=\"raw\">\n_") + 17 + 8;
  ASSERT_GT(vti.size(), at + expected.size() * sizeof(double));
  EXPECT_EQ(std::memcmp(vti.data() + at, expected.data(), expected.size() * sizeof(double)), 0);
  EXPECT_EQ(hash_of(read_json(folder / "new/out/summary.json")), small_hash());
}

TEST(files, show_blocks_that_move) {
  const temporary folder;
  const auto done = run(job("inproc", 3, small + strings{"--tern-debug-migrate=rotate", "--out", folder / "out"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_text(folder / "out/course.png").substr(0, 8), "\x89PNG\r\n\x1a\n");
  const auto j = read_json(folder / "out/summary.json");
  std::int64_t blocks = 0;
  for (const auto& n : j.at("blocks_by_rank")) blocks += n.get<std::int64_t>();
  EXPECT_EQ(blocks, 8);
}

TEST(files, none_unless_asked_for) {
  const temporary folder;
  const auto done = run(job("inproc", 2, {"--n", "8", "--iterations", "3"}), 20, {.folder = folder.path});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  for (const char* word : {"grid", "8 x 8 x 8", "blocks", "iterations", "time", "hash", "rank"})
    EXPECT_TRUE(has(done.out, word)) << word << done.out;
}

// The error says which block it was.
TEST(errors, name_the_block_whose_device_failed) {
  const auto done = run(
      job("inproc", 2, small + strings{"--on", "fake", "--blocks", "1,1,2", "--tern-hetero-simulated=1:lose=60@0"}));
  EXPECT_NE(done.code, 0);
  EXPECT_LT(done.code, 1000);
  EXPECT_TRUE(has(done.err, "jacobi3d::block<double>(")) << done.err;
  EXPECT_TRUE(has(done.err, "simulated0")) << done.err;
}

// Whenever the second of two devices is lost: right bits, or an error that says which device it was
// and in which block. What was running there has failed.
TEST(errors, or_the_same_bits_when_one_of_two_devices_is_lost) {
  for (const int at : {1, 2, 3, 9, 21, 80, 1000000}) {
    const std::string devices = "--tern-hetero-simulated=2:lose=" + std::to_string(at) + "@1";
    const temporary folder;
    const auto done = run(job("inproc", 2,
                              small + strings{"--on", "fake", "--blocks", "1,2,2", "--quiet", "--json",
                                              folder / "s.json", "--tern-hetero-policy=round-robin", devices}));
    ASSERT_LT(done.code, 1000) << "a signal; lost at " << at << done.err;
    ASSERT_NE(done.code, -1) << "still running; lost at " << at;
    if (done.code == 0) {
      EXPECT_EQ(hash_of(read_json(folder / "s.json")), small_hash()) << "lost at " << at;
    } else {
      EXPECT_TRUE(has(done.err, "jacobi3d::block<double>(")) << "lost at " << at << done.err;
      EXPECT_TRUE(has(done.err, "simulated1 is lost")) << "lost at " << at << done.err;
    }
    EXPECT_TRUE(done.code == 0 || at < 1000000) << "it is not lost at all: " << done.err;
  }
}

// Started without `tern run`, by the launchers of both MPIs and alone.
TEST(starts, alone_and_by_an_mpi_launcher) {
  const temporary folder;
  const strings line = strings{APP_PATH} + small + strings{"--quiet", "--json", folder / "s.json"};
  const auto right = [&](const strings& argv, const std::string& ranks, tern::test::variables set) {
    tern::test::prepare_for_launcher(set, folder);
    const auto done = run(argv, 50, {.environment = std::move(set)});
    EXPECT_EQ(done.code, 0) << argv[0] << ranks << done.err;
    const auto j = read_json(folder / "s.json");
    EXPECT_EQ(hash_of(j), small_hash()) << argv[0] << ranks;
    EXPECT_EQ(std::to_string(j.value("ranks", 0)), ranks) << argv[0];
  };
  right(line, "1", {});
  for (const std::string& where : transports())
    for (const std::string ranks : {"1", "2", "4"}) {
      const strings command = tern::test::launcher(where);
      if (where == "inproc")
        right(line, ranks, {{"TERN_RANKS", ranks}});
      else if (!command.empty()) // none under sanitizers
        right(command + strings{"-np", ranks} + line, ranks, {});
    }
}

namespace {

struct refusal {
  std::string name;
  strings arguments;
  std::string text, advice; ///< what stderr must contain: the thing, and what to do
};

const std::vector<refusal>& refusals() {
  static const std::vector<refusal> all{
      {"blocks_do_not_divide",
       {"--n", "24,16,12", "--blocks", "2,3,2"},
       "--blocks is 2,3,2, and --n is 24,16,12: 3 blocks do not divide 16 cells along y",
       "give divisors"},
      {"blocks_zero",
       {"--blocks", "2,0,2"},
       "--blocks is 2,0,2: there is at least one block along y",
       "change --blocks"},
      {"blocks_negative",
       {"--blocks=-1,1,1"},
       "--blocks is -1,1,1: there is at least one block along x",
       "change --blocks"},
      {"blocks_more_than_cells",
       {"--n", "4", "--blocks", "1,1,8"},
       "along z there are more blocks than cells",
       "give fewer blocks"},
      {"blocks_two_numbers", {"--blocks", "2,2"}, "--blocks has 2 numbers: it takes X,Y,Z", "change --blocks"},
      {"n_zero", {"--n", "0"}, "--n is 0,0,0: a grid has 1 to", "change --n"},
      {"n_word", {"--n", "many"}, "many", "--help"},
      {"on_unknown", {"--on", "gpu"}, "gpu", "--help"},
      {"on_missing",
       {"--on", "fake", "--tern-hetero-devices=host"},
       "can run on simulated, and there is no such device",
       "hetero-devices"},
      {"iterations_negative", {"--iterations=-1"}, "--iterations is -1", "change --iterations"},
      {"alpha_large", {"--alpha", "1.5"}, "--alpha is 1.5: it must be a weight from 0 to 1", "change --alpha"},
      {"alpha_nan", {"--alpha", "nan"}, "--alpha is nan", "change --alpha"},
      {"tolerance_negative", {"--tolerance=-1"}, "--tolerance is -1", "change --tolerance"},
      {"tolerance_and_balance",
       {"--tolerance", "0.1", "--balance-every", "4"},
       "--tolerance is 0.1, and --balance-every is 4",
       "leave one of the two out"},
      {"balance_every_negative", {"--balance-every=-1"}, "--balance-every is -1", "change --balance-every"},
      {"balance_and_depth",
       {"--depth", "2", "--balance-every", "3"},
       "--balance-every is 3, which is no multiple of --depth, 2",
       "change --balance-every"},
      {"tolerance_without_norm",
       {"--tolerance", "0.1", "--norm-every", "0"},
       "nothing would look at it",
       "give --norm-every"},
      {"depth_zero", {"--depth", "0"}, "--depth is 0: it must be a number of layers", "change --depth"},
      {"depth_beyond_a_block",
       {"--n", "8", "--blocks", "1,4,1", "--depth", "4", "--norm-every", "0"},
       "--depth is 4, and blocks have 2 cells along y",
       "a smaller --depth"},
      {"depth_and_norm",
       {"--depth", "4"},
       "--norm-every is 10, which is no multiple of --depth, 4",
       "change --norm-every"},
      {"ahead_negative", {"--ahead=-2"}, "--ahead is -2", "change --ahead"},
      {"json_nowhere", {"--json", "/nowhere/at/all/s.json"}, "No such file", "choose another file with --json"},
      {"unknown_option", {"--fast"}, "not expected: --fast", "--help"},
  };
  return all;
}

} // namespace

class refused : public testing::TestWithParam<std::size_t> {};

TEST_P(refused, with_one_clear_message) {
  const auto& one = refusals()[GetParam()];
  const auto done = run(job("inproc", 2, one.arguments), 10); // the promise, not a measurement
  EXPECT_NE(done.code, 0);
  EXPECT_LT(done.code, 1000) << "a signal";
  EXPECT_NE(done.code, -1) << "still running after 10 s";
  EXPECT_TRUE(has(done.err, one.text)) << done.err;
  EXPECT_TRUE(has(done.err, one.advice)) << done.err;
  EXPECT_EQ(done.out, "");
}

INSTANTIATE_TEST_SUITE_P(input, refused, testing::Range<std::size_t>(0, refusals().size()),
                         [](const auto& test) { return refusals()[test.param].name; });

} // namespace jacobi3d_test
