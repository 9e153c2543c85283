// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/refine/sequential.hpp"

#include <CGAL/Constrained_Delaunay_triangulation_2.h>
#include <CGAL/Delaunay_mesh_face_base_2.h>
#include <CGAL/Delaunay_mesh_size_criteria_2.h>
#include <CGAL/Delaunay_mesh_vertex_base_2.h>
#include <CGAL/Delaunay_mesher_2.h>
#include <CGAL/Exact_predicates_inexact_constructions_kernel.h>

#include <tern/base/error.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace mesh {

namespace {

using kernel = CGAL::Exact_predicates_inexact_constructions_kernel;
using triangulation = CGAL::Constrained_Delaunay_triangulation_2<
    kernel,
    CGAL::Triangulation_data_structure_2<CGAL::Delaunay_mesh_vertex_base_2<kernel>,
                                         CGAL::Delaunay_mesh_face_base_2<kernel>>,
    CGAL::No_constraint_intersection_requiring_constructions_tag>;

/// The bits of `v` at the even places.
std::uint32_t spread_bits(std::uint32_t v) {
  v = (v | v << 8) & 0x00ff00ffU;
  v = (v | v << 4) & 0x0f0f0f0fU;
  v = (v | v << 2) & 0x33333333U;
  return (v | v << 1) & 0x55555555U;
}

/// As CGAL::Delaunay_mesh_size_criteria_2, with h(centroid) for its constant size, and cell by
/// cell.
///
/// The order makes CGAL more than ten times as fast (docs/results/mesh.md). It keeps its bad faces
/// in two trees; with the largest face of the whole sea first they hold a face in two, and each
/// search in them misses the cache at each level. When a cell of 8 h_min is finished before the
/// next, they hold a few hundred.
class criteria {
public:
  criteria(const size_field& sizes, const point& low) : is_bad_(&sizes, low, 1 / (8 * sizes.sizes().h_min)) {}

  struct Quality {
    double sine = 1, size = 0; ///< sin^2 of the smallest angle; (longest edge / h)^2
    std::uint32_t cell = 0;    ///< Morton code of where it lies
    bool operator<(const Quality& q) const {
      if (cell != q.cell) return cell < q.cell;
      if (size > 1) return q.size <= 1 || size > q.size;
      return q.size <= 1 && sine < q.sine;
    }
  };

  class Is_bad {
  public:
    Is_bad(const size_field* sizes, const point& low, double cells_per_km)
        : sizes_(sizes), low_(low), cells_per_km_(cells_per_km) {}
    CGAL::Mesh_2::Face_badness operator()(const Quality& q) const {
      if (q.size > 1) return CGAL::Mesh_2::IMPERATIVELY_BAD;
      return q.sine < bound ? CGAL::Mesh_2::BAD : CGAL::Mesh_2::NOT_BAD;
    }
    CGAL::Mesh_2::Face_badness operator()(const triangulation::Face_handle& f, Quality& q) const {
      const auto &a = f->vertex(0)->point(), &b = f->vertex(1)->point(), &c = f->vertex(2)->point();
      double la = CGAL::squared_distance(b, c), lb = CGAL::squared_distance(a, c), lc = CGAL::squared_distance(a, b);
      double longest = std::max({la, lb, lc}), shortest = std::min({la, lb, lc});
      const double x = (a.x() + b.x() + c.x()) / 3, y = (a.y() + b.y() + c.y()) / 3;
      q.cell = spread_bits(column(x - low_.x)) | spread_bits(column(y - low_.y)) << 1;
      const double h = sizes_->h(x, y);
      q.size = longest / (h * h);
      if (q.size > 1) {
        q.sine = 1;
        return CGAL::Mesh_2::IMPERATIVELY_BAD;
      }
      double twice = (b.x() - a.x()) * (c.y() - a.y()) - (b.y() - a.y()) * (c.x() - a.x());
      q.sine = twice * twice / (longest * (la + lb + lc - longest - shortest));
      return q.sine < bound ? CGAL::Mesh_2::BAD : CGAL::Mesh_2::NOT_BAD;
    }

  private:
    std::uint32_t column(double km) const {
      return static_cast<std::uint32_t>(std::clamp(km * cells_per_km_, 0.0, 65535.0));
    }
    const size_field* sizes_;
    point low_;
    double cells_per_km_;
  };

  const Is_bad& is_bad_object() const { return is_bad_; }

private:
  static constexpr double bound = 0.125;
  Is_bad is_bad_;
};

} // namespace

sequential_result run_cgal(const domain& sea, const size_field& sizes) {
  auto start = std::chrono::steady_clock::now();
  std::vector<point> points;
  for (const segment& s : sea.boundary) points.insert(points.end(), {s.a, s.b});
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  auto number = [&](const point& p) {
    return static_cast<std::size_t>(std::lower_bound(points.begin(), points.end(), p) - points.begin());
  };
  std::vector<kernel::Point_2> cgal_points;
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  for (const point& p : points) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y))
      throw tern::error(tern::errc::invalid_data, "a coordinate of the coast is not finite");
    cgal_points.emplace_back(p.x, p.y);
  }
  for (const segment& s : sea.boundary) ends.emplace_back(number(s.a), number(s.b));

  triangulation t;
  try {
    t.insert_constraints(cgal_points.begin(), cgal_points.end(), ends.begin(), ends.end());
  } catch (const triangulation::Intersection_of_constraints_exception&) {
    throw tern::error(tern::errc::invalid_data, "two segments of the coast cross", "repair the polygons");
  }
  // Land by the even-odd rule; CGAL's own marking needs a seed a piece of land.
  std::vector<std::pair<triangulation::Face_handle, bool>> stack{{t.infinite_face(), false}};
  CGAL::Unique_hash_map<triangulation::Face_handle, bool> seen(false);
  seen[t.infinite_face()] = true;
  while (!stack.empty()) {
    auto [f, inside] = stack.back();
    stack.pop_back();
    f->set_in_domain(inside);
    for (int i = 0; i < 3; ++i) {
      auto g = f->neighbor(i);
      if (std::exchange(seen[g], true)) continue;
      stack.emplace_back(g, inside != f->is_constrained(i));
    }
  }
  CGAL::Delaunay_mesher_2<triangulation, criteria> mesher(t, criteria(sizes, sea.low));
  mesher.init(true); // domain is marked
  mesher.refine_mesh();

  sequential_result r;
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double smallest = 1, error = 0;
  for (auto f : t.finite_face_handles()) {
    if (!f->is_in_domain()) continue;
    ++r.triangles;
    const auto &a = f->vertex(0)->point(), &b = f->vertex(1)->point(), &c = f->vertex(2)->point();
    double twice = (b.x() - a.x()) * (c.y() - a.y()) - (b.y() - a.y()) * (c.x() - a.x());
    double y = twice / 2 - error, sum = r.area + y; // Kahan's sum
    error = (sum - r.area) - y;
    r.area = sum;
    double la = CGAL::squared_distance(b, c), lb = CGAL::squared_distance(a, c), lc = CGAL::squared_distance(a, b);
    double longest = std::max({la, lb, lc}), shortest = std::min({la, lb, lc});
    smallest = std::min(smallest, twice * twice / (longest * (la + lb + lc - longest - shortest)));
  }
  r.smallest_angle = std::asin(std::sqrt(smallest)) * 57.295779513082320877;
  return r;
}

} // namespace mesh
