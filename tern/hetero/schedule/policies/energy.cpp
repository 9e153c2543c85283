// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where a task costs the fewest joules more, if that does not make the whole much longer. Of the
/// devices on which it is expected to end within 1 + slack of the horizon, that is until the device
/// with the most to do has time, or until the task could end at all, the one with the least of: its
/// time × (busy − idle power), and the idle power of all devices × the time by which the horizon
/// moves. What copies cost is not known, and left out. Parameter: `slack`.
///
/// If the power of a device on which it could run is not known, the task goes where it is expected
/// to end first; that is said once.
///
/// Source: energy-aware list scheduling under a bound on the makespan, as in Lee, Zomaya 2011.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <tern/base/log.hpp>
#include <tern/hetero/schedule/policies/by_time.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero::detail {
namespace {

class energy final : public by_time {
public:
  explicit energy(policy_parameters& p) : slack_(p.number("slack", 0.1, 0, 100)) {}
  const char* name() const noexcept override { return "energy"; }
  bool weighs_energy() const noexcept override { return true; }

protected:
  const candidate& choose(const ready_task& t, std::span<const candidate> all, std::span<const device_load> devices,
                          double now) override {
    const candidate& first =
        *std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.end < b.end; });
    double horizon = first.end, idle = 0;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (devices[d].lost) continue;
      horizon = std::max(horizon, devices_[d].load.free_at(t.priority(), now));
      idle += t.idle_watts(static_cast<int>(d)).value_or(0);
    }
    const double latest = now + (1 + slack_) * (horizon - now);
    const candidate* best = nullptr;
    double least = 0;
    for (const candidate& c : all) {
      const std::optional<double> busy = t.expected_joules(static_cast<int>(c.device), c.seconds);
      if (!busy) {
        say_unknown(devices[c.device]);
        return first;
      }
      if (c.end > latest) continue;
      const double joules = *busy + idle * std::max(0.0, c.end - horizon);
      if (best && (joules > least || (joules == least && c.end >= best->end))) continue;
      best = &c;
      least = joules;
    }
    return *best; // the first is among them
  }

  bool moves(const ready_task& t, std::size_t from, double seconds_there, std::size_t d, double seconds) override {
    const auto here = t.expected_joules(static_cast<int>(d), seconds),
               there = t.expected_joules(static_cast<int>(from), seconds_there);
    return !here || !there || *here <= *there;
  }

private:
  void say_unknown(const device_load& of) {
    if (said_) return;
    said_ = true;
    const sim::outside_world here; // a log blocks no more than for a moment
    log_warning("policy energy: what power " + of.info->id +
                " takes is not known, so tasks that could run there go where they end first; " +
                (of.info->kind == device_kind::host ? "give it by --tern-hetero-host-power"
                                                    : "its driver does not tell (tern info)"));
  }

  const double slack_;
  bool said_ = false;
};

} // namespace

extern const policy_entry energy_policy;
constinit const policy_entry energy_policy{
    "energy", nullptr,
    [](std::uint64_t, policy_parameters& given) -> std::unique_ptr<policy> { return std::make_unique<energy>(given); }};

} // namespace tern::hetero::detail
