// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/policies/by_device.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

/// Where the fewest bytes are missing; among those where the fewest tasks are.
class locality final : public by_device {
public:
  const char* name() const noexcept override { return "locality"; }

protected:
  int choose(const ready_task& t, std::span<const device_load> devices) override {
    int best = -1;
    std::int64_t missing = 0;
    std::size_t tasks = 0;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (!usable(t, devices, d)) continue;
      const std::int64_t m = t.bytes_missing(static_cast<int>(d));
      const std::size_t n = static_cast<std::size_t>(devices[d].tasks) + queues_[d].size();
      if (best >= 0 && (m > missing || (m == missing && n >= tasks))) continue;
      best = static_cast<int>(d);
      missing = m;
      tasks = n;
    }
    return best;
  }
  std::optional<ready_task> steal(std::size_t d, std::span<const device_load> devices) override {
    for (std::size_t v = 0; v < queues_.size(); ++v)
      if (v != d && devices[v].free_slots <= 0)
        if (auto t = queues_[v].take_for(static_cast<int>(d))) return t;
    return std::nullopt;
  }
};

} // namespace

extern const policy_entry locality_policy;
constinit const policy_entry locality_policy{
    "locality", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<locality>(); }};

} // namespace tern::hetero::detail
