// SPDX-License-Identifier: Apache-2.0
/// \file
/// Load balancing: the literature's synthetic loads at its scales and beyond, simulated; real
/// ranks; and what balancing costs where there is nothing to balance.
///
///     bench_balance                  as every benchmark (harness.hpp)
///     bench_balance --page FILE      all figures of docs/results/balance.md, into that page, and its pictures beside
///     it bench_balance --tiny-page FILE the same with tiny sizes, to see that it works

#include "bench/harness/harness.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "bench/balance/page.hpp"
#include "bench/balance/simulated.hpp"
#include "bench/harness/jobs.hpp"
#include "bench/harness/series.hpp"

#ifndef BENCH_BALANCE_TERN
#error "define BENCH_BALANCE_TERN and BENCH_BALANCE_MESH as the paths of the programs"
#endif

namespace {

using namespace tern::bench;
using namespace tern::bench::balance;
using metrics = std::vector<metric>;

const char* const usual = usual_policy;
const char* const best = best_policy;

void add_synthetic(metrics& all, const scale& of) {
  for (const std::string placement : {"literature", "clustered"})
    for (const machine_size& size : literature_sizes) {
      const machine_size s = of(size, tiny_size);
      const std::string name = "balance." + placement + "." + std::to_string(size.cores) + ".";
      const simulated stays(placement, s, "none"), diffuses(placement, s, usual), goes(placement, s, best);
      const auto add = [&](const std::string& what, const simulated& how, double target) {
        all.push_back({.name = name + what,
                       .unit = "s",
                       .target = target,
                       .rival_name = "bound",
                       .ours = how["makespan"],
                       .rival = how["bound"],
                       .once = true});
      };
      add(usual, diffuses, 1.05);
      add(best, goes, 1.03);
      all.push_back({.name = name + usual + ".static",
                     .unit = "s",
                     .rival_name = "static",
                     .ours = diffuses["makespan"],
                     .rival = stays["makespan"],
                     .once = true});
      if (size.cores == 5600 && placement == "literature") {
        all.push_back({.name = "balance.simulation.time",
                       .unit = "s",
                       .target = 1,
                       .rival_name = "budget",
                       .ours = diffuses["wall"],
                       .rival = budget(60),
                       .once = true});
        all.push_back({.name = "balance.simulation.memory",
                       .unit = "MiB",
                       .target = 1,
                       .rival_name = "budget",
                       .ours = diffuses["mib"],
                       .rival = budget(4096),
                       .once = true});
      }
    }
  for (const std::string placement : {"literature", "clustered"}) {
    const simulated goes(placement, of(large, tiny_size), best);
    all.push_back({.name = "balance." + placement + ".100000." + best,
                   .unit = "s",
                   .target = 1.08,
                   .rival_name = "bound",
                   .ours = goes["makespan"],
                   .rival = goes["bound"],
                   .once = true});
    all.push_back({.name = "balance." + placement + ".1000000." + best + ".model",
                   .unit = "of the bound",
                   .target = 1.08,
                   .rival_name = "bound",
                   .ours =
                       [placement, s = of(huge, tiny_size)] {
                         const nlohmann::json r = modelled(placement, s, best);
                         return r.at("makespan").get<double>() / r.at("bound").get<double>();
                       },
                   .rival = budget(1),
                   .once = true});
  }
}

// One object in 1000 is a hundred times as heavy.
void add_tasklets(metrics& all, const scale& of) {
  const machine_size s = of(nodes, tiny_size);
  const simulated inside("rare", s, usual), without("rare", s, usual, "tasklets=0");
  all.push_back({.name = "balance.tasklets.simulated",
                 .unit = "s",
                 .target = 0.5,
                 .rival_name = "without",
                 .ours = inside["makespan"],
                 .rival = without["makespan"],
                 .once = true});
  const auto real = [seconds = std::string(of("seconds=0.004", "seconds=0.0002"))](const std::string& tasklets) {
    return series([=] {
      return run_for_json(command_line(BENCH_BALANCE_TERN, {"burn", "rare", "workers=2", "objects=5", seconds, tasklets,
                                                            "--tern-balance=" + std::string(usual)}),
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

// The best policy for a load, and that none makes it worse. `runs` are of all policies.
void add_extremes(metrics& all, const std::string& load, const std::vector<std::function<nlohmann::json()>>& runs,
                  const std::function<nlohmann::json()>& stays) {
  const auto extreme = [runs](bool most) {
    return [=] {
      std::vector<double> found;
      for (const auto& r : runs) found.push_back(r().at("makespan").get<double>());
      return most ? *std::max_element(found.begin(), found.end()) : *std::min_element(found.begin(), found.end());
    };
  };
  const auto without = [stays](const char* what) { return [=] { return stays().at(what).get<double>(); }; };
  const std::string name = "balance." + load;
  all.push_back({.name = name + ".best",
                 .unit = "s",
                 .rival_name = "bound",
                 .ours = extreme(false),
                 .rival = without("bound"),
                 .once = true});
  all.push_back({.name = name + ".worst",
                 .unit = "s",
                 .target = 1.1,
                 .rival_name = "static",
                 .ours = extreme(true),
                 .rival = without("makespan"),
                 .once = true});
}

void add_others(metrics& all, const scale& of) {
  const machine_size s = of(nodes, tiny_size);
  for (const load_case& load : other_loads) {
    const auto with = [&](const char* policy) {
      return [run = simulated(load.placement, s, policy, load.setting)] { return run.report(); };
    };
    std::vector<std::function<nlohmann::json()>> runs;
    for (const char* const p : all_policies) runs.push_back(with(p));
    add_extremes(all, load.placement, runs, with("none"));
  }
  // An object's partners matter only if messages cost time: on the model, with a slow network.
  const auto talk = [s](const char* policy) {
    return [s, policy, known = std::make_shared<nlohmann::json>()] {
      if (known->is_null()) *known = modelled_talk(s, policy);
      return *known;
    };
  };
  std::vector<std::function<nlohmann::json()>> runs;
  for (const char* const p : all_policies) runs.push_back(talk(p));
  add_extremes(all, "talk.model", runs, talk("none"));
}

series on_two_ranks(const words& arguments, const std::string& policy) {
  return series([=] {
    words line = arguments;
    line.push_back("--tern-balance=" + policy);
    return run_tern_ranks(mpi::open_mpi, command_line(BENCH_BALANCE_TERN, line), spinning::usual);
  });
}

void add_real(metrics& all, const scale& of) {
  const std::string hold = of("seconds=0.05", "seconds=0.002"), burn = of("seconds=0.02", "seconds=0.002");
  const auto add_four = [&](const std::string& name, std::optional<double> target, const std::string& policy) {
    const series four([hold, policy] {
      return run_for_json(
          command_line(BENCH_BALANCE_TERN,
                       {"hold", "clustered", "workers=1", hold, "bytes=65536", "--tern-balance=" + policy,
                        "--tern-balance-order=plan", "--tern-progress=thread"}),
          {}, {{"TERN_RANKS", "4"}, {"TERN_WORKERS", "1"}, {"TERN_TRANSPORT", "inproc"}, {"TERN_LOG_LEVEL", "error"}});
    });
    all.push_back({.name = "balance.real.4ranks" + name,
                   .unit = "s",
                   .target = target,
                   .rival_name = "bound",
                   .ours = four["makespan"],
                   .rival = four["bound"]});
  };
  add_four("", 1.08, "refine");
  add_four(".diffusion", {}, usual);
  const words forty{"burn", "forty", "workers=1", burn, "variation=0", "bytes=65536"};
  const series balanced = on_two_ranks(forty, usual), stays = on_two_ranks(forty, "none");
  all.push_back({.name = "balance.real.2ranks",
                 .unit = "s",
                 .target = 0.85,
                 .rival_name = "static",
                 .ours = balanced["makespan"],
                 .rival = stays["makespan"]});
  // The simulator beside the machine: the same program, ranks of one worker that look after
  // messages too.
  const auto virtually = [burn] {
    return run_for_json(command_line(BENCH_BALANCE_TERN, {"sim", "forty", "ranks=2", "workers=1", burn, "variation=0",
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
void add_costs(metrics& all, const scale& of) {
  const words even{"even", of("0.001", "0.00002")}, trip{"trip", of("0.3", "0.01")};
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
      return run_tern_ranks(mpi::open_mpi, command_line(BENCH_BALANCE_TERN, line), spinning::always);
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
void add_mesh(metrics& all, const scale& of) {
  const words coarse = of(words{}, words{"--hmin", "4", "--hmax", "40"});
  const auto meshing = [coarse](const std::string& estimate, const std::string& policy) {
    return [=] {
      if (std::string(BENCH_BALANCE_MESH).empty()) throw absent("the mesher");
      static const report_file report;
      words line{BENCH_BALANCE_MESH, "--quiet", "--estimate", estimate, "--json", report.name()};
      line.insert(line.end(), coarse.begin(), coarse.end());
      line.push_back("--tern-balance=" + policy);
      const nlohmann::json j =
          run_for_json(line, report.name(), {{"TERN_RANKS", "2"}, {"TERN_WORKERS", "1"}, {"TERN_LOG_LEVEL", "error"}});
      return j.at("seconds").at("meshing").get<double>();
    };
  };
  const auto add = [&](const std::string& name, std::optional<double> target, std::function<double()> our) {
    all.push_back({.name = "balance.mesh" + name,
                   .unit = "s",
                   .target = target,
                   .rival_name = "equal work, static",
                   .ours = std::move(our),
                   .rival = meshing("count", "none")});
  };
  add("", 1.10, meshing("area", "steal")); // as the mesher does by itself
  add(".area.static", {}, meshing("area", "none"));
  add(".count.steal", {}, meshing("count", "steal"));
}

metrics on_real_ranks(const scale& of) {
  metrics all;
  add_real(all, of);
  add_costs(all, of);
  add_mesh(all, of);
  add_tasklets(all, of);
  return all;
}

metrics all_metrics(const scale& of) {
  metrics all;
  add_synthetic(all, of);
  add_tasklets(all, of);
  add_others(all, of);
  add_real(all, of);
  add_costs(all, of);
  add_mesh(all, of);
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  const std::string what = argc > 1 ? argv[1] : "";
  if (what != "--page" && what != "--tiny-page") return run(argc, argv, all_metrics);
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_balance --page|--tiny-page FILE\n");
    return 2;
  }
  try {
    const scale of(what == "--tiny-page");
    balance::write_page(argv[2], on_real_ranks(of), of);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_balance: %s\n", e.what());
    return 1;
  }
}
