// SPDX-License-Identifier: Apache-2.0
#include "bench/balance/pictures.hpp"

#include <cstdio>
#include <utility>
#include <vector>

#include <tern/balance/model.hpp>

#include "tools/pictures/pictures.hpp"

namespace tern::bench::balance {
namespace {

using tern::balance::workload;

void busy_of(const machine_size& s, const std::string& placement, const std::string& policy, const std::string& path) {
  const nlohmann::json stays = simulated(placement, s, "none", "busy=1").report(),
                       goes = simulated(placement, s, policy, "busy=1").report();
  pictures::busy_picture p;
  p.title = "Busy time of " + std::to_string(s.cores) + " simulated cores";
  p.subtitle = std::string("one core of each rank only communicates; heavy objects ") +
               (placement == "literature" ? "as in the literature" : "clustered");
  p.workers = s.workers;
  p.bound = goes.at("bound").get<double>();
  const auto add = [&](const std::string& title, const nlohmann::json& found) {
    p.panels.push_back({title, found.at("busy").get<std::vector<double>>(), found.at("makespan").get<double>()});
  };
  add("static", stays);
  add("balanced by " + policy, goes);
  pictures::draw(p, path);
}

void course_of(const machine_size& s, const std::string& path) {
  const workload w = tern::balance::make({.placement = "clustered", .ranks = s.ranks, .workers = s.workers});
  pictures::course_picture p;
  p.title = "How the clustered load is evened out, on a model of " + std::to_string(s.cores) + " cores";
  p.bound = w.bound();
  for (const char* const policy : {"none", "diffusion", "steal", "hierarchical", "gossip", "refine"}) {
    const auto r = tern::balance::run_model(w, {.policy = policy, .order = "plan"});
    pictures::course c{policy, r.makespan, {}};
    for (const auto& moment : r.over_time) c.moments.push_back({moment.at, moment.imbalance, moment.moves});
    p.courses.push_back(std::move(c));
  }
  pictures::draw(p, path);
}

} // namespace

void draw_pictures(const machine_size& s, const std::string& policy, const std::string& folder) {
  busy_of(s, "literature", policy, folder + "/balance-literature.png");
  busy_of(s, "clustered", policy, folder + "/balance-clustered.png");
  course_of(s, folder + "/balance-course.png");
  std::printf("drawn: balance-literature.png, balance-clustered.png and balance-course.png in %s\n", folder.c_str());
}

} // namespace tern::bench::balance
