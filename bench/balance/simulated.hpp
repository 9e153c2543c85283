// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Simulated and modelled runs of `bench_balance`: on which machines, with which policies.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tern::bench::balance {

struct machine_size {
  int cores, ranks, workers; ///< of each rank one core communicates
};
constexpr machine_size literature_sizes[] = {{320, 10, 31}, {1280, 40, 31}, {3200, 200, 15}, {5600, 350, 15}};
constexpr machine_size large = {100'000, 6250, 15};
constexpr machine_size huge = {1'000'000, 62'500, 15}; ///< of models only
/// For all other loads: 320 cores, but in smaller nodes.
constexpr machine_size nodes = {320, 20, 15};
/// What stands for all of them where only the results are looked at.
constexpr machine_size tiny_size = {16, 4, 3};

/// The literature's policy, and what has turned out best.
constexpr const char* usual_policy = "diffusion";
constexpr const char* best_policy = "gossip";
constexpr const char* all_policies[] = {"diffusion", "steal",  "master-worker", "hierarchical",
                                        "greedy",    "refine", "gossip",        "communication"};

struct load_case {
  const char* placement;
  const char* setting; ///< of the program bench_balance_tern
};
constexpr load_case other_loads[] = {{"pareto", "phases=1"}, {"burst", "phases=8"}, {"slow", "phases=1"}};

/// A run on the whole runtime, simulated, which is the same each time: it runs when its result is
/// first asked for.
class simulated {
public:
  simulated(const std::string& placement, const machine_size& s, const std::string& policy,
            const std::string& more = "");
  const nlohmann::json& report() const;
  double operator()(const std::string& name) const { return report().at(name).get<double>(); }
  /// The same as a measurement.
  std::function<double()> operator[](const std::string& name) const {
    return [self = *this, name] { return self(name); };
  }

private:
  std::vector<std::string> line_;
  std::shared_ptr<nlohmann::json> found_;
};

/// A run of the model: {"makespan", "bound", "static", "moves", "most_moves", "messages", "wall"}.
/// No directory, no fibers, no contention between a rank's end and another's: see
/// tern/balance/model.hpp.
nlohmann::json modelled(const std::string& placement, const machine_size& s, const std::string& policy);
/// The load in which communication between objects matters, on the model of a slow network.
nlohmann::json modelled_talk(const machine_size& s, const std::string& policy);

} // namespace tern::bench::balance
