// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The kernel's powercap folder: how much energy the CPUs have taken. Internal.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tern/hetero/power/energy_source.hpp>

namespace tern::hetero::detail {

/// The counters of all CPU packages (RAPL, of Intel's and AMD's). How busy the CPUs are is the
/// machine's: other programs count, as they do in the energy.
class powercap_energy final : public energy_source {
public:
  struct package {
    std::string name, counter;    ///< "package-0"; the file
    std::uint64_t range = 0;      ///< the counter begins anew there; 0: not known
    std::uint64_t last = 0;       ///< of the counter, in microjoules
    double limit = 0, joules = 0; ///< watts; 0: not known
  };
  /// \param stat as /proc/stat.
  powercap_energy(std::vector<package> packages, std::string stat) noexcept
      : packages_(std::move(packages)), stat_(std::move(stat)) {}

  /// "powercap (package-0, package-1)"
  std::string name() const override;
  std::optional<double> joules() noexcept override;
  /// Their long-term limits, and nothing.
  std::optional<device_power> before_measuring() noexcept override;
  /// Of all CPUs together: half of them for a second are half a second.
  std::optional<double> busy_seconds() noexcept override;

private:
  std::vector<package> packages_;
  const std::string stat_;
};

/// \param folder "/sys/class/powercap". \param why gets what is missing. \return null: that.
/// Thread-safe.
std::shared_ptr<energy_source> open_powercap_energy(const std::string& folder, std::string& why,
                                                    const std::string& stat = "/proc/stat");

} // namespace tern::hetero::detail
