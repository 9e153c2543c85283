// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/page/survey.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>

namespace tern::bench::grain {
namespace {

using run = std::function<nlohmann::json(const asked_for&)>;

struct contestant {
  place where;
  std::string name; // "Tern: …", or a rival's
  shown in;
  std::vector<run> settings;
  bool ours() const { return name.starts_with("Tern"); }
};

std::vector<contestant> ranks() {
  using enum shown;
  const auto raw = [](mpi library, exchange how) {
    return run([=](const asked_for& what) { return run_raw(library, what, how); });
  };
  const auto messages = [](mpi library) {
    return run([=](const asked_for& what) { return run_ranks(library, "messages", what); });
  };
  const auto balanced = [](const std::string& policy) {
    return run([=](const asked_for& what) { return run_balanced(policy, what); });
  };
  const place on = place::ranks;
  return {
      {on, "raw MPI", everywhere, {raw(mpi::open_mpi, exchange::non_blocking)}},
      {on, "raw MPI, bulk", everywhere, {raw(mpi::open_mpi, exchange::bulk_synchronous)}},
      {on, "raw MPI, MPICH", table, {raw(mpi::mpich, exchange::non_blocking)}},
      {on, "Tern: messages", everywhere, {messages(mpi::open_mpi)}},
      {on, "Tern: messages, `tern run`", table, {[](const auto& what) { return run_started("messages", what); }}},
      {on, "Tern: messages, MPICH", table, {messages(mpi::mpich)}},
      {on, "Tern: messages, inproc", everywhere, {[](const auto& what) { return run_threads("messages", what); }}},
      {on, "Tern: objects", everywhere, {balanced("none")}},
      {on, "Tern: objects, steal", table, {balanced("steal")}},
      {on, "Tern: objects, diffusion", table, {balanced("diffusion")}},
      {on, "Tern: objects, 1 rank", everywhere, {[](const auto& what) { return run_rank(2, "objects", what); }}},
  };
}

std::vector<contestant> processes() {
  using enum shown;
  const auto carrier = [](const char* name) {
    return run([=](const asked_for& what) { return run_tasks(name, what); });
  };
  const auto tbb = [](const char* name) { return run([=](const asked_for& what) { return run_tbb(name, what); }); };
  const auto omp = [](openmp runtime) {
    std::vector<run> all;
    for (const environment& settings : settings_of(runtime))
      all.emplace_back([=](const asked_for& what) { return run_openmp(runtime, what, settings); });
    return all;
  };
  std::vector<run> starpu;
  for (const std::string scheduler : starpu_schedulers)
    starpu.emplace_back([=](const asked_for& what) { return run_starpu(scheduler, what); });
  const place on = place::process;
  return {
      {on, "TBB flow graph", everywhere, {tbb("graph")}},
      {on, "TBB flow graph, built each time", table, {tbb("built")}},
      {on, "libgomp", everywhere, omp(openmp::libgomp)},
      {on, "libomp", everywhere, omp(openmp::libomp)},
      {on, "StarPU", everywhere, starpu},
      {on, "Tern: graph", everywhere, {carrier("graph")}},
      {on, "Tern: graph, built each time", everywhere, {carrier("built")}},
      {on, "Tern: hetero tasks", everywhere, {carrier("hetero")}},
      {on, "Tern: coroutines", everywhere, {carrier("coroutines")}},
  };
}

/// What one turn found, by problem.
using turn = std::map<std::string, std::pair<double, nlohmann::json>>;

turn best_of(const contestant& c, const asked_for& what) {
  turn best;
  for (const run& one : c.settings) {
    const nlohmann::json found = one(what);
    for (const std::string& problem : what.problems) {
      const double metg = found.at(problem);
      const auto known = best.find(problem);
      if (known != best.end() && metg >= known->second.first) continue;
      // Where problems are only run there is no curve, and one point stands for it.
      best[problem] = {metg, found.value(problem + ".curve", nlohmann::json::array({{metg, 0.5}}))};
    }
  }
  return best;
}

} // namespace

std::vector<finding> survey(const words& problems, const std::string& seconds, int turns, shown least) {
  std::vector<contestant> all = ranks();
  for (contestant& one : processes()) all.push_back(std::move(one));
  if (least == shown::everywhere) std::erase_if(all, [](const contestant& one) { return one.in == shown::table; });
  std::vector<std::vector<turn>> found(all.size());
  for (int number = 0; number < turns; ++number)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const asked_for what{seconds, problems};
      std::fprintf(stderr, "turn %d of %d: %s\n", number + 1, turns, all[i].name.c_str());
      try {
        found[i].push_back(best_of(all[i], what));
      } catch (const absent& e) {
        std::fprintf(stderr, "%s: %s is absent\n", all[i].name.c_str(), e.what());
      }
    }
  std::vector<finding> medians;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const std::string& problem : problems) {
      std::vector<std::pair<double, nlohmann::json>> runs;
      for (const turn& one : found[i])
        if (const auto at = one.find(problem); at != one.end()) runs.push_back(at->second);
      if (runs.empty()) continue;
      std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      const auto& [metg, points] = runs[runs.size() / 2];
      medians.push_back(
          {all[i].name, problem, all[i].where, all[i].ours(), all[i].in == shown::everywhere, metg, points});
    }
  return medians;
}

} // namespace tern::bench::grain
