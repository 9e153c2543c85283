// SPDX-License-Identifier: Apache-2.0
#include "bench/balance/simulated.hpp"

#include <tern/balance/model.hpp>
#include <tern/base/clock.hpp>

#include "bench/harness/command.hpp"

#ifndef BENCH_BALANCE_TERN
#error "define BENCH_BALANCE_TERN as the path of the program"
#endif

namespace tern::bench::balance {
namespace {

nlohmann::json modelled_run(const tern::balance::synthetic& load, const tern::balance::model_settings& how) {
  const double begun = tern::steady_seconds();
  const tern::balance::workload w = tern::balance::make(load);
  const auto r = tern::balance::run_model(w, how);
  return {{"makespan", r.makespan},
          {"bound", w.bound()},
          {"static", w.static_bound()},
          {"moves", r.moves},
          {"messages", r.messages},
          {"most_moves", r.most_moves},
          {"invocations", w.objects.size()},
          {"remote_bytes", r.remote_bytes},
          {"wall", tern::steady_seconds() - begun}};
}

} // namespace

simulated::simulated(const std::string& placement, const machine_size& s, const std::string& policy,
                     const std::string& more)
    : line_{BENCH_BALANCE_TERN,
            "sim",
            placement,
            "ranks=" + std::to_string(s.ranks),
            "workers=" + std::to_string(s.workers),
            "policy=" + policy,
            "order=plan"},
      found_(std::make_shared<nlohmann::json>()) {
  if (!more.empty()) line_.push_back(more);
}

const nlohmann::json& simulated::report() const {
  if (found_->is_null()) *found_ = run_for_json(line_, {}, {{"TERN_LOG_LEVEL", "error"}});
  return *found_;
}

nlohmann::json modelled(const std::string& placement, const machine_size& s, const std::string& policy) {
  return modelled_run({.placement = placement, .ranks = s.ranks, .workers = s.workers},
                      {.policy = policy, .order = "plan"});
}

nlohmann::json modelled_talk(const machine_size& s, const std::string& policy) {
  return modelled_run({.placement = "talk", .ranks = s.ranks, .workers = s.workers, .phases = 3},
                      {.policy = policy, .order = "plan", .bandwidth = 4e5});
}

} // namespace tern::bench::balance
