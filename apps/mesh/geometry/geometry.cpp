// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/geometry/geometry.hpp"

#include <tern/base/error.hpp>

#include <cmath>
#include <cstdio>

namespace mesh {
namespace {

constexpr double earth_radius_km = 6371.0088; // mean radius, IUGG
constexpr double radians_per_degree = 3.14159265358979323846 / 180;
constexpr double smallest_box_degrees = 1e-4; // about 10 m; coasts are snapped to the box within 1 mm

} // namespace

std::string text(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.10g", value);
  return buffer;
}

projection::projection(const bounding_box& box) {
  const char* wrong = nullptr;
  if (!std::isfinite(box.west) || !std::isfinite(box.south) || !std::isfinite(box.east) || !std::isfinite(box.north))
    wrong = "each of its four numbers must be finite";
  else if (box.west < -180 || box.east > 180)
    wrong = "west and east must lie in [-180, 180]; a box may not cross the 180 degree meridian";
  else if (box.south <= -90 || box.north >= 90)
    wrong = "south and north must lie inside (-90, 90); the poles cannot be meshed";
  else if (!(box.east - box.west >= smallest_box_degrees))
    wrong = "west must be smaller than east, by at least 0.0001 degrees";
  else if (!(box.north - box.south >= smallest_box_degrees))
    wrong = "south must be smaller than north, by at least 0.0001 degrees";
  if (wrong)
    throw tern::error(tern::errc::invalid_argument,
                      "the box " + text(box.west) + "," + text(box.south) + "," + text(box.east) + "," +
                          text(box.north) + " is not one: " + wrong,
                      "give --bbox west,south,east,north in degrees, for example --bbox 19,30.5,36.8,41.2");
  middle_longitude_ = (box.west + box.east) / 2;
  middle_latitude_ = radians_per_degree * ((box.south + box.north) / 2);
  stretch_ = std::cos(middle_latitude_);
}

// Adding zero turns -0 into +0, so that equal points are equal bit by bit.
point projection::to_km(double longitude, double latitude) const {
  return {earth_radius_km * stretch_ * (radians_per_degree * (longitude - middle_longitude_)) + 0.0,
          earth_radius_km * (radians_per_degree * latitude - middle_latitude_) + 0.0};
}

point projection::to_degrees(point km) const {
  return {km.x / (earth_radius_km * stretch_) / radians_per_degree + middle_longitude_,
          (km.y / earth_radius_km + middle_latitude_) / radians_per_degree};
}

void sizing::check() const {
  auto refuse = [](const char* option, double value, const char* rule) {
    throw tern::error(tern::errc::invalid_argument, std::string(option) + " is " + text(value) + ": " + rule,
                      std::string("change ") + option + "; lengths are in km");
  };
  if (!std::isfinite(h_min) || !(h_min > 0)) refuse("--hmin", h_min, "it must be a positive length");
  if (!std::isfinite(h_max) || !(h_max >= h_min))
    refuse("--hmax", h_max, ("it must be finite and at least --hmin, which is " + text(h_min)).c_str());
  if (!std::isfinite(grade) || !(grade >= 0)) refuse("--grade", grade, "it must be a number that is not negative");
}

} // namespace mesh
