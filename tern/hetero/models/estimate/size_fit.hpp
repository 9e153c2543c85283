// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What times at some sizes say of another size. Internal.

#include <optional>
#include <span>

namespace tern::hetero::detail {

struct size_point {
  double bytes, time; ///< above 0
};

/// A power law through the times of one kernel on one device: log t = a + b log s, with b from 0
/// (the time is that of a launch) to 3 (a product of matrices has 1.5).
///
/// Requires three different sizes at least, of which the largest is four times the smallest.
/// Guarantees that fewer than 29 % of the points can be arbitrarily wrong without moving it far.
/// Threads: as a value.
///
/// Source: Theil (1950) and Sen (1968): b is the median of the slopes of all pairs.
class size_fit {
public:
  static constexpr std::size_t points_least = 3, points_most = 128; ///< of more, some that are spread evenly
  static constexpr double span_least = 4;
  static constexpr double beyond_most = 4; ///< outside of the sizes measured, by that factor
  static constexpr double exponent_most = 3;

  /// \return nothing where there are too few sizes.
  static std::optional<size_fit> through(std::span<const size_point> points);

  double exponent() const noexcept { return b_; }
  /// \return the time in the points' unit; nothing too far beyond the sizes measured.
  std::optional<double> at(double bytes) const noexcept;

private:
  double a_ = 0, b_ = 0, smallest_ = 0, largest_ = 0;
};

} // namespace tern::hetero::detail
