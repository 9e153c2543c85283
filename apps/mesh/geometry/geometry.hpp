// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// Plain geometry shared by the parts of the coastal mesher. Lengths in km, areas in km^2, angles
/// in degrees. No CGAL, no Tern runtime: everything here is a value that can be sent to another
/// rank.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/point.hpp"

namespace mesh {

using apps::point; ///< here in km

/// A straight piece from `a` to `b`.
struct segment {
  point a, b;
  bool operator==(const segment&) const = default;
};

/// With ten significant digits, as settings and messages show it.
std::string text(double value);

/// A box on the globe, degrees; west < east in [-180, 180], south < north in (-90, 90).
struct bounding_box {
  double west = 19.0, south = 30.5, east = 36.8, north = 41.2;
};

/// Equidistant cylindrical projection whose standard parallel is the box's middle; the origin is
/// the box's centre.
class projection {
public:
  projection() = default;
  /// \throws tern::error(invalid_argument) for a box that is not one; says which limits hold.
  explicit projection(const bounding_box& box);
  point to_km(double longitude, double latitude) const;
  /// \return {longitude, latitude} in `x`, `y`, degrees.
  point to_degrees(point km) const;

private:
  double middle_longitude_ = 0, middle_latitude_ = 0, stretch_ = 1;
};

/// The sea inside a box.
struct domain {
  projection proj;
  point low, high;               ///< corners of the box, km
  std::vector<segment> boundary; ///< coast clipped to the box, and the box's edges where they border sea
  std::size_t coast = 0;         ///< the first `coast` entries of `boundary` are coast, the rest box edges
  double area = 0;               ///< of the sea, from the clipped polygons, independent of any mesh
  std::vector<std::vector<point>>
      land; ///< closed rings (last point not repeated) that touch the box, unclipped, for pictures
};

/// What a triangle's longest edge may measure: h(x) = clamp(h_min + grade * distance to the coast,
/// h_min, h_max).
struct sizing {
  double h_min = 0.5, h_max = 5.0, grade = 0.05;
  template <class A> void serialize(A& ar) { ar(h_min, h_max, grade); }
  /// \throws tern::error(invalid_argument) unless 0 < h_min <= h_max and grade >= 0, all finite;
  /// names the option to change.
  void check() const;
};

} // namespace mesh
