// SPDX-License-Identifier: Apache-2.0
/// \file
/// Runs one workload once and prints how it went as JSON.
///
///     bench_balance_tern sim literature ranks=10 workers=31 policy=diffusion order=plan
///     TERN_RANKS=4 TERN_BALANCE=diffusion bench_balance_tern hold clustered workers=1 seconds=0.05
///     mpirun -n 2 bench_balance_tern burn forty seconds=0.05 --tern-balance=diffusion
///     mpirun -n 2 bench_balance_tern trip 0.5 --tern-balance=diffusion       half a round trip, microseconds
///     mpirun -n 2 bench_balance_tern even 0.001 --tern-balance=diffusion     CPU seconds of even loads
///
/// `forty`: two ranks, 40 % of the objects are heavy, all of them on rank 0.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <tern/base/clock.hpp>
#include <tern/net/runtime.hpp>

#include "bench/balance/costs.hpp"
#include "bench/balance/load.hpp"
#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench::balance;

/// NAME=VALUE words.
class words {
public:
  words(int argc, char** argv, int from) {
    for (int i = from; i < argc; ++i) {
      const std::string word = argv[i];
      const std::size_t at = word.find('=');
      if (at == word.npos) throw std::invalid_argument("not NAME=VALUE: " + word);
      given_[word.substr(0, at)] = word.substr(at + 1);
    }
  }
  std::string text(const std::string& name, const std::string& otherwise) {
    const auto at = given_.find(name);
    if (at == given_.end()) return otherwise;
    std::string value = at->second;
    given_.erase(at);
    return value;
  }
  double number(const std::string& name, double otherwise) {
    const std::string value = text(name, "");
    return value.empty() ? otherwise : std::stod(value);
  }
  int count(const std::string& name, int otherwise) {
    return static_cast<int>(number(name, static_cast<double>(otherwise)));
  }
  void finish() const {
    if (!given_.empty()) throw std::invalid_argument("there is no " + given_.begin()->first);
  }

private:
  std::map<std::string, std::string> given_;
};

nlohmann::json told(const tern::balance::workload& w, const load_result& r, double wall, bool with_busy) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  nlohmann::json j{{"makespan", r.makespan},
                   {"bound", w.bound()},
                   {"static", w.static_bound()},
                   {"ratio", r.makespan / w.bound()},
                   {"of_static", r.makespan / w.static_bound()},
                   {"moves", r.moves},
                   {"stayed", r.stayed},
                   {"returns", r.returns},
                   {"most_moves", r.most_moves},
                   {"messages", r.messages},
                   {"calls", r.calls},
                   {"invocations", r.invocations},
                   {"wall", wall},
                   {"mib", static_cast<double>(used.ru_maxrss) / 1024}};
  if (with_busy) j["busy"] = r.busy;
  return j;
}

tern::balance::workload forty(const tern::balance::synthetic& s) {
  tern::balance::synthetic even = s;
  even.placement = "clustered";
  even.heavier = 1;
  tern::balance::workload w = tern::balance::make(even);
  const std::size_t heavy = w.objects.size() * 4 / 10;
  for (std::size_t i = 0; i < heavy; ++i) // those of rank 0 come first
    for (double& seconds : w.objects[i].seconds) seconds *= s.heavier;
  return w;
}

tern::balance::workload made(const tern::balance::synthetic& s, bool tasklets) {
  tern::balance::workload w = s.placement == "forty" ? forty(s) : tern::balance::make(s);
  // What is heavy is cut into many pieces for each worker of its rank, if it is.
  for (auto& o : w.objects)
    if (tasklets && s.placement == "rare" && o.seconds[0] > 10 * s.seconds) o.tasklets = 32 * s.workers;
  return w;
}

int usage() {
  std::fprintf(stderr, "usage: bench_balance_tern sim|hold|burn PLACEMENT [NAME=VALUE…], trip SECONDS, even SECONDS\n");
  return 2;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return usage();
  try {
    const std::string mode = argv[1];
    int own = 3;
    while (own < argc && std::string(argv[own]).rfind("--", 0) != 0) ++own;
    words given(own, argv, 3);
    tern::balance::synthetic s;
    s.placement = argv[2];
    s.ranks = given.count("ranks", 10);
    s.workers = given.count("workers", mode == "sim" ? 31 : 1);
    s.per_worker = given.count("objects", 10);
    s.seconds = given.number("seconds", 35.8);
    s.variation = given.number("variation", 0.10);
    s.heavier = given.number("heavier", 2.5);
    s.bytes = given.number("bytes", 1 << 20);
    s.phases = given.count("phases", 1);
    s.seed = static_cast<std::uint64_t>(given.count("seed", 1));
    load_settings how;
    how.policy = given.text("policy", "none");
    how.order = given.text("order", "heavy");
    how.period = given.number("period", 1);
    how.seed = s.seed;
    const bool with_busy = given.count("busy", 0) != 0, tasklets = given.count("tasklets", 1) != 0;
    if (mode == "sim") {
      tern::sim::world world;
      world.network.latency = given.number("latency", 2e-6);
      world.network.bandwidth = how.bandwidth = given.number("bandwidth", 5e9);
      world.network.jitter = 0;
      world.preempt = 0;
      how.apart = given.count("apart", 1) != 0;
      how.record = given.text("record", "");
      given.finish();
      const tern::balance::workload w = made(s, tasklets);
      const double begun = tern::steady_seconds();
      const load_result r = simulate_load(w, how, world);
      std::printf("%s\n", told(w, r, tern::steady_seconds() - begun, with_busy).dump().c_str());
      return 0;
    }
    if (mode == "trip" || mode == "even") {
      const double each = std::stod(argv[2]);
      tern::bench::bind_to_core();
      return tern::run(argc, argv, [&] {
        const double found = mode == "trip" ? round_trip_microseconds(each) : even_cpu_seconds(50, 10, each);
        if (tern::rank() == 0) std::printf("%s\n", nlohmann::json{{mode, found}}.dump().c_str());
      });
    }
    if (mode != "hold" && mode != "burn") return usage();
    if (mode == "burn") tern::bench::bind_to_core();
    how.compute = mode == "hold" ? compute::hold : compute::burn;
    given.finish();
    return tern::run(argc, argv, [&] {
      s.ranks = tern::size();
      const tern::balance::workload w = made(s, tasklets);
      const double begun = tern::steady_seconds();
      const load_result r = run_load(w, how);
      if (tern::rank() == 0) std::printf("%s\n", told(w, r, tern::steady_seconds() - begun, with_busy).dump().c_str());
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_balance_tern: %s\n", e.what());
    return 1;
  }
}
