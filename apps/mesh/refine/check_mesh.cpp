// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/refine/check_mesh.hpp"

#include "apps/mesh/geometry/predicates.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <unordered_map>

namespace mesh {

namespace {

struct point_hash {
  std::size_t operator()(const point& p) const {
    auto mix = [](std::uint64_t x) {
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
      return x ^ (x >> 31);
    };
    return mix(mix(std::bit_cast<std::uint64_t>(p.x + 0.0)) + std::bit_cast<std::uint64_t>(p.y + 0.0));
  }
};

double edge_length(const point& a, const point& b) { return std::hypot(b.x - a.x, b.y - a.y); }

struct sum_of {
  double sum = 0, error = 0;
  void operator+=(double x) {
    double t = sum + x;
    error += std::fabs(sum) >= std::fabs(x) ? (sum - t) + x : (x - t) + sum;
    sum = t;
  }
  double value() const { return sum + error; }
};

/// Segments in the cells of a grid that their boxes touch, to find those near a point.
class segment_grid {
public:
  explicit segment_grid(const domain& sea) : sea_(&sea) {
    double total = 1e-9;
    for (const segment& s : sea.boundary) total += edge_length(s.a, s.b);
    auto n = static_cast<double>(std::max<std::size_t>(1, sea.boundary.size()));
    cell_ = std::max(total / n, std::max(sea.high.x - sea.low.x, sea.high.y - sea.low.y) / 2000);
    for (std::size_t k = 0; k < sea.boundary.size(); ++k) {
      const segment& s = sea.boundary[k];
      auto [x0, x1] = std::minmax(s.a.x, s.b.x);
      auto [y0, y1] = std::minmax(s.a.y, s.b.y);
      for (std::int64_t i = index(x0 - slack); i <= index(x1 + slack); ++i)
        for (std::int64_t j = index(y0 - slack); j <= index(y1 + slack); ++j)
          cells_[key(i, j)].push_back(static_cast<std::uint32_t>(k));
    }
  }

  /// The segment on which both points lie but for rounding; -1: none. `t`, `u`: where, km from the
  /// segment's `a`.
  std::int64_t carrier(const point& p, const point& q, double& t, double& u) const {
    auto found = cells_.find(key(index((p.x + q.x) / 2), index((p.y + q.y) / 2)));
    if (found == cells_.end()) return -1;
    for (std::uint32_t k : found->second) {
      const segment& s = sea_->boundary[k];
      double l = edge_length(s.a, s.b), dx = (s.b.x - s.a.x) / l, dy = (s.b.y - s.a.y) / l;
      auto off = [&](const point& x) { return std::fabs((x.x - s.a.x) * dy - (x.y - s.a.y) * dx); };
      t = (p.x - s.a.x) * dx + (p.y - s.a.y) * dy;
      u = (q.x - s.a.x) * dx + (q.y - s.a.y) * dy;
      if (off(p) < slack && off(q) < slack && std::min(t, u) > -slack && std::max(t, u) < l + slack) return k;
    }
    return -1;
  }

private:
  static constexpr double slack = 1e-9; ///< km; coordinates are up to some 1e4 km, so rounding is about 1e-12
  std::int64_t index(double x) const { return static_cast<std::int64_t>(std::floor(x / cell_)); }
  static std::uint64_t key(std::int64_t i, std::int64_t j) {
    return static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(j);
  }
  const domain* sea_;
  double cell_ = 1;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> cells_;
};

} // namespace

mesh_check check_mesh(const domain& sea, const std::vector<extracted>& parts) {
  mesh_check r;
  std::unordered_map<point, std::uint32_t, point_hash> numbers;
  std::vector<point> points;
  struct edge {
    std::uint32_t low, high;
    bool forwards; ///< whether its triangle has it from low to high
  };
  std::vector<edge> edges;
  sum_of area;
  for (const extracted& part : parts) {
    std::vector<std::uint32_t> global;
    global.reserve(part.points.size());
    for (const point& p : part.points) {
      auto [at, added] = numbers.try_emplace(p, static_cast<std::uint32_t>(points.size()));
      if (added) points.push_back(p);
      global.push_back(at->second);
    }
    for (const auto& t : part.triangles) {
      ++r.triangles;
      const point &a = part.points.at(t[0]), &b = part.points.at(t[1]), &c = part.points.at(t[2]);
      if (orient2d(a, b, c) <= 0) ++r.flipped;
      area += ((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)) / 2;
      for (int i = 0; i < 3; ++i) {
        const point &p = part.points[t[i]], &q = part.points[t[(i + 1) % 3]], &s = part.points[t[(i + 2) % 3]];
        double x1 = q.x - p.x, y1 = q.y - p.y, x2 = s.x - p.x, y2 = s.y - p.y;
        double angle = std::atan2(x1 * y2 - y1 * x2, x1 * x2 + y1 * y2) * 57.295779513082320877;
        r.smallest_angle = std::min(r.smallest_angle, angle);
        std::uint32_t u = global[t[i]], v = global[t[(i + 1) % 3]];
        edges.push_back({std::min(u, v), std::max(u, v), u < v});
      }
    }
  }
  r.points = points.size();
  numbers.clear();
  std::sort(edges.begin(), edges.end(), [](const edge& a, const edge& b) {
    return std::tie(a.low, a.high, a.forwards) < std::tie(b.low, b.high, b.forwards);
  });

  segment_grid grid(sea);
  struct cover {
    std::int64_t segment;
    double from, to;
  };
  std::vector<cover> covers;
  sum_of outer, input;
  for (std::size_t k = 0; k < edges.size();) {
    std::size_t end = k + 1;
    while (end < edges.size() && edges[end].low == edges[k].low && edges[end].high == edges[k].high) ++end;
    if (end - k == 1) {
      ++r.outer_edges;
      const point &p = points[edges[k].low], &q = points[edges[k].high];
      outer += edge_length(p, q);
      cover c{-1, 0, 0};
      c.segment = grid.carrier(p, q, c.from, c.to);
      if (c.from > c.to) std::swap(c.from, c.to);
      if (c.segment < 0) {
        ++r.stray_edges;
      } else {
        covers.push_back(c);
      }
    } else if (end - k == 2 && edges[k].forwards != edges[k + 1].forwards) {
      ++r.inner_edges;
    } else {
      ++r.bad_edges;
    }
    k = end;
  }

  std::sort(covers.begin(), covers.end(),
            [](const cover& a, const cover& b) { return std::tie(a.segment, a.from) < std::tie(b.segment, b.from); });
  std::size_t k = 0;
  for (std::size_t s = 0; s < sea.boundary.size(); ++s) {
    double l = edge_length(sea.boundary[s].a, sea.boundary[s].b), reached = 0;
    bool gap = false;
    input += l;
    for (; k < covers.size() && covers[k].segment == static_cast<std::int64_t>(s); ++k) {
      gap = gap || std::fabs(covers[k].from - reached) > 1e-9;
      reached = covers[k].to;
    }
    if (gap || std::fabs(reached - l) > 1e-9) ++r.gaps;
  }
  r.area = area.value();
  r.area_error = std::fabs(r.area - sea.area) / sea.area;
  r.outer_length = outer.value();
  r.input_length = input.value();
  return r;
}

bool mesh_check::conforms() const {
  return triangles > 0 && bad_edges == 0 && stray_edges == 0 && gaps == 0 && flipped == 0 && area_error <= 1e-9 &&
         std::fabs(outer_length - input_length) <= 1e-9 * input_length;
}

std::string mesh_check::describe() const {
  if (conforms()) return "conforms";
  char text[400];
  std::snprintf(
      text, sizeof text,
      "does not conform: %llu triangles, %llu of them not counterclockwise; edges used more than twice or twice "
      "one way: %llu; used once inside the sea: %llu; segments of the coast not covered: %llu; area off by %.3g "
      "(relative), outline %.9f instead of %.9f km",
      static_cast<unsigned long long>(triangles), static_cast<unsigned long long>(flipped),
      static_cast<unsigned long long>(bad_edges), static_cast<unsigned long long>(stray_edges),
      static_cast<unsigned long long>(gaps), area_error, outer_length, input_length);
  return text;
}

} // namespace mesh
