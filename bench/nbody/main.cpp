// SPDX-License-Identifier: Apache-2.0
/// \file
/// The tree code against the same walks as OpenMP loops, balanced against not, and in the model of
/// a large machine (docs/results/nbody.md).

#include "bench/harness/command.hpp"
#include "bench/harness/harness.hpp"
#include "bench/harness/runner.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#ifndef BENCH_NBODY_PATH
#error "define BENCH_NBODY_PATH and BENCH_TERN_PATH as the paths of nbody and tern"
#endif

namespace {

using tern::bench::direction;
using tern::bench::metric;
using tern::bench::scale;
using namespace tern::bench::contest;
using strings = std::vector<std::string>;

const contestant& contestant_named(const std::string& name) {
  static const std::vector<contestant> contestants{
      {"tern", BENCH_NBODY_TERN, "", ""},
      {"libgomp", BENCH_NBODY_LIBGOMP, "g++", ""},
  };
  for (const contestant& s : contestants)
    if (s.name == name) return s;
  throw std::invalid_argument("no contestant is called " + name);
}

/// A folder for what the programs write, gone with the process.
class scratch {
public:
  scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "bench-nbody-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder for temporary files in " + name);
    path_ = name;
  }
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_;
};

const scratch& folder() {
  static const scratch one;
  return one;
}

/// Whole runs of the application.
class runs {
public:
  explicit runs(const scale& of) : of_(of) {}

  /// A cluster and a stream on two ranks: half of the bodies are much dearer than the others.
  nlohmann::json clustered(const std::string& policy) const {
    const std::string report = folder() / "run.json";
    strings line = job(2);
    const strings about{"--model",
                        "stream",
                        "--n",
                        of_(std::string("200000"), std::string("2000")),
                        "--steps",
                        "6",
                        "--json",
                        report,
                        "--tern-balance=" + policy};
    line.insert(line.end(), about.begin(), about.end());
    return tern::bench::run_for_json(line, report);
  }

  /// Work over ranks and time, in the model, with what pieces took in a recorded run; by the best
  /// of some policies.
  double efficiency(int ranks) {
    record();
    const strings line{BENCH_TERN_PATH, "replay", recording(), "-n",         "1," + std::to_string(ranks),
                       "--workers",     "1",      "--json",    "--policies", "greedy,refine,diffusion,hierarchical"};
    const std::string answer = tern::bench::run_command(line).output;
    double work = 0, makespan = 0;
    std::istringstream lines(answer);
    for (std::string text; std::getline(lines, text);) {
      const auto one = nlohmann::json::parse(text, nullptr, false);
      if (!one.is_object() || !one.contains("makespan")) continue;
      const double took = one["makespan"].get<double>();
      if (one["ranks"] == 1)
        work = one["bound"].get<double>(); // one worker does all of it
      else
        makespan = makespan > 0 ? std::min(makespan, took) : took;
    }
    if (work <= 0 || makespan <= 0) throw std::runtime_error("tern replay gave no times: " + answer.substr(0, 200));
    return work / (ranks * makespan);
  }

private:
  static strings job(int ranks) {
    return {BENCH_TERN_PATH, "run", "-n", std::to_string(ranks), "--workers", "1", "--", BENCH_NBODY_PATH, "--quiet"};
  }
  static std::string recording() { return folder() / "run.rec"; }
  void record() {
    if (recorded_) return;
    strings line = job(1);
    const strings about{"--model",
                        "plummer",
                        "--n",
                        of_(std::string("1000000"), std::string("3000")),
                        "--pieces",
                        of_(std::string("16384"), std::string("600")),
                        "--steps",
                        "3",
                        "--tern-record=" + recording()};
    line.insert(line.end(), about.begin(), about.end());
    tern::bench::run_command(line);
    recorded_ = true;
  }
  scale of_;
  bool recorded_ = false;
};

std::vector<metric> metrics(runners& running, const scale& of) {
  const auto n = [&](std::size_t usual, std::size_t tiny) { return of(usual, tiny); };
  std::vector<metric> list;
  list.push_back(compare(running, {"nbody.force", 1.05, "force", 2, n(1'000'000, 2000), {{"libgomp", ""}}}));
  for (const std::size_t bodies : {std::size_t{2000}, std::size_t{20000}})
    list.push_back(compare(
        running,
        {"nbody.direct." + std::to_string(bodies), {}, "force", 2, n(bodies, bodies / 10), {{"libgomp", "direct"}}}));
  const auto all = std::make_shared<runs>(of);
  const auto time = [all](const char* policy) {
    return [=] { return all->clustered(policy).at("seconds").get<double>(); };
  };
  list.push_back({.name = "nbody.clustered",
                  .unit = "s",
                  .target = 0.75,
                  .rival_name = "static",
                  .ours = time("steal"),
                  .rival = time("none")});
  struct size {
    int ranks;
    double target;
  };
  for (const size at : {size{16, 0.95}, size{256, 0.9}, size{4096, 0.7}})
    list.push_back({.name = "nbody.efficiency." + std::to_string(at.ranks),
                    .unit = "work/time",
                    .better = direction::higher,
                    .target = at.target,
                    .rival_name = "perfect",
                    .ours = [=] { return all->efficiency(at.ranks); },
                    .rival = tern::bench::budget(1),
                    .once = true});
  return list;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN); // a contestant that has died is reported, not died of
  runners running(contestant_named);
  return tern::bench::run(argc, argv, [&](const scale& of) { return metrics(running, of); });
}
