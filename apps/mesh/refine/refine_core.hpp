// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// Delaunay refinement in flat arrays: what `decompose` (coarse mesh) and `group_mesh` (fine mesh)
/// have in common. Private to these two.
///
/// A face is three vertex and three neighbour indices (24 bytes), a vertex 20 bytes: about 36 bytes
/// a triangle, a third of CGAL's, so that a group stays in the cache. Only faces inside the sea
/// exist: an edge of the outline has a segment where another edge has a neighbour. A cavity's faces
/// are overwritten by its new ones, so no face is ever freed.

#include "apps/mesh/domain/size_field.hpp"
#include "apps/mesh/geometry/geometry.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <tern/base/archive.hpp>

namespace mesh::detail {

/// sin^2 of 20.7048 degrees, the largest bound for which Ruppert's algorithm is proven to end.
inline constexpr double quality_bound = 0.125;

inline constexpr double degrees_per_radian = 57.295779513082320877;

/// \return > 0 if `d` lies inside the circle through the counterclockwise a, b, c. Exact.
int in_circle_exact(const point& a, const point& b, const point& c, const point& d);

struct core_vertex {
  std::uint32_t apex : 1;
  std::uint32_t origin : 31; ///< `origin`: index of a segment of the input, or `core_no_origin`
};
inline constexpr std::uint32_t core_no_origin = 0x7fffffffU;

/// Vertices counterclockwise; `n[i]` is across the edge opposite `v[i]`: 4 * face + (its index
/// there), or ~segment.
struct core_face {
  std::int32_t v[3];
  std::int32_t n[3];
};

/// The face to the left of a -> b has it as edge `edge` (4 * face + index).
/// `tag` is the owner's; splits of segments with tag >= 0 are logged. `origin`: as a vertex's.
struct core_segment {
  std::int32_t a, b, edge, tag;
  std::uint32_t origin;
};

/// A segment with tag >= 0 was split: `low` and `high` are its former, ordered, ends; the halves
/// are now `first` (which keeps the number) and `second`, in the order of the face's orientation.
struct core_split {
  point low, high;
  std::int32_t first, second;
};

/// Two input segments that meet in `where` at less than 20 degrees.
struct core_joint {
  std::uint32_t first, second; ///< origins, first < second
  point where;
};

} // namespace mesh::detail

template <> inline constexpr bool tern::is_bitwise<mesh::detail::core_vertex> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::detail::core_face> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::detail::core_segment> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::detail::core_split> = true;
template <> inline constexpr bool tern::is_bitwise<mesh::detail::core_joint> = true;

namespace mesh::detail {

class core {
public:
  core(const size_field& sizes, std::string name) : sizes_(&sizes), name_(std::move(name)) {}

  // Filled by the owner before build().
  std::vector<point> points;
  std::vector<core_vertex> vertices;
  std::vector<core_face> faces;
  std::vector<core_segment> segments;
  std::vector<core_joint> joints;    ///< sorted by (first, second)
  std::vector<core_split> split_log; ///< grows; the owner empties it
  double factor = 1;                 ///< edges may be this many h long
  double give_up_below = 0;          ///< km: neither split shorter segments nor improve faces with shorter edges
  double cap = 1e6;                  ///< insertions allowed in all
  std::uint64_t insertions = 0, rejected = 0, given_up = 0;

  /// Connects the faces (whose `v` is set) with each other and with the segments (whose a, b, tag
  /// are set).
  /// \throws tern::error(invalid_data) if that isn't a triangulation bounded by the segments.
  void build();
  /// Splits a segment at a point the caller computed. \return the new vertex.
  std::int32_t split_segment_at(std::int32_t segment, const point& where);
  /// Splits a segment at its `split_point`.
  std::int32_t split_segment(std::int32_t segment);
  /// Queues everything that is bad; needed after build() and after a change of `factor`.
  void queue_all();
  /// Ruppert's algorithm till nothing is queued. \throws tern::error(internal) beyond the cap.
  void refine();
  /// Frees the queues.
  void compact();
  /// sin^2 of a face's smallest angle, and which corner has it.
  double sine2(const core_face& f, int& corner) const;
  /// Whether the input's own angle excuses the face's small angle, see refine_core.cpp.
  bool excused(const core_face& f) const;
  std::uint64_t bytes() const;
  /// All but the queues, which are empty after refine().
  template <class A> void serialize(A& ar) {
    ar(points, vertices, faces, segments, joints, split_log, factor, give_up_below, cap, insertions, rejected,
       given_up);
  }

private:
  struct rim_edge {
    std::int32_t a, b, outer;
    double cross, spoke2; ///< twice the area of (new point, a, b); squared distance of the new point to a
  };
  struct queued {
    std::int32_t face, stamp;
  };
  static constexpr int skinny_buckets = 8, size_buckets = 64;

  void spread(const point& p);
  bool measure_rim(const point& p, const point& end);
  void check_cap(const point& where);
  void try_face(std::int32_t face, int bucket);
  bool steiner_point(const core_face& f, point& result) const;
  bool encroached(const core_segment& s) const;
  bool splittable(const core_segment& s) const;
  void insert_inside(const point& p);
  std::int32_t new_face_slot(std::size_t k);
  void set_outer(std::int32_t outer, std::int32_t handle);
  int badness(std::int32_t face, double a2, double b2, double c2, double cross) const;
  bool excused_shell(std::int32_t u, std::int32_t v) const;
  void queue_if_bad(std::int32_t face, double a2, double b2, double c2, double cross);
  [[noreturn]] void fail(const std::string& what, const point& where) const;

  const size_field* sizes_;
  std::string name_;
  std::vector<std::int32_t> stack_, cavity_, encroached_, to_split_;
  std::vector<rim_edge> rim_;
  std::array<std::vector<queued>, skinny_buckets + size_buckets> buckets_;
  int top_ = -1; ///< no bucket above is in use
};

} // namespace mesh::detail
