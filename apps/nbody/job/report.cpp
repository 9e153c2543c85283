// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/report.hpp"

#include "apps/nbody/force/direct.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <tern/net/runtime.hpp>

namespace nbody {
namespace {

double size_of(const std::array<double, 3>& v) { return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); }
std::array<double, 3> minus(const std::array<double, 3>& a, const std::array<double, 3>& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

std::string source_of(const settings& s) { return s.input.empty() ? "model " + s.start.name : s.input; }

} // namespace

quality quality_of(const finished_run& run) {
  quality q;
  if (run.steps.empty()) return q;
  const totals& first = run.steps.front().sum;
  double speed = 0;
  for (const step_record& r : run.steps) {
    const double off = std::fabs(r.sum.energy() - first.energy());
    if (first.energy() != 0) q.energy_drift = std::max(q.energy_drift, off / std::fabs(first.energy()));
    speed = std::max(speed, r.sum.speed);
    q.momentum_drift = std::max(q.momentum_drift, size_of(minus(r.sum.momentum, first.momentum)));
  }
  if (speed > 0) q.momentum_drift /= speed;
  const double turn = size_of(first.angular);
  if (turn > 1e-9 * speed) q.angular_drift = size_of(minus(run.steps.back().sum.angular, first.angular)) / turn;
  return q;
}

void print_table(const finished_run& run, const settings& wanted, std::optional<double> force_error) {
  const totals &first = run.steps.front().sum, &last = run.steps.back().sum;
  const quality q = quality_of(run);
  const auto line = [](const char* name, const std::string& value) { fmt::print("  {:<18} {}\n", name, value); };
  fmt::print("\n");
  line("bodies", fmt::format("{} in {} pieces, from {}", last.bodies, run.piece_count, source_of(wanted)));
  line("steps", fmt::format("{} of {:g}, to time {:g}", run.steps.back().step, run.step, run.steps.back().time));
  line("tree", fmt::format("opening angle {:g}, {}, softening {:g}", wanted.tree.theta,
                           wanted.order == 2 ? "quadrupoles" : "monopoles", run.softening));
  line("energy", fmt::format("{:.8g} at first, {:.8g} at last; drift {:.2e} at most", first.energy(), last.energy(),
                             q.energy_drift));
  line("virial ratio", fmt::format("{:.4f} at first, {:.4f} at last", -2 * first.kinetic / first.potential,
                                   -2 * last.kinetic / last.potential));
  line("momentum", fmt::format("drift {:.2e} of mass times speed; angular {:.2e}", q.momentum_drift, q.angular_drift));
  const double forces = static_cast<double>(run.steps.size()) * static_cast<double>(last.bodies);
  line("interactions", fmt::format("{:.4g}, {:.0f} a body and step", static_cast<double>(run.interactions),
                                   static_cast<double>(run.interactions) / forces));
  if (force_error)
    line("force error", fmt::format("{:.2e} (root mean square, against direct summation)", *force_error));
  line("time", fmt::format("{:.2f} s; {:.3g} million interactions a second", run.seconds,
                           static_cast<double>(run.interactions) / run.seconds / 1e6));
  line("imbalance", fmt::format("{:.3f} (most busy rank over mean)", run.imbalance()));
  line("balancing",
       run.policy == "none" ? "none" : fmt::format("{}: pieces have moved {} times", run.policy, run.moved));
  line("trees fetched", fmt::format("{}", run.fetched_trees));
  line("hash", fmt::format("{:016x}", last.hash));
  fmt::print("\n  {:>4} {:>12}\n", "rank", "forces s");
  for (std::size_t r = 0; r < run.busy.size(); ++r) fmt::print("  {:>4} {:>12.3f}\n", r, run.busy[r]);
  fmt::print("\n");
  std::fflush(stdout);
}

std::string summary_json(const finished_run& run, const settings& wanted, std::optional<double> force_error) {
  const totals &first = run.steps.front().sum, &last = run.steps.back().sum;
  const quality q = quality_of(run);
  nlohmann::ordered_json j;
  j["program"] = "nbody";
  j["source"] = source_of(wanted);
  j["ranks"] = run.busy.size();
  j["bodies"] = last.bodies;
  j["pieces"] = run.piece_count;
  j["steps"] = run.steps.back().step;
  j["dt"] = run.step;
  j["theta"] = wanted.tree.theta;
  j["order"] = wanted.order;
  j["softening"] = run.softening;
  j["hash"] = fmt::format("{:016x}", last.hash);
  j["energy"] = {{"first", first.energy()}, {"last", last.energy()}, {"drift", q.energy_drift}};
  j["kinetic"] = last.kinetic;
  j["potential"] = last.potential;
  j["mass"] = last.mass;
  j["momentum_drift"] = q.momentum_drift;
  j["angular_momentum_drift"] = q.angular_drift;
  j["interactions"] = run.interactions;
  if (force_error) j["force_error"] = *force_error;
  j["seconds"] = run.seconds;
  j["imbalance"] = run.imbalance();
  j["balance"] = run.policy;
  j["moves"] = run.moved;
  j["fetched_trees"] = run.fetched_trees;
  j["busy_seconds"] = run.busy;
  return j.dump(2) + "\n";
}

std::string energies_csv(const finished_run& run) {
  std::string text =
      "step,time,kinetic,potential,energy,momentum_x,momentum_y,momentum_z,angular_x,angular_y,angular_z,"
      "interactions,seconds,imbalance\n";
  for (const step_record& r : run.steps)
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{:.4f},{:.4f}\n", r.step, r.time, r.sum.kinetic,
                    r.sum.potential, r.sum.energy(), r.sum.momentum[0], r.sum.momentum[1], r.sum.momentum[2],
                    r.sum.angular[0], r.sum.angular[1], r.sum.angular[2], r.sum.interactions, r.seconds, r.imbalance);
  return text;
}

double error_of_forces(const bodies& all, const accelerations& pull, const finished_run& run, const settings& wanted) {
  constexpr std::size_t targets = 500;
  std::vector<std::uint32_t> some;
  const std::size_t n = all.size(), step = std::max<std::size_t>(1, n / targets);
  accelerations found;
  for (std::size_t i = 0; i < n; i += step) {
    some.push_back(static_cast<std::uint32_t>(i));
    found.x.push_back(pull.x[i]);
    found.y.push_back(pull.y[i]);
    found.z.push_back(pull.z[i]);
  }
  force_settings how;
  how.softening = run.softening;
  how.gravity = wanted.gravity;
  return relative_error(found, sum_directly(all, some, how));
}

} // namespace nbody
