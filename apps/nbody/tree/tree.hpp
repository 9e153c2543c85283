// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The octree over the bodies of one piece (Barnes and Hut 1986), built from sorted Morton keys.

#include "apps/nbody/bodies/bodies.hpp"
#include "apps/nbody/tree/cell.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace nbody {

struct tree_settings {
  double theta = 0.5;        ///< opening angle; 0: direct summation
  std::uint32_t leaf = 32;   ///< most bodies of a cell without children
  std::uint32_t group = 256; ///< most bodies that share a walk
  template <class A> void serialize(A& ar) { ar(theta, leaf, group); }
};

/// Neighbouring bodies of a piece, with one list of interactions for all.
struct body_group {
  std::uint32_t first = 0, count = 0;
  box around;
};

/// The cells and what forces need of the bodies; or, as a *crown*, the uppermost cells alone.
struct octree {
  std::vector<cell> cells;           ///< in the order of a walk; none: no bodies
  std::vector<double> mass, x, y, z; ///< of the bodies, in the order of their keys; a crown has none
  bool whole() const noexcept { return cells.empty() || !x.empty(); }
  template <class A> void serialize(A& ar) { ar(cells, mass, x, y, z); }
};

/// \param keys sorted, one for each of the bodies, which are in their order. A cell whose bodies
/// are all in one eighth is left out. Boxes are as small as the bodies allow. The same bits for the
/// same bodies.
octree build_tree(const bodies& of, std::span<const std::uint64_t> keys, const tree_settings& how);

/// The largest cells of at most `how.group` bodies.
std::vector<body_group> groups_of(const octree& whole, const tree_settings& how);

/// The cells of the uppermost two levels; those that have more within are `elsewhere`, and so are
/// leaves. \param piece whose tree it is.
octree crown_of(const octree& whole, std::uint32_t piece);

} // namespace nbody
