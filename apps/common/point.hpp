// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A point of the plane.

#include <compare>

namespace apps {

/// Ordered by x, then y; equality is bitwise for finite values other than a negative zero. A value
/// that can be sent to another rank.
struct point {
  double x = 0, y = 0;
  auto operator<=>(const point&) const = default;
};

} // namespace apps
