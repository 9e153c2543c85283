// SPDX-License-Identifier: Apache-2.0
#include "bench/balance/pictures.hpp"

#include <cstdio>
#include <utility>
#include <vector>

#include <tern/balance/model.hpp>

#include "bench/harness/jobs.hpp"
#include "tools/pictures/pictures.hpp"

namespace tern::bench::balance {
namespace {

using tern::balance::workload;

nlohmann::json simulated(const std::string& program, const std::string& placement, const std::string& policy) {
  return run_for_json(
      {program, "sim", placement, "ranks=350", "workers=15", "policy=" + policy, "order=plan", "busy=1"}, {},
      {{"TERN_LOG_LEVEL", "error"}});
}

void busy_of(const std::string& program, const std::string& placement, const std::string& policy,
             const std::string& path) {
  const nlohmann::json stays = simulated(program, placement, "none"), goes = simulated(program, placement, policy);
  pictures::busy_picture p;
  p.title = "Busy time of 5600 simulated cores";
  p.subtitle = std::string("one core of each rank only communicates; heavy objects ") +
               (placement == "literature" ? "as in the literature" : "clustered");
  p.workers = 15;
  p.bound = goes.at("bound").get<double>();
  const auto add = [&](const std::string& title, const nlohmann::json& found) {
    p.panels.push_back({title, found.at("busy").get<std::vector<double>>(), found.at("makespan").get<double>()});
  };
  add("static", stays);
  add("balanced by " + policy, goes);
  pictures::draw(p, path);
}

void course_of(const std::string& path) {
  const workload w = tern::balance::make({.placement = "clustered", .ranks = 350, .workers = 15});
  pictures::course_picture p;
  p.title = "How the clustered load is evened out, on a model of 5600 cores";
  p.bound = w.bound();
  for (const char* const policy : {"none", "diffusion", "steal", "hierarchical", "gossip", "refine"}) {
    const auto r = tern::balance::run_model(w, {.policy = policy, .order = "plan"});
    pictures::course c{policy, r.makespan, {}};
    for (const auto& s : r.over_time) c.moments.push_back({s.at, s.imbalance, s.moves});
    p.courses.push_back(std::move(c));
  }
  pictures::draw(p, path);
}

} // namespace

void draw_pictures(const std::string& program, const std::string& policy, const std::string& folder) {
  busy_of(program, "literature", policy, folder + "/balance-literature.png");
  busy_of(program, "clustered", policy, folder + "/balance-clustered.png");
  course_of(folder + "/balance-course.png");
  std::printf("drawn: balance-literature.png, balance-clustered.png and balance-course.png in %s\n", folder.c_str());
}

} // namespace tern::bench::balance
