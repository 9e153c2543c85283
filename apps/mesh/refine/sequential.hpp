// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// The rival: one call of CGAL's mesher on the whole sea, with the same sizing and the same bound
/// on angles.

#include "apps/mesh/domain/size_field.hpp"
#include "apps/mesh/geometry/geometry.hpp"

#include <cstdint>

namespace mesh {

struct sequential_result {
  std::uint64_t triangles = 0;
  double area = 0;           ///< km^2
  double smallest_angle = 0; ///< degrees
  double seconds = 0;        ///< building the constrained triangulation and refining it; not the checks
};

/// CGAL::refine_Delaunay_mesh_2 with CGAL's own face and vertex types: the criterion is longest
/// edge <= h(centroid) and sin^2 of the smallest angle >= 0.125 (20.7 degrees), what CGAL
/// guarantees. Bad faces are refined cell by cell, which is how CGAL is fastest.
/// \throws tern::error(invalid_data) for a boundary that crosses itself.
sequential_result run_cgal(const domain& sea, const size_field& sizes);

} // namespace mesh
