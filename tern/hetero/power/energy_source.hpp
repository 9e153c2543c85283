// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tells how much energy a device takes. Internal.

#include <optional>
#include <string>

namespace tern::hetero::detail {

/// Watts while a device computes, and while it does nothing.
struct device_power {
  double busy = 0, idle = 0;
};

/// A counter of the energy that a device takes. Threads: one at a time.
class energy_source {
public:
  virtual ~energy_source() = default;
  energy_source() = default;
  energy_source(const energy_source&) = delete;
  energy_source& operator=(const energy_source&) = delete;

  virtual std::string name() const = 0; ///< "NVML"
  /// Since some moment. Nothing: it does not answer now. May take a millisecond.
  virtual std::optional<double> joules() noexcept = 0;
  /// What is known at once: the most that it may take, and what it takes now.
  virtual std::optional<device_power> before_measuring() noexcept { return std::nullopt; }
  /// For how long it has been busy since some moment; nothing: it does not know.
  virtual std::optional<double> busy_seconds() noexcept { return std::nullopt; }
};

} // namespace tern::hetero::detail
