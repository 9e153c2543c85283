// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// What the user asked for on the command line.

#include "apps/common/command_line.hpp"
#include "apps/mesh/geometry/geometry.hpp"
#include "apps/mesh/refine/decompose.hpp"

#include <string>

namespace mesh {

struct settings {
  std::string input; ///< GeoJSON or TopoJSON with land polygons; empty: the shipped 1:50m land
  bounding_box box;
  sizing sizes;
  estimate work = estimate::count;
  double triangles_per_group = 35000;
  std::size_t groups = 0;
  std::string out;  ///< folder for pictures, mesh and summary; empty: none
  std::string json; ///< file for the summary; empty: only `out`/summary.json
  bool pictures = true, vtu = true;
  bool verify = false;     ///< gather the mesh and check it as a whole
  bool sequential = false; ///< run CGAL's mesher instead, for comparison
  bool quiet = false;
  std::string checkpoint; ///< folder of checkpoints; empty: none
  std::size_t every = 16; ///< subdomains that are meshed between two of them
};

struct command_line : apps::command_line_end {
  settings wanted;
};

/// Reads and checks the command line (of the program, Tern's own options removed).
command_line parse_command_line(int argc, const char* const* argv);

/// The land polygons that come with the program: beside the executable's source, or installed.
std::string shipped_land();

} // namespace mesh
