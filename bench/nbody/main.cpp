// SPDX-License-Identifier: Apache-2.0
/// \file
/// The tree code against the same walks as OpenMP loops, balanced against not, and in the model of
/// a large machine (docs/results/nbody.md).

#include "bench/harness/command.hpp"
#include "bench/harness/harness.hpp"
#include "bench/harness/runner.hpp"
#include "bench/harness/scratch.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tern/balance/model.hpp>
#include <tern/balance/recording.hpp>
#include <tern/balance/workload.hpp>

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

const tern::bench::scratch& folder() {
  static const tern::bench::scratch one("bench-nbody");
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
                        of_(std::string("12"), std::string("6")),
                        "--json",
                        report,
                        "--tern-balance=" + policy};
    line.insert(line.end(), about.begin(), about.end());
    return tern::bench::run_for_json(line, report);
  }

  /// Work over ranks and time in the model of a machine, with what pieces took in a recorded run,
  /// each in its quickest step: what others do on the machine is no work. The first step, which
  /// begins with equally many pieces on each rank, is left out: a run has hundreds. By the best of
  /// some policies.
  double efficiency(int ranks) {
    using namespace tern::balance;
    if (recorded_.objects.empty()) record();
    const workload w = dealt(recorded_, ranks, 1);
    double work = 0, best = 0;
    for (const workload::object& piece : w.objects) work += piece.seconds.front();
    for (const char* policy : {"greedy", "refine", "hierarchical"}) {
      const model_result r = run_model(w, {.policy = policy});
      if (!r.error.empty()) throw std::runtime_error(std::string(policy) + " failed: " + r.error);
      const double taken = (r.phase_ends.back() - r.phase_ends.front()) / static_cast<double>(w.phases() - 1);
      best = std::max(best, work / (ranks * taken));
    }
    return best;
  }

private:
  static strings job(int ranks) {
    return {BENCH_TERN_PATH, "run", "-n", std::to_string(ranks), "--workers", "1", "--", BENCH_NBODY_PATH, "--quiet"};
  }
  void record() {
    using namespace tern::balance;
    const std::string file = folder() / "run.rec";
    strings line = job(1);
    const strings about{"--model",
                        "plummer",
                        "--n",
                        of_(std::string("1000000"), std::string("3000")),
                        "--pieces",
                        of_(std::string("16384"), std::string("600")),
                        "--steps",
                        "8",
                        "--tern-balance=none",
                        "--tern-record=" + file};
    line.insert(line.end(), about.begin(), about.end());
    tern::bench::run_command(line);
    workload w = to_workload(read_recording(file));
    if (w.objects.empty() || w.phases() < 2) throw std::runtime_error("the recording has no steps");
    for (workload::object& piece : w.objects) {
      const double least = *std::min_element(piece.seconds.begin(), piece.seconds.end());
      piece.seconds.assign(piece.seconds.size(), least);
    }
    recorded_ = std::move(w);
  }
  scale of_;
  tern::balance::workload recorded_;
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
                  .ours = time("curve"),
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
