// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <tern/hetero/schedule/policies/by_device.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

/// First come, first served, by the device with the fewest tasks.
class eager final : public policy {
public:
  const char* name() const noexcept override { return "eager"; }
  void push(ready_task t, std::span<const device_load> devices) override {
    (anywhere(t, devices) ? queue_ : unplaceable_).push(t);
  }
  std::optional<placement> pop(std::span<const device_load> devices) override {
    if (const auto t = unplaceable_.take([](const ready_task&) { return true; })) return placement{*t, -1};
    if (queue_.empty()) return std::nullopt;
    if (std::any_of(devices.begin(), devices.end(), [](const device_load& l) { return l.lost; }))
      if (const auto t = queue_.take([&](const ready_task& x) { return !anywhere(x, devices); }))
        return placement{*t, -1};
    by_load(devices, order_);
    for (const std::size_t d : order_)
      if (const auto t = queue_.take_for(static_cast<int>(d))) return placement{*t, static_cast<int>(d)};
    return std::nullopt;
  }

private:
  ready_queue queue_, unplaceable_;
  std::vector<std::size_t> order_;
};

} // namespace

extern const policy_entry eager_policy;
constinit const policy_entry eager_policy{
    "eager", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<eager>(); }};

} // namespace tern::hetero::detail
