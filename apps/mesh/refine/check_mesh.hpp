// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// Is this a mesh of that sea? Looks at triangles and coordinates only and trusts nothing the
/// mesher says. For tests and `--verify`; needs about 150 bytes a triangle.

#include "apps/mesh/geometry/geometry.hpp"
#include "apps/mesh/refine/refine.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

struct mesh_check {
  std::uint64_t triangles = 0, points = 0;   ///< points with equal coordinates are one
  std::uint64_t inner_edges = 0;             ///< used by exactly two triangles, once in each direction
  std::uint64_t outer_edges = 0;             ///< used by one triangle
  std::uint64_t bad_edges = 0;               ///< used by more, or twice in one direction
  std::uint64_t stray_edges = 0;             ///< used once but not on the input's boundary
  std::uint64_t gaps = 0;                    ///< segments of the input's boundary not covered exactly by outer edges
  std::uint64_t flipped = 0;                 ///< triangles that are not counterclockwise (exact)
  double area = 0, area_error = 0;           ///< km^2, and relative to the domain's
  double outer_length = 0, input_length = 0; ///< km
  double smallest_angle = 180;
  /// No bad, stray or flipped ones, no gaps; area and length within 1e-9 relative.
  bool conforms() const;
  /// What is wrong, or "conforms", in one line.
  std::string describe() const;
};

mesh_check check_mesh(const domain& sea, const std::vector<extracted>& parts);

} // namespace mesh
