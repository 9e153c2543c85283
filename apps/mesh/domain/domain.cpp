// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/domain/domain.hpp"

#include "apps/mesh/geometry/predicates.hpp"
#include <tern/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <tuple>
#include <utility>

namespace mesh {
namespace {

using tern::errc;
using tern::error;

constexpr double snap_km = 1e-6;
constexpr const char* repair_hint = "repair the polygons, for example with QGIS (Fix geometries) or ogr2ogr "
                                    "-makevalid, or choose a box without this place";

/// A piece of coast of ring `ring`, land on its left.
struct edge {
  point a, b;
  std::uint32_t ring;
};

struct extent {
  point low{1e300, 1e300}, high{-1e300, -1e300};
  void add(const point& p) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
};

struct ring_info {
  extent box;
  std::size_t begin = 0, end = 0; ///< its edges that are no borders between polygons
};

enum side { west, east, south, north };

std::string at(const projection& proj, const point& p) {
  point d = proj.to_degrees(p);
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "(%.4f, %.4f)", d.x, d.y);
  return buffer;
}

class clipper {
public:
  clipper(const land_polygons& land, const bounding_box& box) : source_(land.source) {
    sea_.proj = projection(box);
    sea_.low = sea_.proj.to_km(box.west, box.south);
    sea_.high = sea_.proj.to_km(box.east, box.north);
    project(land, box);
  }

  domain result() {
    drop_borders();
    clip_coast();
    sea_.coast = sea_.boundary.size();
    add_box_edges();
    if (sea_.boundary.empty())
      throw error(errc::invalid_argument,
                  "no sea in the box between " + at(sea_.proj, sea_.low) + " and " + at(sea_.proj, sea_.high) +
                      ": it is all land in " + source_,
                  "choose a box with --bbox west,south,east,north that reaches the sea");
    refuse_crossings();
    refuse_open_ends();
    measure();
    return std::move(sea_);
  }

private:
  void project(const land_polygons& land, const bounding_box& box) {
    auto settle = [](double value, double low, double high) {
      return std::fabs(value - low) < snap_km ? low : std::fabs(value - high) < snap_km ? high : value;
    };
    for (std::size_t r = 0; r < land.rings.size(); ++r) {
      extent degrees;
      for (const auto& p : land.rings[r]) {
        if (!std::isfinite(p[0]) || !std::isfinite(p[1]))
          throw error(errc::invalid_data,
                      "ring " + std::to_string(r) + " of " + source_ + " has a coordinate that is not finite");
        degrees.add({p[0], p[1]});
      }
      if (degrees.high.x < box.west || degrees.low.x > box.east || degrees.high.y < box.south ||
          degrees.low.y > box.north)
        continue;
      std::vector<point> ring;
      ring.reserve(land.rings[r].size());
      for (const auto& p : land.rings[r]) {
        point km = sea_.proj.to_km(p[0], p[1]);
        km = {settle(km.x, sea_.low.x, sea_.high.x), settle(km.y, sea_.low.y, sea_.high.y)};
        if (ring.empty() || ring.back() != km) ring.push_back(km);
      }
      while (ring.size() > 1 && ring.front() == ring.back()) ring.pop_back();
      if (ring.size() >= 3) sea_.land.push_back(std::move(ring));
    }
  }

  /// Pieces that two polygons share in opposite directions bound no sea.
  void drop_borders() {
    std::vector<edge> all;
    for (std::uint32_t r = 0; r < sea_.land.size(); ++r) {
      const auto& ring = sea_.land[r];
      for (std::size_t i = 0; i < ring.size(); ++i) all.push_back({ring[i], ring[(i + 1) % ring.size()], r});
    }
    std::vector<std::uint32_t> order(all.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    auto ends = [&](std::uint32_t i) { return std::minmax(all[i].a, all[i].b); };
    std::sort(order.begin(), order.end(), [&](std::uint32_t i, std::uint32_t j) {
      auto s = ends(i), t = ends(j);
      return std::tie(s.first, s.second, i) < std::tie(t.first, t.second, j);
    });
    std::vector<char> keep(all.size(), 0);
    for (std::size_t first = 0; first < order.size();) {
      std::size_t last = first;
      int balance = 0;
      for (; last < order.size() && ends(order[last]) == ends(order[first]); ++last)
        balance += all[order[last]].a < all[order[last]].b ? 1 : -1;
      if (std::abs(balance) > 1)
        throw error(errc::invalid_data,
                    "two polygons of " + source_ + " cover the same land at " + at(sea_.proj, all[order[first]].a) +
                        ": both have the coast from there to " + at(sea_.proj, all[order[first]].b),
                    "remove the polygon that is there twice, or dissolve the layer (QGIS: Dissolve)");
      for (std::size_t k = first; k < last && balance != 0; ++k)
        if ((all[order[k]].a < all[order[k]].b) == (balance > 0)) {
          keep[order[k]] = 1;
          break;
        }
      first = last;
    }
    rings_.resize(sea_.land.size());
    std::size_t next = 0;
    for (std::uint32_t r = 0; r < rings_.size(); ++r) {
      rings_[r].begin = edges_.size();
      for (std::size_t i = 0; i < sea_.land[r].size(); ++i, ++next) {
        rings_[r].box.add(all[next].a);
        if (keep[next]) edges_.push_back(all[next]);
      }
      rings_[r].end = edges_.size();
    }
  }

  /// The part of a segment inside the closed box, computed from its ordered ends.
  std::optional<segment> inside(point a, point b) const {
    const point &low = sea_.low, &high = sea_.high;
    bool swapped = b < a;
    if (swapped) std::swap(a, b);
    double enter = 0, leave = 1;
    point p = a, q = b;
    auto cut = [&](bool a_outside, bool b_outside, double u, point r) {
      r = {std::clamp(r.x, low.x, high.x), std::clamp(r.y, low.y, high.y)};
      for (double x : {low.x, high.x}) // no slivers at the box's corners
        for (double y : {low.y, high.y})
          if (std::fabs(r.x - x) < snap_km && std::fabs(r.y - y) < snap_km) r = {x, y};
      if (a_outside && u > enter) {
        enter = u;
        p = r;
      }
      if (b_outside && u < leave) {
        leave = u;
        q = r;
      }
    };
    auto cut_x = [&](double x, bool a_outside, bool b_outside) {
      if (a_outside == b_outside) return;
      double u = (x - a.x) / (b.x - a.x);
      cut(a_outside, b_outside, u, {x, a.y + u * (b.y - a.y)});
    };
    auto cut_y = [&](double y, bool a_outside, bool b_outside) {
      if (a_outside == b_outside) return;
      double u = (y - a.y) / (b.y - a.y);
      cut(a_outside, b_outside, u, {a.x + u * (b.x - a.x), y});
    };
    if ((a.x < low.x && b.x < low.x) || (a.x > high.x && b.x > high.x) || (a.y < low.y && b.y < low.y) ||
        (a.y > high.y && b.y > high.y))
      return {};
    cut_x(low.x, a.x < low.x, b.x < low.x);
    cut_x(high.x, a.x > high.x, b.x > high.x);
    cut_y(low.y, a.y < low.y, b.y < low.y);
    cut_y(high.y, a.y > high.y, b.y > high.y);
    if (!(enter < leave) || p == q) return {};
    return swapped ? segment{q, p} : segment{p, q};
  }

  double line(int s) const {
    return s == west ? sea_.low.x : s == east ? sea_.high.x : s == south ? sea_.low.y : sea_.high.y;
  }
  static double across(int s, const point& p) { return s <= east ? p.x : p.y; }
  static double along(int s, const point& p) { return s <= east ? p.y : p.x; }

  void clip_coast() {
    sides_of_coast_.clear();
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      auto piece = inside(edges_[i].a, edges_[i].b);
      if (!piece) continue;
      bool on_line = false;
      for (int s = west; s <= north; ++s)
        for (const point& p : {piece->a, piece->b})
          if (across(s, p) == line(s)) {
            cuts_[s].push_back(along(s, p));
            on_line |= across(s, piece->a) == line(s) && across(s, piece->b) == line(s);
          }
      if (on_line) continue; // along the box: the box's own edge stands for it, where there is sea on the inner side
      sea_.boundary.push_back(*piece);
      sides_of_coast_.push_back(i);
    }
  }

  /// Whether a ray from `p` crosses the edge. The ray starts a hair's breadth beyond `p`, so that
  /// what runs along the line through `p` across the ray is behind it.
  static bool crosses(const edge& e, const point& p, int towards) {
    bool horizontal = towards <= east;
    double pa = horizontal ? p.y : p.x;
    double ea = horizontal ? e.a.y : e.a.x, eb = horizontal ? e.b.y : e.b.x;
    if ((ea > pa) == (eb > pa)) return false;
    int turn = ea < eb ? orient2d(e.a, e.b, p) : orient2d(e.b, e.a, p);
    return towards == east || towards == south ? turn > 0 : turn < 0;
  }

  bool odd(const point& p, int towards, std::size_t skip) const {
    bool result = false;
    for (const auto& r : rings_) {
      bool misses = towards <= east ? p.y < r.box.low.y || p.y > r.box.high.y : p.x < r.box.low.x || p.x > r.box.high.x;
      misses |= (towards == east && r.box.high.x < p.x) || (towards == west && r.box.low.x > p.x) ||
                (towards == north && r.box.high.y < p.y) || (towards == south && r.box.low.y > p.y);
      if (misses) continue;
      for (std::size_t i = r.begin; i < r.end; ++i)
        if (i != skip && crosses(edges_[i], p, towards)) result = !result;
    }
    return result;
  }

  void add_box_edges() {
    const point &low = sea_.low, &high = sea_.high;
    constexpr int inwards[] = {east, west, north, south};
    for (int s : {south, east, north, west}) {
      auto& cuts = cuts_[s];
      cuts.push_back(s <= east ? low.y : low.x);
      cuts.push_back(s <= east ? high.y : high.x);
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      auto on_side = [&](double value) { return s <= east ? point{line(s), value} : point{value, line(s)}; };
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        if (odd(on_side(cuts[i] + (cuts[i + 1] - cuts[i]) / 2), inwards[s], edges_.size())) continue;
        point from = on_side(cuts[i]), to = on_side(cuts[i + 1]);
        if (s == north || s == west) std::swap(from, to); // counterclockwise: sea on the left
        sea_.boundary.push_back({from, to});
      }
    }
  }

  void refuse_crossings() const {
    crossing found;
    if (!find_crossing(sea_.boundary, found)) return;
    auto name = [&](std::size_t i) {
      return at(sea_.proj, sea_.boundary[i].a) + " to " + at(sea_.proj, sea_.boundary[i].b) +
             (i < sea_.coast ? "" : " (edge of the box)");
    };
    throw error(errc::invalid_data,
                "polygons of " + source_ + " cross themselves or each other at longitude, latitude " +
                    at(sea_.proj, found.where) + ": the segments " + name(found.first) + " and " + name(found.second) +
                    " meet",
                repair_hint);
  }

  /// Rounding at the box's edge could leave a piece of it on the wrong side: then an odd number of
  /// segments meets somewhere.
  void refuse_open_ends() const {
    std::vector<point> ends;
    for (const auto& s : sea_.boundary) ends.insert(ends.end(), {s.a, s.b});
    std::sort(ends.begin(), ends.end());
    for (std::size_t first = 0; first < ends.size();) {
      std::size_t last = first;
      while (last < ends.size() && ends[last] == ends[first]) ++last;
      if ((last - first) % 2)
        throw error(errc::invalid_data, "the boundary of the sea does not close at " + at(sea_.proj, ends[first]),
                    "coasts meet the box's edge within a rounding error there: move the box a little");
      first = last;
    }
  }

  /// Whether a ring's inside is land: by its coast in the box where it has one, else by its role in
  /// the file.
  std::vector<int> signs() const {
    std::vector<int> result(rings_.size(), 0);
    for (std::size_t i : sides_of_coast_) {
      const edge& e = edges_[i];
      if (result[e.ring]) continue;
      point middle{e.a.x + (e.b.x - e.a.x) / 2, e.a.y + (e.b.y - e.a.y) / 2};
      bool steep = std::fabs(e.b.y - e.a.y) >= std::fabs(e.b.x - e.a.x);
      bool left_is_ahead = steep ? e.b.y < e.a.y : e.b.x > e.a.x;
      result[e.ring] = odd(middle, steep ? east : north, i) == left_is_ahead ? 1 : -1;
    }
    for (int& value : result)
      if (!value) value = 1;
    return result;
  }

  /// Twice the signed area of a ring's part inside the box (Sutherland and Hodgman, 1974).
  long double twice_clipped(std::vector<point> ring) const {
    std::vector<point> clipped;
    for (int s = west; s <= north && !ring.empty(); ++s) {
      double limit = line(s), inner = s == west || s == south ? 1 : -1;
      clipped.clear();
      for (std::size_t i = 0; i < ring.size(); ++i) {
        const point &p = ring[i], &q = ring[(i + 1) % ring.size()];
        double dp = inner * (across(s, p) - limit), dq = inner * (across(s, q) - limit);
        if (dp >= 0) clipped.push_back(p);
        if ((dp >= 0) == (dq >= 0)) continue;
        double u = (limit - across(s, p)) / (across(s, q) - across(s, p));
        clipped.push_back(s <= east ? point{limit, p.y + u * (q.y - p.y)} : point{p.x + u * (q.x - p.x), limit});
      }
      ring.swap(clipped);
    }
    long double twice = 0;
    for (std::size_t i = 0; i < ring.size(); ++i) twice += cross(ring[i], ring[(i + 1) % ring.size()]);
    return twice;
  }

  static long double cross(const point& p, const point& q) {
    return static_cast<long double>(p.x) * q.y - static_cast<long double>(p.y) * q.x;
  }

  void measure() {
    const long double whole =
        static_cast<long double>(sea_.high.x - sea_.low.x) * static_cast<long double>(sea_.high.y - sea_.low.y);
    const auto sign = signs();
    long double land = 0, around = 0;
    for (std::size_t r = 0; r < rings_.size(); ++r) land += sign[r] * twice_clipped(sea_.land[r]) / 2;
    for (std::size_t i = 0; i < sea_.coast; ++i)
      around -= sign[edges_[sides_of_coast_[i]].ring] * cross(sea_.boundary[i].a, sea_.boundary[i].b) / 2;
    for (std::size_t i = sea_.coast; i < sea_.boundary.size(); ++i)
      around += cross(sea_.boundary[i].a, sea_.boundary[i].b) / 2;
    sea_.area = static_cast<double>(whole - land);
    if (!(sea_.area > 0) || std::fabs(sea_.area - static_cast<double>(around)) > 1e-9 * static_cast<double>(whole)) {
      char buffer[160];
      std::snprintf(buffer, sizeof buffer,
                    "the polygons' areas leave %.6f km2 of sea in the box, their outline %.6f km2", sea_.area,
                    static_cast<double>(around));
      throw error(errc::invalid_data, "polygons of " + source_ + " overlap: " + buffer, repair_hint);
    }
  }

  std::string source_;
  domain sea_;
  std::vector<edge> edges_; ///< of all rings, without borders between polygons
  std::vector<ring_info> rings_;
  std::vector<std::size_t> sides_of_coast_; ///< for each coast segment of the boundary, its edge
  std::vector<double> cuts_[4];             ///< for each side, where coast meets it
};

} // namespace

domain make_domain(const land_polygons& land, const bounding_box& box) { return clipper(land, box).result(); }

} // namespace mesh
