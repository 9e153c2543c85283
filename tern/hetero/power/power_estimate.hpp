// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a device takes while it is busy and while it is not, from what it took. Internal.

#include <array>
#include <cstddef>

#include <tern/hetero/power/energy_source.hpp>

namespace tern::hetero::detail {

/// Watts of a device, fitted to windows of time in which it was busy for a known share.
///
/// Guarantees that neither value is below 0 nor `idle` above `busy`, and that a few windows that
/// are far off move neither. What the windows say nothing of stays as it was: always busy, what it
/// takes while idle.
///
/// Threads: as a value.
///
/// Source: the slope is Theil's and Sen's (Sen 1968), the median over pairs of windows.
class power_estimate {
public:
  static constexpr std::size_t windows = 32;

  /// \param first until windows say otherwise.
  explicit power_estimate(device_power first) noexcept : now_(first) {}
  /// \param share of the window for which it was busy, from 0 to 1. \param watts that it took on
  /// average.
  void add(double share, double watts) noexcept;
  const device_power& now() const noexcept { return now_; }

private:
  struct window {
    double share, watts;
  };
  void fit() noexcept;

  std::array<window, windows> last_{}; // a ring
  std::size_t count_ = 0, next_ = 0;
  device_power now_;
};

} // namespace tern::hetero::detail
