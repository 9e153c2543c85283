// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// Land polygons from GeoJSON or TopoJSON.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace mesh {

/// Rings of land, longitude and latitude in degrees. A ring is closed without repeating its first
/// point, has at least three distinct points, and runs counterclockwise if it bounds land from
/// outside, clockwise if it is a hole (a lake). A ring that steps over the 180 degree meridian is
/// there once at each end of the map, with longitudes beyond 180 degrees.
struct land_polygons {
  std::vector<std::vector<std::array<double, 2>>> rings;
  std::string source;      ///< the path, and for TopoJSON the object's name, for messages
  std::size_t skipped = 0; ///< rings with fewer than three distinct points, left out
};

/// Reads the polygons of a file. Its format (TopoJSON or GeoJSON) is recognised by its content.
/// \param object TopoJSON only: which object to read. Empty: the object `land` where there is one
/// (files with `land` and
///   `countries` hold the same coast twice), else all objects.
/// \throws tern::error: io (cannot be opened or read), invalid_data (not JSON, neither format, an
/// arc or coordinate that
///   cannot be right, no polygon), not_found (no such object). The message names the file and the place in it.
land_polygons read_land(const std::string& path, const std::string& object = {});

} // namespace mesh
