// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern replay` from outside.
#include "child.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tern/balance/recording.hpp>

namespace {

namespace fs = std::filesystem;
using tern::balance::recording;
using tern::mobile::object_id;
using tern::test::finished;
using tern::test::has;
using tern::test::strings;
using tern::test::temporary;

finished replay(strings arguments) {
  arguments.insert(arguments.begin(), {TERN_TOOL_PATH, "replay"});
  return tern::test::run(arguments);
}

std::vector<nlohmann::json> results(strings arguments) {
  arguments.push_back("--json");
  const auto r = replay(std::move(arguments));
  EXPECT_EQ(r.code, 0) << r.all();
  std::vector<nlohmann::json> found;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
  return found;
}

/// Two ranks of two workers; rank 0 has eight objects of 1 s, rank 1 two; neighbours talk.
recording uneven() {
  recording r;
  r.program = "app\x1b[31m";
  r.policy = "none";
  r.order = "lifo";
  r.ranks = 2;
  r.workers = 2;
  r.unit = 0.5;
  r.length = 8.5;
  const auto type = r.name("patch"), note = r.name("limit");
  for (std::uint64_t i = 1; i <= 10; ++i) {
    const object_id id(0, i);
    r.objects.push_back({id, type, i <= 8 ? 0 : 1, 1 << 20});
    r.works.push_back({id, 0, 3, 2, 0});
    if (i > 1) r.links.push_back({object_id(0, i - 1), id, 1 << 20, 10});
  }
  r.migrations = {{1, object_id(0, 1), 0, 1}};
  for (int rank = 0; rank < 2; ++rank)
    for (int worker = 0; worker < 2; ++worker) r.busies.push_back({8, rank, worker, rank == 0 ? 8.0 : 2.0});
  r.notes = {{1, 0, note, 2}, {2, 0, note, 4}};
  return r;
}

/// Width and height of a PNG file; nothing if it is none.
std::vector<int> size_of_picture(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (!bytes.starts_with("\x89PNG\r\n") || bytes.size() < 24) return {};
  const auto number = [&](std::size_t at) {
    int n = 0;
    for (std::size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(bytes[at + i]);
    return n;
  };
  return {number(16), number(20)};
}

} // namespace

TEST(replay, a_made_up_load) {
  const auto r = replay({"--synthetic", "literature", "--ranks", "2", "--cores", "5", "--policies", "none,greedy"});
  EXPECT_EQ(r.code, 0) << r.all();
  EXPECT_EQ(r.err, "");
  EXPECT_TRUE(r.out.starts_with("Synthetic load: literature\n2 ranks of 4 workers, 80 objects; modelled: latency 2us, "
                                "bandwidth 5GB/s, order fifo, seed 1\nno schedule ends before "))
      << r.out;
  const auto none = r.out.find("\nnone "), greedy = r.out.find("\ngreedy ");
  ASSERT_NE(none, r.out.npos) << r.out;
  EXPECT_LT(greedy, none) << "the better one comes first\n" << r.out;
  EXPECT_TRUE(has(r.out, "\nbest on 2 ranks: greedy, ")) << r.out;
}

TEST(replay, figures_for_programs) {
  const auto all = results({"--synthetic", "clustered", "-n", "4,2", "--workers", "3", "--policies",
                            "none,greedy:keep=0.2,gain=0.01,none", "--per-worker", "5", "--phases", "2"});
  ASSERT_EQ(all.size(), 6u);
  int balanced = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& r = all[i];
    EXPECT_EQ(r["ranks"], i < 3 ? 4 : 2);
    EXPECT_EQ(r["workers"], 3);
    EXPECT_EQ(r["phases"], 2);
    EXPECT_EQ(r["objects"], i < 3 ? 60 : 30);
    EXPECT_GE(r["makespan"].get<double>(), r["bound"].get<double>() * 0.999999);
    if (i % 3 > 0) {
      EXPECT_GE(r["makespan"], all[i - 1]["makespan"]);
    }
    if (r["policy"] == "none") {
      EXPECT_EQ(r["moves"], 0);
      EXPECT_GE(r["makespan"].get<double>(), r["static_bound"].get<double>() * 0.999999);
      EXPECT_GT(r["imbalance"], 1.1);
    } else {
      EXPECT_EQ(r["policy"], "greedy:keep=0.2,gain=0.01");
      EXPECT_GT(r["moves"], 0);
      ++balanced;
    }
  }
  EXPECT_EQ(balanced, 2);
}

TEST(replay, chance_is_the_seed_s) {
  const strings command{"--synthetic", "pareto", "-n", "4", "--workers", "2", "--seed", "9"};
  const auto once = replay(command), again = replay(command);
  EXPECT_EQ(once.code, 0) << once.all();
  EXPECT_EQ(once.out, again.out);
  strings other = command;
  other.back() = "10";
  EXPECT_NE(replay(other).out, once.out);
}

TEST(replay, a_recorded_run) {
  const temporary here;
  const std::string file = here / "run.rec";
  write_recording(uneven(), file);
  const auto r = replay({"--policies", "none,greedy", file});
  EXPECT_EQ(r.code, 0) << r.all();
  EXPECT_TRUE(r.out.starts_with("app?[31m, recorded on 2 ranks\n2 ranks of 2 workers, 10 objects; modelled: latency "
                                "2us, bandwidth 5GB/s, order lifo, seed 1\n"
                                "no schedule ends before 2.500 s; without moves it takes at least 4.000 s\n"))
      << r.out;
  const auto two = results({file, "--policies", "none", "--order", "fifo"});
  ASSERT_EQ(two.size(), 1u);
  EXPECT_NEAR(two[0]["makespan"].get<double>(), 4, 1e-3); // 8 objects of 1 s (2 units of 0.5 s) on two workers
  EXPECT_NEAR(two[0]["imbalance"].get<double>(), 1.6, 1e-3);
  EXPECT_EQ(two[0]["order"], "fifo");
  EXPECT_EQ(two[0]["remote_bytes"], 1 << 20); // between the eighth and the ninth
  const auto five = results({file, "--policies", "none", "--ranks", "5", "--workers", "1"});
  ASSERT_EQ(five.size(), 1u);
  EXPECT_NEAR(five[0]["makespan"].get<double>(), 2, 1e-3); // dealt out: two each
  EXPECT_EQ(five[0]["remote_bytes"], 4 << 20);
}

TEST(replay, tells_what_was_recorded) {
  const temporary here;
  const std::string file = here / "run.rec";
  write_recording(uneven(), file);
  const auto r = replay({file, "--describe"});
  EXPECT_EQ(r.code, 0) << r.all();
  EXPECT_EQ(r.out, file + ": app?[31m on 2 ranks of 2 workers, 4.250 s\n"
                          "policy none, order lifo\n"
                          "no phases are marked\n"
                          "\n"
                          "class  objects   MiB  invocations     time  of device\n"
                          "patch       10  10.0           30  10.00 s    0.000 s\n"
                          "work where objects began: least 2.000 s, mean 5.000 s, most 8.000 s (1.600 times the mean), "
                          "of each rank\n"
                          "workers were busy: least 1.000 s, mean 2.500 s, most 4.000 s (1.600 times the mean)\n"
                          "talk: 90 messages of 9.0 MiB between 9 pairs of objects; 11.1 % of it between ranks where "
                          "objects began\n"
                          "moves: 1\n"
                          "\n"
                          "policies' notes  times  least  mean  most\n"
                          "limit                2      2     3     4\n");
  write_recording(recording(), file);
  EXPECT_EQ(replay({file, "--describe"}).code, 0);
  const auto empty = replay({file});
  EXPECT_EQ(empty.code, 1);
  EXPECT_TRUE(has(empty.err, "has no objects to replay")) << empty.err;
}

TEST(replay, draws) {
  const temporary here;
  const std::string file = here / "run.rec";
  write_recording(uneven(), file);
  const auto r =
      replay({file, "-n", "2,4", "--policies", "greedy", "--picture", here / "b.usy.png", "--course", here / "course"});
  EXPECT_EQ(r.code, 0) << r.all();
  const std::vector<int> size{1600, 1000};
  for (const char* name : {"b.usy-2.png", "b.usy-4.png", "course-2", "course-4"})
    EXPECT_EQ(size_of_picture(here / name), size) << name;
  EXPECT_EQ(replay({file, "--describe", "--picture", here / "one.png"}).code, 0);
  EXPECT_EQ(size_of_picture(here / "one.png"), size);
  const auto nowhere = replay({file, "--policies", "none", "--picture", here / "no/where.png"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_TRUE(has(nowhere.err, "cannot write " + here / "no/where.png")) << nowhere.err;
}

TEST(replay, files_that_are_wrong) {
  const temporary here;
  const std::string file = here / "run.rec";
  auto bytes = recording_bytes(uneven());
  bytes[bytes.size() / 2] ^= std::byte{4};
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const auto r = replay({file});
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(r.err.starts_with("tern: " + file + ": at offset ")) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_EQ(r.out, "");
  const auto none = replay({here / "none.rec"});
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(has(none.err, "none.rec cannot be read: No such file")) << none.err;
  const auto other = replay({here.write("text", "some text")});
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(has(other.err, "at offset 0 there is not what a recording begins with")) << other.err;
}

TEST(replay, options_that_are_wrong) {
  const struct {
    strings arguments;
    std::string says;
  } cases[]{
      {{}, "name a recording, or a made-up load with --synthetic"},
      {{"x", "--synthetic", "slow"}, "it is either a recording or --synthetic, not both"},
      {{"--synthetic", "odd"}, "--synthetic: there is no placement of loads \"odd\"; allowed: literature|"},
      {{"--synthetic", "slow", "--describe"}, "--describe needs a recording"},
      {{"--synthetic", "slow", "--policies", "none,best"}, "--policies: there is no policy \"best\"; there are: "},
      {{"--synthetic", "slow", "--policies", "none:a=1"}, "--policies: "},
      {{"--synthetic", "slow", "--policies", "a=1"}, "--policies: "},
      {{"--synthetic", "slow", "--policies", "none,,greedy"}, "--policies: there is no policy \"\""},
      {{"--synthetic", "slow", "--order", "odd"}, "--order: "},
      {{"--synthetic", "slow", "--ranks", "2,x"}, "--ranks 2,x: it must be a list of numbers from 1"},
      {{"--synthetic", "slow", "--ranks", "0"}, "--ranks 0: it must be"},
      {{"--synthetic", "slow", "--ranks", "3,"}, "--ranks 3,: it must be"},
      {{"--synthetic", "slow", "--ranks", "99999999999"}, "it must be"},
      {{"--synthetic", "slow", "--ranks", "2000000"}, "more than 16,777,216, the most that is modelled"},
      {{"--synthetic", "slow", "--workers", "0"}, "--workers"},
      {{"--synthetic", "slow", "--cores", "1"}, "--cores"},
      {{"--synthetic", "slow", "--cores", "3", "--workers", "2"}, "--cores"},
      {{"--synthetic", "slow", "--latency", "2"}, "--latency: "},
      {{"--synthetic", "slow", "--latency", "2us,ranks=3"}, "--latency \"2us,ranks=3\" is not a number with its unit"},
      {{"--synthetic", "slow", "--bandwidth", "0"}, "--bandwidth: "},
      {{"--synthetic", "slow", "--period", "0"}, "--period: it must be a number of seconds"},
      {{"--synthetic", "slow", "--seed", "-1"}, "--seed -1: it must be a number from 0"},
      {{"x", "--phases", "2"}, "--phases requires --synthetic"},
      {{"x", "--per-worker", "2"}, "--per-worker requires --synthetic"},
      {{"x", "--describe", "--json"}, " excludes --"},
      {{"--synthetic", "slow", "--odd"}, "--odd"},
  };
  for (const auto& c : cases) {
    std::string shown;
    for (const auto& a : c.arguments) shown += a + " ";
    const auto r = replay(c.arguments);
    EXPECT_EQ(r.code, 2) << shown << r.all();
    EXPECT_TRUE(r.err.starts_with("tern: ")) << shown << r.err;
    EXPECT_TRUE(has(r.err, c.says)) << shown << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << shown << r.err;
    EXPECT_EQ(r.out, "") << shown;
  }
}
