// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where a task is expected to end first, with the copies that it needs: "deque model, data aware"
/// (StarPU's dmda: Augonnet, Thibault, Namyst, Wacrenier 2011), after HEFT (Topcuoglu, Hariri, Wu
/// 2002).
///
/// When a task becomes ready, each device d gets a score, α(EFT(d) − least EFT) + β·copies(d) +
/// γ·J(d), and the task goes into the queue of the one with the least. Copies: what missing data
/// take on the link; J: joules, as far as the device's power is known. Parameters: `alpha`, `beta`,
/// `gamma` (seconds a joule).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include <tern/hetero/schedule/policies/by_time.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

class dmda final : public by_time {
public:
  explicit dmda(policy_parameters& p)
      : alpha_(p.number("alpha", 1, 0, 1e9)), beta_(p.number("beta", 1, 0, 1e9)), gamma_(p.number("gamma", 0, 0, 1e9)) {
  }
  const char* name() const noexcept override { return "dmda"; }
  bool weighs_energy() const noexcept override { return gamma_ > 0; }

protected:
  const candidate& choose(const ready_task& t, std::span<const candidate> all, std::span<const device_load>,
                          double) override {
    double first = all.front().end;
    for (const candidate& c : all) first = std::min(first, c.end);
    const candidate* best = nullptr;
    double least = 0;
    for (const candidate& c : all) {
      double score = alpha_ * (c.end - first) + beta_ * c.copies;
      if (gamma_ > 0) score += gamma_ * t.expected_joules(static_cast<int>(c.device), c.seconds).value_or(0);
      if (best && score >= least) continue;
      best = &c;
      least = score;
    }
    return *best;
  }

  bool moves(const ready_task& t, std::size_t from, double seconds_there, std::size_t d, double seconds) override {
    return gamma_ <= 0 || t.expected_joules(static_cast<int>(d), seconds).value_or(0) <=
                              t.expected_joules(static_cast<int>(from), seconds_there).value_or(0);
  }

private:
  const double alpha_, beta_, gamma_;
};

} // namespace

extern const policy_entry dmda_policy;
constinit const policy_entry dmda_policy{
    "dmda", nullptr,
    [](std::uint64_t, policy_parameters& given) -> std::unique_ptr<policy> { return std::make_unique<dmda>(given); }};

} // namespace tern::hetero::detail
