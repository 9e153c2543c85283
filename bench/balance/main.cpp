// SPDX-License-Identifier: Apache-2.0
/// \file
/// Load balancing: the literature's synthetic loads at its scales and beyond, simulated; real ranks; and what balancing
/// costs where there is nothing to balance.
///
///     bench_balance                  as every benchmark (harness.hpp)
///     bench_balance --markdown       the table of docs/results/balance.md
///     bench_balance --pictures DIR   its pictures

#include "bench/harness/harness.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tern/balance/model.hpp>

#include "bench/balance/pictures.hpp"
#include "bench/harness/jobs.hpp"
#include "bench/harness/series.hpp"

#ifndef BENCH_BALANCE_TERN
#error "define BENCH_BALANCE_TERN and BENCH_BALANCE_MESH as the paths of the programs"
#endif

namespace {

using namespace tern::bench;
using metrics = std::vector<metric>;

/// The literature's policy, and what has turned out best.
const char* const usual = "diffusion";
const char* const best = "gossip";

struct scale {
  int cores, ranks, workers; ///< of each rank one core communicates
};
const scale scales[] = {{320, 10, 31}, {1280, 40, 31}, {3200, 200, 15}, {5600, 350, 15}};
const scale large = {100'000, 6250, 15};
const scale huge = {1'000'000, 62'500, 15};

/// A simulated run, which is the same each time.
class simulated {
public:
  simulated(const std::string& placement, const scale& s, const std::string& policy, const std::string& more = "")
      : found_(std::make_shared<nlohmann::json>()) {
    line_ = {BENCH_BALANCE_TERN,
             "sim",
             placement,
             "ranks=" + std::to_string(s.ranks),
             "workers=" + std::to_string(s.workers),
             "policy=" + policy,
             "order=plan"};
    if (!more.empty()) line_.push_back(more);
  }
  std::function<double()> operator[](const std::string& name) const {
    return [line = line_, found = found_, name] {
      if (found->is_null()) *found = run_for_json(line, {}, {{"TERN_LOG_LEVEL", "error"}});
      return found->at(name).get<double>();
    };
  }

private:
  words line_;
  std::shared_ptr<nlohmann::json> found_;
};

void add_synthetic(metrics& all) {
  for (const std::string placement : {"literature", "clustered"})
    for (const scale& s : scales) {
      const std::string name = "balance." + placement + "." + std::to_string(s.cores) + ".";
      const simulated stays(placement, s, "none"), diffuses(placement, s, usual), goes(placement, s, best);
      const auto add = [&](const std::string& what, const simulated& how, double target) {
        all.push_back({.name = name + what,
                       .unit = "s",
                       .target = target,
                       .rival_name = "bound",
                       .ours = how["makespan"],
                       .rival = how["bound"]});
      };
      add(usual, diffuses, 1.05);
      add(best, goes, 1.03);
      all.push_back({.name = name + usual + ".static",
                     .unit = "s",
                     .rival_name = "static",
                     .ours = diffuses["makespan"],
                     .rival = stays["makespan"]});
      if (s.cores == 5600 && placement == "literature") {
        all.push_back({.name = "balance.simulation.time",
                       .unit = "s",
                       .target = 1,
                       .rival_name = "budget",
                       .ours = diffuses["wall"],
                       .rival = budget(60)});
        all.push_back({.name = "balance.simulation.memory",
                       .unit = "MiB",
                       .target = 1,
                       .rival_name = "budget",
                       .ours = diffuses["mib"],
                       .rival = budget(4096)});
      }
    }
  for (const std::string placement : {"literature", "clustered"}) {
    const simulated goes(placement, large, best);
    all.push_back({.name = "balance." + placement + ".100000." + best,
                   .unit = "s",
                   .target = 1.08,
                   .rival_name = "bound",
                   .ours = goes["makespan"],
                   .rival = goes["bound"]});
    // No directory, no fibers, no contention between a rank's end and another's: see tern/balance/model.hpp.
    const auto modelled = [placement] {
      static std::map<std::string, double> known;
      double& ratio = known[placement];
      if (ratio == 0) {
        const tern::balance::workload w =
            tern::balance::make({.placement = placement, .ranks = huge.ranks, .workers = huge.workers});
        ratio = tern::balance::run_model(w, {.policy = best, .order = "plan"}).makespan / w.bound();
      }
      return ratio;
    };
    all.push_back({.name = "balance." + placement + ".1000000." + best + ".model",
                   .unit = "of the bound",
                   .target = 1.08,
                   .rival_name = "bound",
                   .ours = modelled,
                   .rival = budget(1)});
  }
}

// One object in 1000 is a hundred times as heavy.
void add_tasklets(metrics& all) {
  const scale nodes{320, 20, 15};
  const simulated inside("rare", nodes, usual), without("rare", nodes, usual, "tasklets=0");
  all.push_back({.name = "balance.tasklets.simulated",
                 .unit = "s",
                 .target = 0.5,
                 .rival_name = "without",
                 .ours = inside["makespan"],
                 .rival = without["makespan"]});
  const auto real = [](const std::string& tasklets) {
    return series([=] {
      return run_for_json(command_line(BENCH_BALANCE_TERN, {"burn", "rare", "workers=2", "objects=5", "seconds=0.004",
                                                            tasklets, "--tern-balance=" + std::string(usual)}),
                          {}, {{"TERN_RANKS", "1"}, {"TERN_WORKERS", "2"}, {"TERN_LOG_LEVEL", "error"}});
    });
  };
  all.push_back({.name = "balance.tasklets.2workers",
                 .unit = "s",
                 .target = 0.6,
                 .rival_name = "without",
                 .ours = real("tasklets=1")["makespan"],
                 .rival = real("tasklets=0")["makespan"]});
}

const char* const all_policies[] = {"diffusion", "steal",  "master-worker", "hierarchical",
                                    "greedy",    "refine", "gossip",        "communication"};

// The best policy for a load, and that none makes it worse.
void add_extremes(metrics& all, const std::string& load, const std::vector<std::function<double()>>& makespans,
                  std::function<double()> bound, std::function<double()> stays) {
  const auto extreme = [makespans](bool most) {
    return [=] {
      std::vector<double> found;
      for (const auto& m : makespans) found.push_back(m());
      return most ? *std::max_element(found.begin(), found.end()) : *std::min_element(found.begin(), found.end());
    };
  };
  const std::string name = "balance." + load;
  all.push_back(
      {.name = name + ".best", .unit = "s", .rival_name = "bound", .ours = extreme(false), .rival = std::move(bound)});
  all.push_back({.name = name + ".worst",
                 .unit = "s",
                 .target = 1.1,
                 .rival_name = "static",
                 .ours = extreme(true),
                 .rival = std::move(stays)});
}

void add_others(metrics& all) {
  const scale nodes{320, 20, 15};
  const std::pair<const char*, const char*> loads[] = {
      {"pareto", "phases=1"}, {"burst", "phases=8"}, {"slow", "phases=1"}};
  for (const auto& [placement, phases] : loads) {
    const simulated stays(placement, nodes, "none", phases);
    std::vector<std::function<double()>> makespans;
    for (const char* const p : all_policies) makespans.push_back(simulated(placement, nodes, p, phases)["makespan"]);
    add_extremes(all, placement, makespans, stays["bound"], stays["makespan"]);
  }
  // Who talks to whom matters where talk costs: on the model, with a slow network.
  const auto talk = [nodes](const std::string& policy) {
    return once([=] {
      const tern::balance::workload w =
          tern::balance::make({.placement = "talk", .ranks = nodes.ranks, .workers = nodes.workers, .phases = 3});
      if (policy == "bound") return w.bound();
      return tern::balance::run_model(w, {.policy = policy, .order = "plan", .bandwidth = 4e5}).makespan;
    });
  };
  std::vector<std::function<double()>> makespans;
  for (const char* const p : all_policies) makespans.push_back(talk(p));
  add_extremes(all, "talk.model", makespans, talk("bound"), talk("none"));
}

series on_two_ranks(const words& arguments, const std::string& policy) {
  return series([=] {
    words line = arguments;
    line.push_back("--tern-balance=" + policy);
    return run_sleepy_tern_ranks(mpi::open_mpi, command_line(BENCH_BALANCE_TERN, line));
  });
}

void add_real(metrics& all) {
  const series four([] {
    return run_for_json(
        command_line(BENCH_BALANCE_TERN,
                     {"hold", "clustered", "workers=1", "seconds=0.05", "bytes=65536", "--tern-balance=refine",
                      "--tern-balance-order=plan", "--tern-progress=thread"}),
        {}, {{"TERN_RANKS", "4"}, {"TERN_WORKERS", "1"}, {"TERN_TRANSPORT", "inproc"}, {"TERN_LOG_LEVEL", "error"}});
  });
  all.push_back({.name = "balance.real.4ranks",
                 .unit = "s",
                 .target = 1.08,
                 .rival_name = "bound",
                 .ours = four["makespan"],
                 .rival = four["bound"]});
  const words forty{"burn", "forty", "workers=1", "seconds=0.02", "variation=0", "bytes=65536"};
  const series balanced = on_two_ranks(forty, usual), stays = on_two_ranks(forty, "none");
  all.push_back({.name = "balance.real.2ranks",
                 .unit = "s",
                 .target = 0.85,
                 .rival_name = "static",
                 .ours = balanced["makespan"],
                 .rival = stays["makespan"]});
  // The simulator beside the machine: the same program, ranks of one worker that look after messages too.
  const auto virtually = [] {
    return run_for_json(
               command_line(BENCH_BALANCE_TERN, {"sim", "forty", "ranks=2", "workers=1", "seconds=0.02", "variation=0",
                                                 "bytes=65536", "apart=0", "policy=" + std::string(usual)}),
               {}, {{"TERN_LOG_LEVEL", "error"}})
        .at("makespan")
        .get<double>();
  };
  const auto off = [virtually, real = balanced["makespan"]] {
    const double a = virtually(), b = real();
    return std::max(a / b, b / a);
  };
  all.push_back({.name = "balance.simulated.makespan",
                 .unit = "times off",
                 .target = 1.1,
                 .rival_name = "measured",
                 .ours = off,
                 .rival = budget(1)});
}

// A policy that has nothing to do.
void add_costs(metrics& all) {
  const words even{"even", "0.001"}, trip{"trip", "0.3"};
  all.push_back({.name = "balance.cost.cpu",
                 .unit = "s",
                 .target = 1.02,
                 .rival_name = "none",
                 .ours = on_two_ranks(even, usual)["even"],
                 .rival = on_two_ranks(even, "none")["even"]});
  const auto awake = [&](const std::string& policy) {
    return series([=] {
      words line = trip;
      line.push_back("--tern-balance=" + policy);
      return run_tern_ranks(mpi::open_mpi, command_line(BENCH_BALANCE_TERN, line));
    });
  };
  all.push_back({.name = "balance.cost.latency",
                 .unit = "us",
                 .target = 1.05,
                 .rival_name = "none",
                 .ours = awake(usual)["trip"],
                 .rival = awake("none")["trip"]});
}

/// A file for what the mesher reports, gone with the process.
class report_file {
public:
  report_file() : path_(std::filesystem::temp_directory_path() / ("bench-balance-" + std::to_string(getpid()))) {}
  ~report_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  report_file(const report_file&) = delete;
  report_file& operator=(const report_file&) = delete;
  std::string name() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

// Subdomains of equal area, which is wrong, and balanced; beside those of equal work, which stay.
void add_mesh(metrics& all) {
  const auto meshing = [](const std::string& estimate, const std::string& policy) {
    return [=] {
      if (std::string(BENCH_BALANCE_MESH).empty()) throw absent("the mesher");
      static const report_file report;
      const nlohmann::json j = run_for_json(
          {BENCH_BALANCE_MESH, "--quiet", "--estimate", estimate, "--json", report.name(), "--tern-balance=" + policy},
          report.name(), {{"TERN_RANKS", "2"}, {"TERN_WORKERS", "1"}, {"TERN_LOG_LEVEL", "error"}});
      return j.at("seconds").at("meshing").get<double>();
    };
  };
  all.push_back({.name = "balance.mesh",
                 .unit = "s",
                 .target = 1.10,
                 .rival_name = "equal work, static",
                 .ours = meshing("area", "steal"), // as the mesher does by itself
                 .rival = meshing("count", "none")});
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  if (argc == 3 && std::string(argv[1]) == "--pictures") {
    try {
      balance::draw_pictures(BENCH_BALANCE_TERN, usual, argv[2]);
      return 0;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench_balance: %s\n", e.what());
      return 1;
    }
  }
  metrics all;
  add_synthetic(all);
  add_tasklets(all);
  add_others(all);
  add_real(all);
  add_costs(all);
  add_mesh(all);
  return run(argc, argv, all);
}
