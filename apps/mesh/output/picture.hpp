// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// The mesh as a map.

#include "apps/mesh/output/gathered.hpp"

#include <optional>
#include <string>

namespace mesh {

enum class colour_by {
  rank, ///< one hue an owner rank, shaded by group
  size  ///< longest edge, logarithmic
};

/// What a picture shows. The defaults make a good one.
struct picture_style {
  colour_by colour = colour_by::rank;
  std::string title;                  ///< empty: a title that says what is coloured
  std::string subtitle;               ///< empty: the number of triangles and groups, and the range of sizes
  int width = 2000;                   ///< of the picture, pixels, 600 to 8000; narrow boxes give a narrower picture
  bool inset = true;                  ///< a magnifier of a dense place
  std::optional<point> inset_degrees; ///< its centre {longitude, latitude}; none: chosen where ranks meet at a coast
  double inset_km = 0;                ///< width of the magnified place; 0: such that triangles are visible
};

/// Writes a PNG: sea filled by triangles, land, coastline, graticule, scale, legend and a
/// magnifier.
/// \throws tern::error: io (naming the path and the system's reason), invalid_argument (a mesh
/// whose arrays disagree).
void write_picture(const std::string& path, const gathered_mesh& mesh, const domain& sea,
                   const picture_style& style = {});

} // namespace mesh
