// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/policies/by_device.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

/// The devices in turn.
class round_robin final : public by_device {
public:
  const char* name() const noexcept override { return "round-robin"; }

protected:
  int choose(const ready_task& t, std::span<const device_load> devices) override {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::size_t d = next_++ % devices.size();
      if (usable(t, devices, d)) return static_cast<int>(d);
    }
    return -1;
  }

private:
  std::size_t next_ = 0;
};

} // namespace

extern const policy_entry round_robin_policy;
constinit const policy_entry round_robin_policy{
    "round-robin", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<round_robin>(); }};

} // namespace tern::hetero::detail
