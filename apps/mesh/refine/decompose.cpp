// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/refine/decompose.hpp"

#include "apps/mesh/refine/refine_core.hpp"

#include <CGAL/Constrained_Delaunay_triangulation_2.h>
#include <CGAL/Exact_predicates_inexact_constructions_kernel.h>
#include <CGAL/Triangulation_face_base_with_info_2.h>
#include <CGAL/Triangulation_vertex_base_with_info_2.h>

#include <tern/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <tuple>

namespace mesh {

namespace {

using kernel = CGAL::Exact_predicates_inexact_constructions_kernel;

} // namespace

int detail::in_circle_exact(const point& a, const point& b, const point& c, const point& d) {
  using p = kernel::Point_2;
  return CGAL::side_of_oriented_circle(p(a.x, a.y), p(b.x, b.y), p(c.x, c.y), p(d.x, d.y));
}

namespace {

using vertex_base = CGAL::Triangulation_vertex_base_with_info_2<std::int32_t, kernel>;
using face_base = CGAL::Triangulation_face_base_with_info_2<std::int32_t, kernel,
                                                            CGAL::Constrained_triangulation_face_base_2<kernel>>;
using triangulation =
    CGAL::Constrained_Delaunay_triangulation_2<kernel, CGAL::Triangulation_data_structure_2<vertex_base, face_base>,
                                               CGAL::No_constraint_intersection_requiring_constructions_tag>;

int next(int i) { return i == 2 ? 0 : i + 1; }
int previous(int i) { return i == 0 ? 2 : i - 1; }

std::string at(const domain& sea, const point& p) {
  point d = sea.proj.to_degrees(p);
  char text[100];
  std::snprintf(text, sizeof text, "longitude %.6f, latitude %.6f", d.x, d.y);
  return text;
}

/// The sea's constrained Delaunay triangulation, as `core` wants it: segment i is
/// `sea.boundary[i]`.
void triangulate(const domain& sea, detail::core& mesh) {
  std::vector<point>& points = mesh.points;
  for (const segment& s : sea.boundary)
    for (const point& p : {s.a, s.b}) {
      if (!std::isfinite(p.x) || !std::isfinite(p.y))
        throw tern::error(tern::errc::invalid_data, "a coordinate of the coast is not finite");
      points.push_back(p);
    }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  if (points.size() < 3)
    throw tern::error(tern::errc::invalid_argument, "the sea has no outline", "choose another box");
  mesh.vertices.assign(points.size(), {0, detail::core_no_origin});
  auto number = [&](const point& p) {
    return static_cast<std::int32_t>(std::lower_bound(points.begin(), points.end(), p) - points.begin());
  };

  triangulation t;
  std::vector<kernel::Point_2> cgal_points;
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  cgal_points.reserve(points.size());
  for (const point& p : points) cgal_points.emplace_back(p.x, p.y);
  for (const segment& s : sea.boundary) ends.emplace_back(number(s.a), number(s.b));
  try {
    t.insert_constraints(cgal_points.begin(), cgal_points.end(), ends.begin(), ends.end());
  } catch (const triangulation::Intersection_of_constraints_exception&) {
    throw tern::error(tern::errc::invalid_data, "two segments of the coast cross", "repair the polygons");
  }
  for (auto v : t.finite_vertex_handles()) v->info() = number({v->point().x(), v->point().y()});

  // Even-odd rule, from outside in.
  constexpr std::int32_t unseen = -3, outside = -2;
  for (auto f : t.all_face_handles()) f->info() = unseen;
  std::vector<triangulation::Face_handle> stack{t.infinite_face()};
  t.infinite_face()->info() = outside;
  while (!stack.empty()) {
    auto f = stack.back();
    stack.pop_back();
    for (int i = 0; i < 3; ++i) {
      auto g = f->neighbor(i);
      bool inside = (f->info() != outside) != f->is_constrained(i);
      if (g->info() == unseen) {
        g->info() = inside ? 0 : outside;
        stack.push_back(g);
      } else if ((g->info() != outside) != inside) {
        auto p = f->vertex(next(i))->point();
        throw tern::error(tern::errc::invalid_data, "the coast is not closed near " + at(sea, {p.x(), p.y()}));
      }
    }
  }

  std::vector<std::tuple<std::int32_t, std::int32_t, std::uint32_t>> known; // ends of segments, for their numbers
  for (std::size_t s = 0; s < ends.size(); ++s) {
    auto [low, high] = std::minmax(ends[s].first, ends[s].second);
    known.emplace_back(low, high, s);
  }
  std::sort(known.begin(), known.end());
  for (auto f : t.finite_face_handles()) {
    if (f->info() == outside) continue;
    mesh.faces.push_back({{f->vertex(0)->info(), f->vertex(1)->info(), f->vertex(2)->info()}, {}});
    for (int i = 0; i < 3; ++i) {
      if (!f->is_constrained(i)) continue;
      std::int32_t a = f->vertex(next(i))->info(), b = f->vertex(previous(i))->info();
      auto [low, high] = std::minmax(a, b);
      auto k = std::lower_bound(known.begin(), known.end(), std::tuple(low, high, 0U));
      if (k == known.end() || std::get<0>(*k) != low || std::get<1>(*k) != high)
        throw tern::error(tern::errc::invalid_data, "segments of the coast overlap near " + at(sea, points[low]));
      mesh.segments.push_back({a, b, -1, -1, std::get<2>(*k)});
    }
  }
  if (mesh.faces.empty()) throw tern::error(tern::errc::invalid_argument, "there is no sea", "choose another box");
  mesh.build();
}

/// Visits each wedge between two constrained edges that follow each other around a vertex, with sea
/// in between.
/// \param constrained whether an edge, given as 4 * face + index, is. \param visit gets the edge
/// that leaves the vertex on
///   the wedge's right, the edge that arrives on its left, and the angle in degrees.
template <class Constrained, class Visit>
void for_each_wedge(const detail::core& mesh, Constrained constrained, Visit visit) {
  auto count = static_cast<std::int32_t>(mesh.faces.size());
  for (std::int32_t f = 0; f < count; ++f)
    for (int i = 0; i < 3; ++i) {
      if (!constrained(4 * f + i)) continue;
      std::int32_t v = mesh.faces[f].v[next(i)], h = 4 * f + i;
      const point& p = mesh.points[v];
      double angle = 0;
      while (true) { // h leaves v; turn left around v to the face's edge that arrives there
        const detail::core_face& g = mesh.faces[h >> 2];
        int k = h & 3;
        const point &b = mesh.points[g.v[previous(k)]], &c = mesh.points[g.v[k]];
        double bx = b.x - p.x, by = b.y - p.y, cx = c.x - p.x, cy = c.y - p.y;
        angle += std::atan2(bx * cy - by * cx, bx * cx + by * cy) * detail::degrees_per_radian;
        std::int32_t arriving = (h & ~3) + previous(k);
        if (constrained(arriving) || angle > 361) {
          visit(4 * f + i, arriving, angle);
          break;
        }
        h = g.n[previous(k)];
      }
    }
}

/// Sharp joints of the input, and the apexes of the coarse mesh.
std::vector<sharp_joint> find_joints(detail::core& mesh) {
  std::vector<sharp_joint> joints;
  auto neighbour = [&](std::int32_t h) { return mesh.faces[h >> 2].n[h & 3]; };
  const double bound = std::asin(std::sqrt(detail::quality_bound)) * detail::degrees_per_radian;
  for_each_wedge(
      mesh, [&](std::int32_t h) { return neighbour(h) < 0; },
      [&](std::int32_t leaving, std::int32_t arriving, double angle) {
        std::int32_t v = mesh.faces[leaving >> 2].v[next(leaving & 3)];
        if (angle < 60) mesh.vertices[v].apex = 1;
        if (angle >= bound) return;
        std::uint32_t first = mesh.segments[~neighbour(leaving)].origin,
                      second = mesh.segments[~neighbour(arriving)].origin;
        joints.push_back({mesh.points[v], angle, std::min(first, second), std::max(first, second)});
      });
  std::sort(joints.begin(), joints.end(), [](const sharp_joint& a, const sharp_joint& b) {
    return std::tie(a.first, a.second, a.where) < std::tie(b.first, b.second, b.where);
  });
  for (const sharp_joint& j : joints)
    if (j.degrees < 20) mesh.joints.push_back({j.first, j.second, j.where});
  return joints;
}

std::uint64_t spread_bits(std::uint64_t x) {
  x &= 0xffffffff;
  x = (x | x << 16) & 0x0000ffff0000ffff;
  x = (x | x << 8) & 0x00ff00ff00ff00ff;
  x = (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
  x = (x | x << 2) & 0x3333333333333333;
  return (x | x << 1) & 0x5555555555555555;
}

std::uint64_t morton(const domain& sea, const point& p) {
  auto scaled = [](double x, double low, double high) {
    return static_cast<std::uint64_t>(std::clamp((x - low) / (high - low), 0.0, 1.0) * 1048575.0);
  };
  return spread_bits(scaled(p.x, sea.low.x, sea.high.x)) | spread_bits(scaled(p.y, sea.low.y, sea.high.y)) << 1;
}

/// Which group each coarse face belongs to.
struct cut {
  std::vector<std::uint32_t> order;    ///< faces, group by group
  std::vector<std::uint32_t> group;    ///< of each face
  std::vector<double> work, triangles; ///< of each group
};

/// Thin coarse faces (at the input's sharp angles) stay with their neighbours: a border along their
/// edges would meet the coast at an angle that is not the input's.
std::vector<std::uint32_t> clusters(const detail::core& mesh) {
  std::vector<std::uint32_t> parent(mesh.faces.size());
  std::iota(parent.begin(), parent.end(), 0U);
  auto root = [&](std::uint32_t f) {
    while (parent[f] != f) f = parent[f] = parent[parent[f]];
    return f;
  };
  for (std::uint32_t f = 0; f < parent.size(); ++f) {
    int corner = 0;
    if (mesh.sine2(mesh.faces[f], corner) >= detail::quality_bound) continue;
    for (std::int32_t n : mesh.faces[f].n) {
      if (n < 0) continue;
      std::uint32_t a = root(f), b = root(static_cast<std::uint32_t>(n >> 2));
      parent[std::max(a, b)] = std::min(a, b);
    }
  }
  for (std::uint32_t f = 0; f < parent.size(); ++f) parent[f] = root(f);
  return parent;
}

cut cut_groups(const domain& sea, const size_field& sizes, const detail::core& mesh, const decompose_options& options) {
  const std::size_t count = mesh.faces.size();
  std::vector<std::uint64_t> key(count);
  std::vector<double> work(count), triangles(count);
  double all = 0, all_triangles = 0;
  for (std::size_t f = 0; f < count; ++f) {
    const auto& v = mesh.faces[f].v;
    const point &a = mesh.points[v[0]], &b = mesh.points[v[1]], &c = mesh.points[v[2]];
    point centre{(a.x + b.x + c.x) / 3, (a.y + b.y + c.y) / 3};
    double area = ((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)) / 2, h = sizes.h(centre);
    triangles[f] = 2 + 5.1 * area / (h * h);
    work[f] = options.work == estimate::count ? triangles[f] : area;
    all += work[f];
    all_triangles += triangles[f];
    key[f] = morton(sea, centre);
  }
  std::size_t wanted = options.groups;
  if (wanted == 0)
    wanted = std::max({options.at_least, std::size_t{1},
                       static_cast<std::size_t>(std::llround(all_triangles / options.triangles_per_group))});

  std::vector<std::uint32_t> cluster = clusters(mesh);
  for (std::size_t f = 0; f < count; ++f)
    key[f] = key[cluster[f]]; // a cluster's root has its lowest number, so comes first
  cut result;
  result.order.resize(count);
  std::iota(result.order.begin(), result.order.end(), 0U);
  std::sort(result.order.begin(), result.order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(key[a], cluster[a], a) < std::tie(key[b], cluster[b], b);
  });
  result.group.resize(count);
  double done = 0;
  std::size_t slice = 0;
  for (std::size_t k = 0; k < count; ++k) {
    std::uint32_t f = result.order[k];
    bool continues = k > 0 && cluster[f] == cluster[result.order[k - 1]];
    auto here =
        std::min(wanted - 1, static_cast<std::size_t>((done + work[f] / 2) / all * static_cast<double>(wanted)));
    if (result.work.empty() || (here > slice && !continues)) {
      slice = here;
      result.work.push_back(0);
      result.triangles.push_back(0);
    }
    result.group[f] = static_cast<std::uint32_t>(result.work.size() - 1);
    result.work.back() += work[f];
    result.triangles.back() += triangles[f];
    done += work[f];
  }
  return result;
}

} // namespace

decomposition decompose(const domain& sea, const size_field& sizes, const decompose_options& options) {
  detail::core mesh(sizes, "the coarse mesh");
  triangulate(sea, mesh);
  decomposition result;
  result.joints = find_joints(mesh);

  cut groups;
  double factor = options.coarse_factor;
  for (;; factor /= 2) {
    mesh.factor = factor;
    double h = factor * sizes.sizes().h_min;
    mesh.cap = 1e6 + 100.0 * static_cast<double>(sea.boundary.size()) + 20 * sea.area / (h * h);
    mesh.queue_all();
    mesh.refine();
    groups = cut_groups(sea, sizes, mesh, options);
    std::size_t reached = groups.work.size();
    if (options.groups == 0 ? reached >= options.at_least : reached == options.groups) break;
    if (factor < 0.8)
      throw tern::error(tern::errc::invalid_argument,
                        "the sea can be cut into " + std::to_string(reached) + " groups only, not " +
                            std::to_string(std::max(options.groups, options.at_least)),
                        "ask for fewer groups or ranks, or a smaller h_min");
  }
  result.coarse_triangles = mesh.faces.size();

  auto neighbour_group = [&](std::int32_t h) {
    std::int32_t n = mesh.faces[h >> 2].n[h & 3];
    return n < 0 ? no_neighbour : groups.group[n >> 2];
  };
  for_each_wedge(
      mesh, [&](std::int32_t h) { return neighbour_group(h) != groups.group[h >> 2]; },
      [&](std::int32_t leaving, std::int32_t, double angle) {
        if (angle < 60) mesh.vertices[mesh.faces[leaving >> 2].v[next(leaving & 3)]].apex = 1;
      });

  result.groups.resize(groups.work.size());
  std::vector<std::uint32_t> local(mesh.points.size()), owner(mesh.points.size(), no_neighbour);
  for (std::uint32_t f : groups.order) {
    std::uint32_t id = groups.group[f];
    group_definition& g = result.groups[id];
    std::uint32_t v[3];
    for (int i = 0; i < 3; ++i) {
      std::int32_t global = mesh.faces[f].v[i];
      if (owner[global] != id) {
        owner[global] = id;
        local[global] = static_cast<std::uint32_t>(g.nodes.size());
        detail::core_vertex info = mesh.vertices[global];
        g.nodes.push_back(
            {mesh.points[global], info.origin == detail::core_no_origin ? no_origin : info.origin, info.apex});
      }
      v[i] = local[global];
    }
    g.triangulation.push_back({v[0], v[1], v[2]});
    for (int i = 0; i < 3; ++i) {
      std::uint32_t other = neighbour_group(static_cast<std::int32_t>(4 * f) + i);
      if (other == id) continue;
      std::int32_t n = mesh.faces[f].n[i];
      g.pieces.push_back({v[next(i)], v[previous(i)], other, n < 0 ? mesh.segments[~n].origin : no_origin});
    }
  }
  for (std::size_t id = 0; id < result.groups.size(); ++id) {
    group_definition& g = result.groups[id];
    g.id = static_cast<std::uint32_t>(id);
    g.work = groups.work[id];
    g.triangles = groups.triangles[id];
    result.work += g.work;
    result.triangles += g.triangles;
    if (result.joints.empty()) continue;
    std::vector<std::uint32_t> origins;
    for (const coarse_piece& p : g.pieces) origins.push_back(p.origin);
    std::sort(origins.begin(), origins.end());
    for (const sharp_joint& j : result.joints)
      if (std::binary_search(origins.begin(), origins.end(), j.first) ||
          std::binary_search(origins.begin(), origins.end(), j.second))
        g.joints.push_back(j);
  }
  return result;
}

} // namespace mesh
