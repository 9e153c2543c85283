// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// A whole mesh on one rank, for output.

#include "apps/mesh/geometry/geometry.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace mesh {

/// Triangles as indices into `points`; `rank` and `group` have one entry a triangle.
struct gathered_mesh {
  std::vector<point> points; ///< km
  std::vector<std::array<std::uint32_t, 3>> triangles;
  std::vector<std::uint16_t> rank;  ///< which rank meshed it
  std::vector<std::uint32_t> group; ///< which subdomain it belongs to

  /// \throws tern::error(invalid_argument) unless the arrays' lengths agree and each index is that
  /// of a point.
  void check() const;
};

} // namespace mesh
