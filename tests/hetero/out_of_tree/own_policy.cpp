// SPDX-License-Identifier: Apache-2.0
/// \file
/// A scheduling policy outside of the tree: `last`, the device with the highest number on which a
/// task may run; `skip` many of the last ones are left out where others are there.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include <tern/hetero/policy.hpp>

namespace {

using namespace tern::hetero;

class last_device final : public policy {
public:
  explicit last_device(tern::policy_parameters& p) : skip_(p.count("skip", 0, 0, 64)) {}
  const char* name() const noexcept override { return "last"; }
  void push(ready_task t, std::span<const device_load>) override { ready_.push(t); }
  std::optional<placement> pop(std::span<const device_load> devices) override {
    for (std::size_t d = devices.size(); d-- > 0;)
      if (devices[d].free_slots > 0 && !devices[d].lost)
        if (const auto t =
                ready_.take([&](const ready_task& x) { return last_for(x, devices) == static_cast<int>(d); }))
          return placement{*t, static_cast<int>(d)};
    if (const auto t = ready_.take([&](const ready_task& x) { return last_for(x, devices) < 0; }))
      return placement{*t, -1};
    return std::nullopt;
  }

private:
  int last_for(const ready_task& t, std::span<const device_load> devices) const {
    int d = std::max(static_cast<int>(devices.size()) - 1 - skip_, 0);
    while (d >= 0 && (devices[static_cast<std::size_t>(d)].lost || !t.may_run_on(d))) --d;
    return d;
  }
  const int skip_;
  ready_queue ready_;
};

const policy_registration last("last", [](std::uint64_t, tern::policy_parameters& p) -> std::unique_ptr<policy> {
  return std::make_unique<last_device>(p);
});

} // namespace
