// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// From polygons of land to the sea inside a box.

#include "apps/mesh/domain/input.hpp"
#include "apps/mesh/geometry/geometry.hpp"

namespace mesh {

/// Projects the land, clips it at the box and keeps what borders sea.
///
/// The promise to the mesher: the boundary's segments meet at their ends only (tested with exact
/// predicates), each point of it is finite, each segment is listed once and has length, and an even
/// number of segments meets at each point. A coast that crosses the box is cut at a point computed
/// from the segment's ordered ends, so that both directions of it give the same double; a coast
/// within 1 mm of the box's line is moved onto it. Borders between polygons (two countries) are
/// inside land and vanish. Sea and land are told apart by the even-odd rule, so rings may nest.
/// \throws tern::error: invalid_argument (not a box; no sea in it), invalid_data (polygons that
/// cross themselves or each
///   other, with the place; the same polygon twice).
domain make_domain(const land_polygons& land, const bounding_box& box);

/// Two segments of a boundary that meet elsewhere than at common ends.
struct crossing {
  std::size_t first = 0, second = 0; ///< indices, first < second
  point where;
};

/// Looks for segments that cross, touch (an end of one inside the other) or overlap. Exact; O(n)
/// for evenly long segments. \return whether there are any. If so, `found` gets the pair with the
/// smallest first index and, among those, the smallest second index.
bool find_crossing(const std::vector<segment>& segments, crossing& found);

} // namespace mesh
