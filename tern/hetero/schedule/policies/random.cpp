// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <tern/hetero/schedule/policies/by_device.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

/// Any device, the same in each run of one seed.
class random_choice final : public by_device {
public:
  explicit random_choice(std::uint64_t seed) : generator_(seed) {}
  const char* name() const noexcept override { return "random"; }

protected:
  int choose(const ready_task& t, std::span<const device_load> devices) override {
    std::size_t possible = 0;
    for (std::size_t d = 0; d < devices.size(); ++d) possible += usable(t, devices, d) ? 1 : 0;
    if (possible == 0) return -1;
    std::size_t wanted = generator_() % possible;
    std::size_t d = 0;
    while (!usable(t, devices, d) || wanted-- > 0) ++d;
    return static_cast<int>(d);
  }

private:
  std::mt19937_64 generator_;
};

} // namespace

extern const policy_entry random_policy;
constinit const policy_entry random_policy{
    "random", [](std::uint64_t seed) -> std::unique_ptr<policy> { return std::make_unique<random_choice>(seed); }};

} // namespace tern::hetero::detail
