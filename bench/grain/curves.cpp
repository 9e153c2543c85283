// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/curves.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/grain/jobs.hpp"

namespace tern::bench::grain {
namespace {

constexpr int turns = 5;
const std::string problem_name = "stencil.16";

struct line {
  std::string panel, name;
  std::function<nlohmann::json()> run;
};

/// Ours and the rivals, on two ranks and on one node.
std::vector<line> all_lines_of_curves() {
  const asked_for what{"0.01", {problem_name}};
  const auto tasks = [=](const char* carrier) { return [=] { return run_tasks(carrier, what); }; };
  const auto ranks = [=](const char* carrier) { return [=] { return run_ranks(mpi::open_mpi, carrier, what); }; };
  return {{"ranks", "raw MPI", [=] { return run_raw(mpi::open_mpi, what); }},
          {"ranks", "Tern: messages", ranks("messages")},
          {"ranks", "Tern: objects", ranks("objects")},
          {"ranks", "Tern: objects, 1 rank of 2 workers", [=] { return run_rank(2, "objects", what); }},
          {"node", "TBB flow graph", [=] { return run_tbb("graph", what); }},
          {"node", "libgomp", [=] { return run_openmp(openmp::libgomp, what, {}); }},
          {"node", "libomp", [=] { return run_openmp(openmp::libomp, what, {}); }},
          {"node", "Tern: graph", tasks("graph")},
          {"node", "Tern: graph, built each time", tasks("built")},
          {"node", "Tern: hetero tasks", tasks("hetero")},
          {"node", "Tern: coroutines", tasks("coroutines")}};
}

/// Ours in strong colours with filled marks, rivals pale and dashed.
look look_of(const std::string& name, std::size_t number) {
  constexpr std::array<pictures::colour, 4> strong{
      {{0.07, 0.34, 0.66}, {0.80, 0.36, 0.05}, {0.20, 0.58, 0.42}, {0.55, 0.24, 0.60}}},
      pale{{{0.42, 0.65, 0.88}, {0.93, 0.64, 0.32}, {0.55, 0.78, 0.62}, {0.78, 0.58, 0.82}}};
  const bool ours = name.starts_with("Tern");
  return {(ours ? strong : pale)[number % strong.size()], !ours, ours};
}

panel panel_of(const std::string& which, const std::string& title, double left, const nlohmann::ordered_json& curves) {
  panel p{title, left, 230, 800, 600, {}, {}, {}};
  std::size_t ours = 0, rivals = 0;
  double low = 1e6, high = 0;
  for (const auto& one : curves.at("lines")) {
    if (one.at("panel") != which) continue;
    const std::string name = one.at("name");
    curve next{name, look_of(name, name.starts_with("Tern") ? ours++ : rivals++), {}};
    for (const auto& at : one.at("points")) {
      next.points.push_back({at.at(0).get<double>(), 100 * at.at(1).get<double>()});
      low = std::min(low, next.points.back().x);
      high = std::max(high, next.points.back().x);
    }
    p.curves.push_back(std::move(next));
  }
  if (p.curves.empty()) throw std::runtime_error("there are no curves of " + which);
  p.x = {"microseconds of a core for a task", 0, 0, false, {}};
  for (double at = 0.01; at < 1e5; at *= 10) {
    if (at * 10 <= low || at / 10 >= high) continue;
    if (p.x.ticks.empty()) p.x.low = at;
    p.x.high = at;
    p.x.ticks.push_back({at, axis_text(at)});
  }
  p.y = {"% of the peak", 0, 100, true, {}};
  for (const int percent : {0, 25, 50, 75, 100})
    p.y.ticks.push_back({static_cast<double>(percent), axis_text(percent)});
  return p;
}

} // namespace

nlohmann::ordered_json measure_curves() {
  const std::vector<line> lines = all_lines_of_curves();
  std::vector<std::vector<nlohmann::json>> found(lines.size());
  for (int turn = 0; turn < turns; ++turn)
    for (std::size_t i = 0; i < lines.size(); ++i) {
      try {
        found[i].push_back(lines[i].run());
      } catch (const absent& e) {
        if (turn == 0) std::fprintf(stderr, "%s: %s is absent\n", lines[i].name.c_str(), e.what());
      }
    }
  nlohmann::ordered_json curves;
  curves["lines"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto& runs = found[i];
    if (runs.empty()) continue;
    std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
      return a.at(problem_name).template get<double>() < b.at(problem_name).template get<double>();
    });
    const auto& median = runs[runs.size() / 2];
    curves["lines"].push_back({{"panel", lines[i].panel},
                               {"name", lines[i].name},
                               {"metg", median.at(problem_name)},
                               {"points", median.at(problem_name + ".curve")}});
  }
  return curves;
}

picture picture_of(const nlohmann::ordered_json& curves) {
  return {"Efficiency over the length of tasks: a stencil of 16 columns on 2 cores",
          2000,
          950,
          {panel_of("ranks", "Ranks", 130, curves), panel_of("node", "One node", 1150, curves)}};
}

} // namespace tern::bench::grain
