// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Watches a counter of energy. Internal.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <tern/hetero/power/energy_source.hpp>
#include <tern/hetero/power/power_estimate.hpp>

namespace tern::hetero::detail {

/// The power of a device by its counter of energy: windows of time, each of which goes into the
/// estimate. Threads: one at a time.
class power_meter {
public:
  /// Counters of GPUs go on every 20 to 100 ms.
  static constexpr std::int64_t window = 200'000'000; ///< nanoseconds

  /// \param first see `power_estimate`.
  power_meter(std::shared_ptr<energy_source> source, device_power first) noexcept
      : source_(std::move(source)), estimate_(first) {}

  /// Looks at the counter, if a window is over. \param now nanoseconds. \param busy for how many
  /// seconds the device has been busy since some moment; not used if its source tells it.
  /// \return what the device takes, if that has been found out now.
  std::optional<device_power> look(std::int64_t now, double busy) noexcept {
    if (begun_ && now - since_ < window) return std::nullopt;
    const std::optional<double> joules = source_->joules();
    busy = source_->busy_seconds().value_or(busy);
    const double seconds = static_cast<double>(now - since_) * 1e-9;
    const bool whole = begun_ && joules && before_;
    if (whole) estimate_.add((busy - busy_before_) / seconds, (*joules - *before_) / seconds);
    begun_ = true;
    since_ = now;
    before_ = joules;
    busy_before_ = busy;
    return whole ? std::optional(estimate_.now()) : std::nullopt;
  }

private:
  const std::shared_ptr<energy_source> source_;
  power_estimate estimate_;
  bool begun_ = false;
  std::int64_t since_ = 0;
  std::optional<double> before_; ///< joules
  double busy_before_ = 0;
};

} // namespace tern::hetero::detail
