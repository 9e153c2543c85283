// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// The mesh of one group of coarse triangles: Delaunay refinement, and the exchange of border
/// splits that makes neighbouring groups conform.
///
/// Every split of a border segment is computed from the segment alone (its ordered ends and their
/// apex flags, which both sides know), so two groups that split the same segment get the same
/// point, bit for bit. The splits of a border piece form a binary tree; exchanging which segments
/// were split until nothing new appears makes both sides' trees equal.
///
///     group_mesh m(definition, sizes);
///     m.refine();
///     do { for (auto n : m.neighbours()) send(n, m.take_new_splits(n)); } while (m.apply_splits(all_received) > 0
///     anywhere);
///
/// Literature: L. P. Chew 1989/1993; J. Ruppert 1995; J. R. Shewchuk, "Delaunay refinement
/// algorithms for triangular mesh generation", Comp. Geometry 22 (2002); A. Bowyer and D. F.
/// Watson, 1981, for the insertion.

#include "apps/mesh/domain/size_field.hpp"
#include "apps/mesh/geometry/geometry.hpp"
#include "apps/mesh/refine/decompose.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <tern/base/archive.hpp>

namespace mesh {

/// "The border segment between a and b was split", a < b. The point follows from the segment.
struct split {
  point a, b;
  template <class A> void serialize(A& ar) { ar(a.x, a.y, b.x, b.y); }
  bool operator==(const split&) const = default;
};

} // namespace mesh

// These travel in arrays, each as one copy.
template <> inline constexpr bool tern::is_bitwise<mesh::point> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::split> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::coarse_node> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::coarse_triangle> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::coarse_piece> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::sharp_joint> = true;

namespace mesh {

/// A triangle whose smallest angle is below 20 degrees.
struct small_angle {
  point where; ///< the corner that has the angle
  double degrees = 0;
  std::uint32_t artificial = 0; ///< 1: caused by our own cuts, which must not happen; 0: by the input's own angle
  template <class A> void serialize(A& ar) { ar(where.x, where.y, degrees, artificial); }
};

/// What is known of a group's mesh, or with += of several groups' meshes.
struct group_statistics {
  std::uint64_t triangles = 0;
  std::uint64_t points = 0;         ///< summed over groups, those on borders count once for each group
  double area = 0, area_error = 0;  ///< km^2; compensated sum: area + area_error is the better value
  double smallest_angle = 180;      ///< degrees
  double smallest_free_angle = 180; ///< among triangles not excused by an angle of the input
  std::uint64_t below_20_input = 0, below_20_artificial = 0;
  double shortest_edge = 1e300;    ///< km
  double outline_length = 0;       ///< of coast and box, km
  std::uint64_t border_pieces = 0; ///< coarse edges shared with another group, counted on both sides
  std::uint64_t border_edges = 0;  ///< leaf edges on them, counted on both sides
  std::uint64_t border_hash = 0;   ///< 0 after summing all groups if and only if (but for 2^-64) borders conform
  std::uint64_t splits = 0;        ///< border segments split beyond the first division
  std::uint64_t insertions = 0;    ///< points inserted
  std::uint64_t rejected = 0;      ///< circumcentres not inserted because a segment had to be split first
  std::uint64_t hash = 0;          ///< sum over triangles of a mix of the three points: independent of any order
  std::uint64_t bytes = 0;         ///< memory of the mesh at its largest
  double seconds = 0;              ///< spent in refine() and apply_splits()
  std::vector<small_angle> places; ///< the worst few below 20 degrees
  group_statistics& operator+=(const group_statistics& other);
  template <class A> void serialize(A& ar) {
    ar(triangles, points, area, area_error, smallest_angle, smallest_free_angle, below_20_input, below_20_artificial,
       shortest_edge, outline_length, border_pieces, border_edges, border_hash, splits, insertions, rejected, hash,
       bytes, seconds, places);
  }
};

/// A mesh as plain arrays, to be sent or drawn.
struct extracted {
  std::uint32_t group = 0;
  std::vector<point> points;
  std::vector<std::array<std::uint32_t, 3>> triangles; ///< counterclockwise
  template <class A> void serialize(A& ar) { ar(group, points, triangles); }
};

/// The midpoint or shell point at which every group splits the segment p-q: evaluated from the
/// ordered ends, so the order of the arguments does not matter. Both or no end an apex: the
/// midpoint. One: at a distance from it that is a power of two (in km), between 1/3 and 2/3 of the
/// length (Ruppert's concentric shells, here with absolute radii). Segments along an axis stay on
/// it exactly.
point split_point(point p, bool p_is_apex, point q, bool q_is_apex);

/// One group's mesh. Not copyable; may be used by one thread at a time; groups don't depend on each
/// other.
class group_mesh {
public:
  /// Copies what it needs of `definition`; `sizes` must outlive this object.
  group_mesh(const group_definition& definition, const size_field& sizes);
  /// What `save` wrote. \throws tern::error(invalid_data).
  group_mesh(tern::input_archive& ar, const size_field& sizes);
  ~group_mesh();
  group_mesh(group_mesh&&) noexcept;
  group_mesh& operator=(group_mesh&&) noexcept;

  /// Builds the mesh and refines it. Call it once, first.
  /// \throws tern::error(internal) where refinement does not end: names group, place and shortest
  /// edge;
  ///   tern::error(invalid_data) for a definition that is none.
  void refine();

  /// Groups that share a border piece with this one, ascending.
  const std::vector<std::uint32_t>& neighbours() const;

  /// Border segments shared with `neighbour` that were split since the last call, a deterministic
  /// list.
  std::vector<split> take_new_splits(std::uint32_t neighbour);

  /// Splits what neighbours have split and refines again. Pass what all neighbours sent in one
  /// round; their order doesn't matter, nor do repetitions. \return the number of border segments
  /// split for the neighbours' sake. \throws tern::error(invalid_data) for a segment that is none
  /// of this group's; else as refine().
  std::size_t apply_splits(std::vector<split> from_neighbours);

  /// One pass over all triangles.
  group_statistics statistics() const;

  /// Sum over the edges on the border with `neighbour` of a hash of their ends: equal on both sides
  /// if they conform.
  std::uint64_t border_hash(std::uint32_t neighbour) const;

  extracted extract() const;

  /// Frees what only further refinement needs; apply_splits() still works afterwards, a little
  /// slower.
  void compact();

  /// Not while one of the other functions runs. For size_archive and output_archive.
  template <class A> void save(A& ar) const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace mesh
