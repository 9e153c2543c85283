// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/page/curves.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace tern::bench::grain {
namespace {

constexpr int turns = 5;
const std::string curves_of = "stencil.16";

/// Ours in strong colours with filled marks, rivals pale and dashed.
look look_of(bool ours, std::size_t number) {
  constexpr std::array<pictures::colour, 4> strong{
      {{0.07, 0.34, 0.66}, {0.80, 0.36, 0.05}, {0.20, 0.58, 0.42}, {0.55, 0.24, 0.60}}},
      pale{{{0.42, 0.65, 0.88}, {0.93, 0.64, 0.32}, {0.55, 0.78, 0.62}, {0.78, 0.58, 0.82}}};
  return {(ours ? strong : pale)[number % strong.size()], !ours, ours};
}

panel panel_of(place where, const std::string& title, double left, const std::vector<finding>& found,
               const std::string& problem) {
  panel p{title, left, 268, 800, 600, {}, {}, {}};
  std::size_t ours = 0, rivals = 0;
  double low = 1e6, high = 0;
  for (const finding& one : found) {
    if (one.where != where || one.problem != problem || !one.in_pictures) continue;
    curve next{one.contestant, look_of(one.ours, one.ours ? ours++ : rivals++), {}};
    for (const auto& at : one.points) {
      next.points.push_back({at.at(0).get<double>(), 100 * at.at(1).get<double>()});
      low = std::min(low, next.points.back().x);
      high = std::max(high, next.points.back().x);
    }
    p.curves.push_back(std::move(next));
  }
  if (p.curves.empty()) throw std::runtime_error("there are no curves of " + problem + " for " + title);
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

picture picture_of(const std::vector<finding>& found, const std::string& problem, const std::string& title) {
  return {title,
          2000,
          988,
          {panel_of(place::ranks, "Ranks", 130, found, problem),
           panel_of(place::process, "One process", 1150, found, problem)}};
}

nlohmann::ordered_json measure_curves() {
  nlohmann::ordered_json curves;
  curves["lines"] = nlohmann::ordered_json::array();
  for (const finding& one : survey({curves_of}, "0.01", turns, shown::everywhere))
    curves["lines"].push_back({{"panel", one.where == place::ranks ? "ranks" : "process"},
                               {"name", one.contestant},
                               {"ours", one.ours},
                               {"metg", one.metg},
                               {"points", one.points}});
  return curves;
}

picture picture_of(const nlohmann::ordered_json& curves) {
  std::vector<finding> found;
  for (const auto& one : curves.at("lines"))
    found.push_back({one.at("name"), curves_of, one.at("panel") == "ranks" ? place::ranks : place::process,
                     one.at("ours"), true, one.at("metg"), one.at("points")});
  return picture_of(found, curves_of, "Efficiency over the length of tasks: a stencil of 16 columns on 2 cores");
}

} // namespace tern::bench::grain
