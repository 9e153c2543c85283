// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// How far a point is from the coast, and so how large a triangle may be there.

#include "apps/mesh/geometry/geometry.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mesh {

/// Distances to the coast on a grid over the box, interpolated bilinearly: the same values on every
/// rank, which is what makes border splits agree. Building it is deterministic. Const members may
/// be called by many threads.
class size_field {
public:
  size_field() = default;
  /// \param spacing_km distance between grid points; 0: the box's longer side / 1600, at most 1 km
  /// (default region: 1 km),
  ///   more where that would need over 16 million grid points.
  /// \throws tern::error(invalid_argument) for a sizing, spacing or domain that cannot be right.
  size_field(const domain& sea, const sizing& wanted, double spacing_km = 0);

  /// Distance to the nearest coast segment (edges of the box don't count), km; 1e30 without a
  /// coast. The distance at grid points is that to the segment itself; between them it is
  /// interpolated, so it errs by at most about `spacing()`. Outside the box: the value at the
  /// nearest point of the grid.
  double distance(double x, double y) const {
    double column = std::min(std::max(0.0, (x - low_.x) * per_km_), last_column_);
    double row = std::min(std::max(0.0, (y - low_.y) * per_km_), last_row_);
    auto i = std::min(static_cast<std::uint32_t>(column), columns_ - 2);
    auto j = std::min(static_cast<std::uint32_t>(row), rows_ - 2);
    column -= i;
    row -= j;
    const float* cell = distance_.data() + static_cast<std::size_t>(j) * columns_ + i;
    double south = cell[0] + column * (static_cast<double>(cell[1]) - cell[0]);
    double north = cell[columns_] + column * (static_cast<double>(cell[columns_ + 1]) - cell[columns_]);
    return south + row * (north - south);
  }

  /// The longest edge a triangle at (x, y) may have, km: clamp(h_min + grade * distance, h_min,
  /// h_max); without a coast h_max everywhere.
  double h(double x, double y) const {
    return std::min(std::max(at_coast_ + sizes_.grade * distance(x, y), sizes_.h_min), sizes_.h_max);
  }
  double h(const point& p) const { return h(p.x, p.y); }

  const sizing& sizes() const { return sizes_; }
  double spacing() const { return 1 / per_km_; }
  std::uint32_t columns() const { return columns_; }
  std::uint32_t rows() const { return rows_; }

  template <class A> void serialize(A& ar) {
    ar(sizes_, low_.x, low_.y, per_km_, last_column_, last_row_, at_coast_, columns_, rows_, distance_);
  }

private:
  sizing sizes_;
  point low_;
  double per_km_ = 1, last_column_ = 1, last_row_ = 1;
  double at_coast_ = 5;                                        ///< h where the distance is 0
  std::uint32_t columns_ = 2, rows_ = 2;                       ///< grid points, at least 2 each way
  std::vector<float> distance_ = {1e30F, 1e30F, 1e30F, 1e30F}; ///< km, by rows from the south-west corner
};

} // namespace mesh
