// SPDX-License-Identifier: GPL-3.0-or-later
/// \file
/// The mesh program from outside, alone and under `tern run`: the mesh does not depend on how the
/// program is run. Tests also the files that it writes and its messages for impossible arguments.
#include "apps/common/app_program.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

using namespace app_test;
using namespace std::chrono_literals;

namespace {

const strings small{"--hmin", "1.5", "--hmax", "15", "--quiet"};
const strings tiny{"--hmin", "4", "--hmax", "40", "--quiet"};

struct outcome {
  finished program;
  nlohmann::json summary;
};

/// Runs a job with its summary, which must succeed and keep every promise.
outcome sound_job(const std::string& where, int ranks, const strings& arguments, int workers = 0) {
  const temporary folder;
  const auto done = run(job(where, ranks, arguments + strings{"--json", folder / "s.json"}, workers));
  const auto j = read_json(folder / "s.json");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(j.is_object()) << done.err;
  if (!j.is_object()) return {done, nlohmann::json::object()};
  EXPECT_EQ(j.value("ranks", 0), ranks);
  EXPECT_TRUE(j.at("conforming").get<bool>());
  EXPECT_TRUE(j.at("borders_agree").get<bool>());
  EXPECT_EQ(j.at("below_20").at("artificial").get<int>(), 0);
  EXPECT_LE(j.at("area_relative_error").get<double>(), 1e-9);
  EXPECT_EQ(j.at("by_rank").size(), static_cast<std::size_t>(ranks));
  return {done, j};
}

std::string hash_of(const outcome& o) { return o.summary.value("hash", std::string("none")); }

/// The ends of the lines a user sees, without the runtime's log.
std::string without_log(const std::string& text) {
  std::istringstream in(text);
  std::string kept;
  for (std::string line; std::getline(in, line);)
    if (line.find(" info] ") == std::string::npos) kept += line + "\n";
  return kept;
}

} // namespace

class same_mesh : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(same_mesh, whatever_ranks_transport_and_workers) {
  const auto& [where, ranks] = GetParam();
  const auto alone = sound_job("", 1, small);
  ASSERT_EQ(hash_of(alone).size(), 16u);
  EXPECT_GT(alone.summary["triangles"].get<int>(), 100'000);
  for (const int workers : {1, 3}) {
    const auto other = sound_job(where, ranks, small, workers);
    EXPECT_EQ(hash_of(other), hash_of(alone)) << workers << " workers";
    EXPECT_EQ(other.summary.value("triangles", 0), alone.summary.value("triangles", 1));
    int total = 0;
    for (const auto& r : other.summary["by_rank"]) total += r["triangles"].get<int>();
    EXPECT_EQ(total, other.summary.value("triangles", 0));
  }
}

INSTANTIATE_TEST_SUITE_P(all, same_mesh, testing::Combine(testing::ValuesIn(transports()), testing::Values(1, 2, 3, 4)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param)) + "ranks";
                         });

// A member that a subdomain's serialize forgot would show.
TEST_P(same_mesh, whatever_moves_all_the_time) {
  const auto& [where, ranks] = GetParam();
  const auto alone = sound_job("", 1, small);
  for (const char* how : {"rotate", "random", "reserialize"}) {
    const auto moved = sound_job(where, ranks, small + strings{std::string("--tern-debug-migrate=") + how});
    EXPECT_EQ(hash_of(moved), hash_of(alone)) << how;
  }
}

class whole_job : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(under, whole_job, testing::ValuesIn(transports()),
                         [](const auto& test) { return test.param; });

TEST_P(whole_job, verified) {
  const auto done = sound_job(GetParam(), 2, small + strings{"--verify"});
  EXPECT_TRUE(has(done.program.out, "verified: conforms\n")) << done.program.out;
}

TEST(job, both_estimates) {
  const auto count = sound_job("inproc", 2, small + strings{"--verify", "--estimate", "count"});
  const auto area = sound_job("inproc", 2, small + strings{"--verify", "--estimate", "area"});
  EXPECT_EQ(count.summary["estimate"], "count");
  EXPECT_EQ(area.summary["estimate"], "area");
  for (const auto* one : {&count, &area}) {
    EXPECT_TRUE(has(one->program.out, "verified: conforms\n"));
    EXPECT_TRUE(has(one->program.out, "imbalance")) << one->program.out;
    EXPECT_GE(one->summary["imbalance"].get<double>(), 1.0);
  }
}

TEST(job, other_coasts) {
  for (const char* box : {"-10.5,51,-5,55.5", "-64,9,-58,20"}) { // Ireland; the Lesser Antilles
    const auto done = sound_job("inproc", 2, small + strings{std::string("--bbox=") + box, "--verify"});
    EXPECT_TRUE(has(done.program.out, "verified: conforms\n")) << box << done.program.out;
    EXPECT_GT(done.summary["coast_segments"].get<int>(), 50) << box;
  }
}

// Two ranks are killed half-way; three go on, and are killed; one makes the same mesh.
TEST(job, stopped_half_way_and_gone_on) {
  const temporary folder;
  const strings wide{"--hmin", "1.5", "--hmax", "15", "--checkpoint", folder / "run", "--every", "1"};
  const auto alone = sound_job("", 1, small);
  for (const int ranks : {2, 3}) {
    child half(job("inproc", ranks, wide + (ranks == 2 ? strings{} : strings{"--restart", folder / "run"}), 1));
    ASSERT_TRUE(half.wait_for_err("are saved in", 3)) << half.err;
    for (const pid_t p : processes_of(folder.path.string())) kill(p, SIGKILL);
    half.end();
  }
  const auto done = sound_job("", 1, small + strings{"--restart=" + (folder / "run"), "--verify"});
  EXPECT_EQ(hash_of(done), hash_of(alone));
  EXPECT_TRUE(has(done.program.out, "verified: conforms\n")) << done.program.out;
}

TEST(job, open_ocean) {
  const auto done =
      sound_job("inproc", 2, {"--bbox=-30,0,-25,5", "--hmin", "1", "--groups", "8", "--quiet", "--verify"});
  EXPECT_TRUE(has(done.program.out, "verified: conforms\n")) << done.program.out;
  EXPECT_EQ(done.summary["coast_segments"], 0);
  EXPECT_GE(done.summary["smallest_angle"].get<double>(), 20.0);
}

TEST(job, no_files_unless_asked_for) {
  const temporary folder;
  const auto done = run(job("inproc", 2, tiny), 20, {.folder = folder.path});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  EXPECT_TRUE(has(done.out, "triangles") && has(done.out, "smallest angle") && has(done.out, "busy s")) << done.out;
}

TEST_P(whole_job, files) {
  const temporary folder;
  const auto done = run(job(GetParam(), 2, tiny + strings{"--out", folder / "new/out"}));
  ASSERT_EQ(done.code, 0) << done.err;
  const auto summary = read_json(folder / "new/out/summary.json");
  ASSERT_TRUE(summary.is_object());
  for (const char* name : {"mesh.png", "mesh_size.png"}) {
    const auto png = read_text(folder / (std::string("new/out/") + name));
    EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n") << name;
    EXPECT_TRUE(has(png.substr(png.size() - 12), "IEND")) << name;
  }
  const auto vtu = read_text(folder / "new/out/mesh.vtu");
  EXPECT_EQ(vtu.rfind("<?xml version=\"1.0\"?>", 0), 0u);
  EXPECT_TRUE(has(vtu, "NumberOfCells=\"" + std::to_string(summary["triangles"].get<int>()) + "\""));
  for (const char* array : {"\"rank\"", "\"group\"", "\"size\"", "\"angle\"", "\"connectivity\""})
    EXPECT_TRUE(has(vtu, std::string("Name=") + array)) << array;
  EXPECT_TRUE(has(vtu.substr(vtu.size() - 40), "</VTKFile>"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path / "new/out")) files += entry.exists();
  EXPECT_EQ(files, 4u);
}

TEST(job, only_the_files_asked_for) {
  const temporary folder;
  const auto done = run(job("", 1, tiny + strings{"--out", folder / "out", "--no-pictures", "--no-vtu"}));
  EXPECT_EQ(done.code, 0) << done.err;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path / "out")) files += entry.exists();
  EXPECT_EQ(files, 1u);
}

TEST(job, progress) {
  const auto done = run(job("inproc", 2, {"--hmin", "4", "--hmax", "40"}));
  EXPECT_TRUE(has(done.err, "100 %")) << done.err;
}

TEST(job, the_rival) {
  const temporary folder;
  const auto done = run(job("", 1, tiny + strings{"--sequential", "--json", folder / "s.json"}));
  EXPECT_EQ(done.code, 0) << done.err;
  const auto rival = read_json(folder / "s.json");
  const auto ours = sound_job("", 1, tiny);
  EXPECT_TRUE(rival.at("sequential").get<bool>());
  EXPECT_NEAR(rival.at("triangles").get<double>() / ours.summary.at("triangles").get<double>(), 1, 0.1);
  EXPECT_NEAR(rival.at("area_km2").get<double>() / ours.summary.at("area_km2").get<double>(), 1, 1e-9);
}

namespace {

struct refusal {
  std::string name;
  strings arguments;
  std::string text, advice; ///< what stderr must contain: the thing, and what to do
};

/// The folder the bad files lie in goes with the process.
const temporary& bad_files() {
  static const temporary folder;
  static const bool made =
      [] {
        std::ifstream shipped(MESH_TEST_LAND, std::ios::binary);
        std::string start(20'000, ' ');
        shipped.read(start.data(), static_cast<std::streamsize>(start.size()));
        std::ofstream(folder / "cut.json") << start;
        std::ofstream(folder / "words.json") << "hello, this is no JSON\n";
        std::ofstream(folder / "other.json") << R"({"type": "Topic"})";
        std::ofstream(folder / "cross.json")
            << R"({"type": "Polygon", "coordinates": [[[20, 33], [24, 37], [24, 33], [20, 36], [20, 33]]]})";
        std::ofstream(folder / "file") << "no folder\n";
        return true;
      }();
  static_cast<void>(made);
  return folder;
}

std::vector<refusal> refusals() {
  const auto& folder = bad_files();
  const std::string land = "GeoJSON or TopoJSON";
  return {
      {"missing_file", {"--input", folder / "none.json"}, "none.json: No such file", "check the path"},
      {"folder_as_file", {"--input", folder.path.string()}, folder.path.string(), ""},
      {"cut_short", {"--input", folder / "cut.json"}, "cut.json is not JSON or was cut short", land},
      {"no_json", {"--input", folder / "words.json"}, "words.json is not JSON or was cut short", land},
      {"no_polygons", {"--input", folder / "other.json"}, "other.json", land},
      {"self_crossing", {"--input", folder / "cross.json"}, "(21.7143, 34.7143)", "repair the polygons"},
      {"all_land", {"--bbox=20,20,25,25"}, "no sea in the box", "--bbox"},
      {"h_min_zero", {"--hmin", "0"}, "--hmin is 0: it must be a positive length", "change --hmin"},
      {"h_min_negative", {"--hmin", "-1"}, "--hmin is -1: it must be a positive length", "change --hmin"},
      {"h_min_nan", {"--hmin", "nan"}, "--hmin is nan", "change --hmin"},
      {"h_min_word", {"--hmin", "small"}, "--hmin = small", "--help"},
      {"h_max_below", {"--hmin", "2", "--hmax", "1"}, "at least --hmin, which is 2", "change --hmax"},
      {"h_max_infinite", {"--hmax", "inf"}, "--hmax is inf", "change --hmax"},
      {"too_many", {"--hmin", "1e-6", "--hmax", "1e-5"}, "million triangles, more than", "make --hmin"},
      {"grade_negative", {"--grade", "-1"}, "--grade is -1", "change --grade"},
      {"box_of_three", {"--bbox=1,2,3"}, "--bbox '1,2,3' is not four numbers", "west,south,east,north"},
      {"box_of_words", {"--bbox=1,2,3,north"}, "is not four numbers", "west,south,east,north"},
      {"box_reversed", {"--bbox=10,2,3,8"}, "west must be smaller than east", "--bbox"},
      {"box_off_the_map", {"--bbox=-200,2,3,8"}, "[-180, 180]", "--bbox"},
      {"out_below_a_file", {"--out", folder / "file/out"}, "file/out': Not a directory", "choose another with --out"},
      {"out_in_proc", {"--out", "/proc/mesh"}, "/proc/mesh", "choose another with --out"},
      {"json_nowhere",
       {"--json", folder / "none/s.json"},
       "none/s.json': No such file",
       "choose another file with --json"},
      {"unknown_option", {"--fast"}, "not expected: --fast", "--help"},
      {"unknown_tern_option", {"--tern-fast"}, "unknown option --tern-fast", "--tern-help"},
      {"stray_word", {"fast"}, "not expected: fast", "--help"},
      {"wrong_estimate", {"--estimate", "weight"}, "weight", "--help"},
  };
}

} // namespace

class refused : public testing::TestWithParam<std::size_t> {};

TEST_P(refused, with_one_clear_message) {
  const auto one = refusals()[GetParam()];
  // Under each MPI too for a few: their ranks are processes that all have to end.
  strings places{"", "inproc"};
  if (GetParam() % 8 == 0) places = strings{""} + transports();
  for (const auto& where : places) {
    const auto done = run(job(where, 3, one.arguments), 10); // the promise, not a measurement
    EXPECT_NE(done.code, 0) << where;
    EXPECT_LT(done.code, 1000) << "signal, under '" << where << "'";
    EXPECT_NE(done.code, -1) << "still running after 10 s under '" << where << "'";
    EXPECT_TRUE(has(done.err, one.text)) << where << ": " << done.err;
    EXPECT_TRUE(has(done.err, one.advice)) << where << ": " << done.err;
    const auto seen = without_log(done.err);
    const auto lines = std::count(seen.begin(), seen.end(), '\n');
    EXPECT_LE(lines, 3) << where << ": " << done.err; // message, advice; under MPI how the job ended
    EXPECT_EQ(done.out, "") << where;
  }
}

INSTANTIATE_TEST_SUITE_P(input, refused, testing::Range<std::size_t>(0, refusals().size()),
                         [](const auto& test) { return refusals()[test.param].name; });

TEST(bad_input, more_ranks_than_subdomains) {
  for (const auto& where : transports()) {
    const auto done = run(job(where, 4, tiny + strings{"--groups", "2"}), 10);
    EXPECT_GT(done.code, 0) << where << done.err;
    EXPECT_LT(done.code, 1000) << where;
    EXPECT_TRUE(has(done.err, "there are 4 ranks but only 2 subdomains")) << where << done.err;
    EXPECT_TRUE(has(done.err, "start fewer ranks")) << where << done.err;
  }
}

TEST(bad_input, a_program_that_is_not_there) {
  for (const auto& where : transports()) {
    strings line{TERN_TOOL_PATH, "run", "-n", "2"};
    if (where != "inproc") line.insert(line.end(), {"--mpi", where});
    const auto done = run(line + strings{"--", "./no-such-mesh"}, 10);
    EXPECT_EQ(done.code, 127) << where;
    EXPECT_EQ(done.err, "tern: there is no program ./no-such-mesh\n") << where;
  }
}

TEST(bad_input, disk_full) {
  for (const auto& where : transports()) {
    const auto done = run(job(where, 2, tiny + strings{"--json", "/dev/full"}), 10);
    EXPECT_GT(done.code, 0) << where;
    EXPECT_TRUE(has(done.err, "cannot write '/dev/full': No space left on device")) << where << done.err;
    EXPECT_TRUE(has(done.err, "free space")) << where << done.err;
  }
}

TEST(bad_input, a_file_is_not_emptied_by_a_job_that_fails) {
  const temporary folder;
  std::ofstream(folder / "s.json") << "old";
  EXPECT_NE(run(job("", 1, {"--bbox=20,20,25,25", "--json", folder / "s.json"}), 10).code, 0);
  EXPECT_EQ(read_text(folder / "s.json"), "old");
  EXPECT_NE(run(job("", 1, {"--bbox=20,20,25,25", "--json", folder / "t.json"}), 10).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path / "t.json"));
}

class dying_rank : public testing::TestWithParam<std::string> {};

TEST_P(dying_rank, ends_all) {
  const temporary folder;
  const auto& where = GetParam();
  // 16 million triangles: seconds are left when a quarter is done.
  child job_of_two(job(where, 2, {"--hmin", "0.25", "--hmax", "0.6", "--json", folder / "s.json"}, 1));
  ASSERT_TRUE(job_of_two.wait_for_err("meshing:  25 %")) << job_of_two.err;
  const auto ranks = processes_of(folder.path.string());
  ASSERT_EQ(ranks.size(), where == "inproc" ? 1u : 2u);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(kill(ranks.back(), SIGKILL), 0);
  const int code = job_of_two.end(20);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s); // the promise, not a measurement
  EXPECT_EQ(code, 137) << job_of_two.err;
  EXPECT_TRUE(has(job_of_two.err, "SIGKILL")) << job_of_two.err;
  EXPECT_TRUE(has(job_of_two.err, "all 2 ranks")) << job_of_two.err;
  EXPECT_TRUE(processes_of(folder.path.string()).empty());
  EXPECT_FALSE(std::filesystem::exists(folder.path / "s.json"));
}

INSTANTIATE_TEST_SUITE_P(under, dying_rank, testing::ValuesIn(transports()),
                         [](const auto& test) { return test.param; });
