// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// Cutting the sea into many groups that can be meshed independently and still fit together.
///
/// A quadtree's lines would cut the coast at tiny angles. Instead the whole sea is meshed coarsely
/// (constrained Delaunay refinement, edges about 12 h), and a group is a set of coarse triangles:
/// its borders are edges of a good mesh, which meet each other and the coast at 20.7 degrees or
/// more wherever the coast's own angle allows it.
///
/// Literature: J. Ruppert, "A Delaunay refinement algorithm for quality 2-dimensional mesh
/// generation", J. Algorithms 18 (1995), for the refinement and the concentric shells; G. M.
/// Morton, 1966, for the order.

#include "apps/mesh/domain/size_field.hpp"
#include "apps/mesh/geometry/geometry.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh {

/// How the work of a coarse triangle is estimated when groups are cut.
enum class estimate : std::uint8_t {
  count, ///< the triangles it will become: 2 + 5.1 area / h^2 (5.1 was measured)
  area   ///< its area: deliberately wrong wherever h varies, to give a load balancer something to do
};

/// The `neighbour` of a piece that borders no other group.
inline constexpr std::uint32_t no_neighbour = 0xffffffffU;
/// The `origin` of what lies on no segment of the input.
inline constexpr std::uint32_t no_origin = 0xffffffffU;

/// A vertex of the coarse mesh.
struct coarse_node {
  point where;
  std::uint32_t origin = no_origin; ///< index in `domain::boundary` of the segment that it lies inside
  std::uint32_t apex = 0;           ///< 1: two constrained edges of the decomposition meet here at less than 60 degrees
  template <class A> void serialize(A& ar) { ar(where.x, where.y, origin, apex); }
};

/// A coarse triangle, indices of nodes, counterclockwise.
struct coarse_triangle {
  std::uint32_t a = 0, b = 0, c = 0;
  template <class A> void serialize(A& ar) { ar(a, b, c); }
};

/// An edge of the coarse mesh on the outline of a group, indices of nodes; the group lies to the
/// left of a -> b.
struct coarse_piece {
  std::uint32_t a = 0, b = 0;
  std::uint32_t neighbour = no_neighbour; ///< the group on the other side
  std::uint32_t origin = no_origin;       ///< the segment of `domain::boundary` it lies on
  template <class A> void serialize(A& ar) { ar(a, b, neighbour, origin); }
};

/// Two segments of the input that meet at less than 20.7 degrees, with sea between them: no mesh
/// can do better there.
struct sharp_joint {
  point where;
  double degrees = 0;
  std::uint32_t first = 0, second = 0; ///< indices in `domain::boundary`
  template <class A> void serialize(A& ar) { ar(where.x, where.y, degrees, first, second); }
};

/// All a group needs to mesh itself, apart from the size field: a few kilobytes, made to be sent.
struct group_definition {
  std::uint32_t id = 0;
  double work = 0;      ///< estimated, in triangles or km^2, see `estimate`
  double triangles = 0; ///< estimated number of triangles, whatever `estimate` was used for the cut
  std::vector<coarse_node> nodes;
  std::vector<coarse_triangle> triangulation;
  std::vector<coarse_piece> pieces;
  std::vector<sharp_joint> joints; ///< those whose segments have a piece here
  template <class A> void serialize(A& ar) { ar(id, work, triangles, nodes, triangulation, pieces, joints); }
};

struct decompose_options {
  double triangles_per_group = 35000; ///< aimed at
  std::size_t groups = 0;             ///< exactly so many; 0: from the estimate, at least `at_least`
  std::size_t at_least = 1;           ///< used only where `groups` is 0
  estimate work = estimate::count;
  double coarse_factor = 12; ///< edges of the coarse mesh in units of h; made smaller where too few triangles result
};

struct decomposition {
  std::vector<group_definition> groups; ///< `groups[i].id == i`, in Morton order: consecutive ones are near each other
  std::vector<sharp_joint> joints;      ///< all sharp joints of the input
  std::size_t coarse_triangles = 0;
  double work = 0;      ///< sum of the groups'
  double triangles = 0; ///< sum of the groups'
};

/// Meshes the sea coarsely and cuts it. Depends on its arguments only, never on ranks or threads.
/// Sequential.
/// \throws tern::error: invalid_data (boundary that crosses itself or isn't closed, with the place;
/// a coordinate that is
///   not finite), invalid_argument (more groups asked for than the sea can be cut into).
decomposition decompose(const domain& sea, const size_field& sizes, const decompose_options& options = {});

} // namespace mesh
