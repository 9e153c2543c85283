// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/refine/refine_core.hpp"

#include "apps/mesh/geometry/predicates.hpp"
#include "apps/mesh/refine/refine.hpp"

#include <tern/base/error.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace mesh {

namespace {

/// The power of two in (2/3, 4/3] of x; every positive x has one.
double nearest_power_of_two(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  return std::ldexp(1.0, mantissa <= 0.75 ? exponent - 1 : exponent);
}

} // namespace

point split_point(point p, bool p_is_apex, point q, bool q_is_apex) {
  if (q < p) {
    std::swap(p, q);
    std::swap(p_is_apex, q_is_apex);
  }
  if (p_is_apex == q_is_apex) return {(p.x + q.x) / 2, (p.y + q.y) / 2};
  double dx = q.x - p.x, dy = q.y - p.y, length = std::sqrt(dx * dx + dy * dy);
  double u = nearest_power_of_two(length / 2) / length;
  return p_is_apex ? point{p.x + dx * u, p.y + dy * u} : point{q.x - dx * u, q.y - dy * u};
}

namespace detail {

namespace {

constexpr int next(int i) { return i == 2 ? 0 : i + 1; }
constexpr int previous(int i) { return i == 0 ? 2 : i - 1; }

double distance2(const point& a, const point& b) {
  double x = b.x - a.x, y = b.y - a.y;
  return x * x + y * y;
}

/// Whether a-b is seen from p under an obtuse angle: p in the open diametral circle.
bool sees_obtuse(const point& p, const point& a, const point& b) {
  return (a.x - p.x) * (b.x - p.x) + (a.y - p.y) * (b.y - p.y) < 0;
}

/// Exact sign by a floating-point filter (Shewchuk 1997, error bound A), then exact arithmetic.
inline bool in_circle(const point& a, const point& b, const point& c, const point& d) {
  double ax = a.x - d.x, ay = a.y - d.y, bx = b.x - d.x, by = b.y - d.y, cx = c.x - d.x, cy = c.y - d.y;
  double bxcy = bx * cy, cxby = cx * by, cxay = cx * ay, axcy = ax * cy, axby = ax * by, bxay = bx * ay;
  double a2 = ax * ax + ay * ay, b2 = bx * bx + by * by, c2 = cx * cx + cy * cy;
  double det = a2 * (bxcy - cxby) + b2 * (cxay - axcy) + c2 * (axby - bxay);
  double permanent = (std::fabs(bxcy) + std::fabs(cxby)) * a2 + (std::fabs(cxay) + std::fabs(axcy)) * b2 +
                     (std::fabs(axby) + std::fabs(bxay)) * c2;
  double bound = 1.2e-15 * permanent;
  if (det > bound) return true;
  if (det < -bound) return false;
  return in_circle_exact(a, b, c, d) > 0;
}

} // namespace

void core::fail(const std::string& what, const point& where) const {
  double shortest = 1e300;
  point at;
  for (const core_face& f : faces)
    for (int i = 0; i < 3; ++i) {
      double d = distance2(points[f.v[i]], points[f.v[next(i)]]);
      if (d < shortest) {
        shortest = d;
        at = points[f.v[i]];
      }
    }
  char text[400];
  std::snprintf(
      text, sizeof text,
      "%s: %s near (%.6f, %.6f) km; %zu triangles, shortest edge %.3g km near (%.6f, %.6f) km, h there %.3g km",
      name_.c_str(), what.c_str(), where.x, where.y, faces.size(), std::sqrt(shortest), at.x, at.y,
      factor * sizes_->h(at));
  throw tern::error(tern::errc::internal, text, "try another h_min, or look at the coast at that place");
}

void core::build() {
  struct half_edge {
    std::int32_t low, high, handle; // handle < 0: ~segment
    bool operator<(const half_edge& o) const {
      return low != o.low ? low < o.low : high != o.high ? high < o.high : handle < o.handle;
    }
  };
  auto bad = [&](const char* what) {
    throw tern::error(tern::errc::invalid_data, name_ + ": its triangulation is none: " + what);
  };
  auto known = [&](std::int32_t v) { return v >= 0 && static_cast<std::size_t>(v) < points.size(); };
  for (const point& p : points)
    if (!std::isfinite(p.x) || !std::isfinite(p.y)) bad("a coordinate is not finite");
  std::vector<half_edge> edges;
  edges.reserve(faces.size() * 3 + segments.size());
  for (std::size_t f = 0; f < faces.size(); ++f) {
    const auto& v = faces[f].v;
    if (!known(v[0]) || !known(v[1]) || !known(v[2])) bad("a vertex number is out of range");
    if (orient2d(points[v[0]], points[v[1]], points[v[2]]) <= 0) bad("a triangle is not counterclockwise");
    for (int i = 0; i < 3; ++i) {
      auto [low, high] = std::minmax(v[next(i)], v[previous(i)]);
      edges.push_back({low, high, static_cast<std::int32_t>(4 * f) + i});
    }
  }
  for (std::size_t s = 0; s < segments.size(); ++s) {
    auto [low, high] = std::minmax(segments[s].a, segments[s].b);
    edges.push_back({low, high, ~static_cast<std::int32_t>(s)});
  }
  std::sort(edges.begin(), edges.end());
  if (edges.size() % 2 != 0) bad("an edge lacks a triangle or segment");
  for (std::size_t k = 0; k < edges.size(); k += 2) {
    const half_edge &first = edges[k],
                    &second = edges[k + 1]; // the segment, if any, comes first: its handle is negative
    if (first.low != second.low || first.high != second.high) bad("an edge lacks a triangle or segment");
    std::int32_t h = second.handle;
    if (h < 0) bad("two segments are equal");
    core_face& f = faces[h >> 2];
    f.n[h & 3] = first.handle;
    if (first.handle < 0) {
      core_segment& s = segments[~first.handle];
      s.edge = h;
      s.a = f.v[next(h & 3)]; // the outline runs counterclockwise around its face
      s.b = f.v[previous(h & 3)];
    } else {
      core_face& g = faces[first.handle >> 2];
      g.n[first.handle & 3] = h;
      if (g.v[next(first.handle & 3)] != f.v[previous(h & 3)]) bad("two triangles lie on one side of their edge");
    }
  }
}

double core::sine2(const core_face& f, int& corner) const {
  const point &a = points[f.v[0]], &b = points[f.v[1]], &c = points[f.v[2]];
  double l[3] = {distance2(b, c), distance2(c, a), distance2(a, b)};
  corner = static_cast<int>(std::min_element(l, l + 3) - l); // the smallest angle is opposite the shortest edge
  double cross = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
  return cross * cross / (l[next(corner)] * l[previous(corner)]);
}

/// Shewchuk's rule for small input angles (Triangle; "Delaunay refinement", 2002, section 6): a
/// thin face whose shortest edge joins two segments of a sharp joint at equal distance from it
/// cannot be improved.
bool core::excused_shell(std::int32_t u, std::int32_t v) const {
  std::uint32_t first = vertices[u].origin, second = vertices[v].origin;
  if (joints.empty() || first == core_no_origin || second == core_no_origin || first == second) return false;
  if (second < first) std::swap(first, second);
  auto j = std::lower_bound(joints.begin(), joints.end(), std::pair(first, second),
                            [](const core_joint& x, auto key) { return std::pair(x.first, x.second) < key; });
  for (; j != joints.end() && j->first == first && j->second == second; ++j) {
    double du = distance2(points[u], j->where), dv = distance2(points[v], j->where);
    if (std::fabs(du - dv) < 2e-3 * (du + dv) / 2) return true;
  }
  return false;
}

/// A thin face is excused by the rule above, or if its smallest angle lies between two segments.
/// That angle is fixed by the input or, where no segment of the input is sharp, by the coarse
/// mesh (where it is then at least 20.7 degrees).
bool core::excused(const core_face& f) const {
  int corner = 0;
  sine2(f, corner);
  if (f.n[next(corner)] < 0 && f.n[previous(corner)] < 0) return true;
  return excused_shell(f.v[next(corner)], f.v[previous(corner)]);
}

/// The bucket of a bad face, -1 if it is good. a2, b2, c2 are the squared edges opposite v[0],
/// v[1], v[2].
int core::badness(std::int32_t face, double a2, double b2, double c2, double cross) const {
  const core_face& f = faces[face];
  double longest = std::max(a2, std::max(b2, c2));
  double smallest_h = sizes_->sizes().h_min * factor;
  if (longest > smallest_h * smallest_h) {
    const point &a = points[f.v[0]], &b = points[f.v[1]], &c = points[f.v[2]];
    double h = factor * sizes_->h((a.x + b.x + c.x) / 3, (a.y + b.y + c.y) / 3);
    double ratio = longest / (h * h);
    if (ratio > 1) {
      // Its exponent and two bits of its mantissa: quarter octaves. Coarser buckets cost up to 4 %
      // more triangles; finer ones, or first in first out, save 1 % and are slower.
      auto quarters = static_cast<int>(std::bit_cast<std::uint64_t>(ratio) >> 50) - 4 * 1023;
      return skinny_buckets + std::min(quarters, size_buckets - 1);
    }
  }
  double shortest = std::min(a2, std::min(b2, c2));
  double others = longest * (a2 + b2 + c2 - longest - shortest);
  double square = cross * cross;
  if (square >= quality_bound * others) return -1;
  if (shortest < give_up_below * give_up_below || excused(f)) return -1;
  return skinny_buckets - 1 - static_cast<int>(square / others * (skinny_buckets / quality_bound));
}

void core::queue_if_bad(std::int32_t face, double a2, double b2, double c2, double cross) {
  int bucket = badness(face, a2, b2, c2, cross);
  if (bucket < 0) return;
  buckets_[bucket].push_back({face, faces[face].v[0]});
  top_ = std::max(top_, bucket);
}

void core::queue_all() {
  for (std::size_t s = 0; s < segments.size(); ++s)
    if (encroached(segments[s])) encroached_.push_back(static_cast<std::int32_t>(s));
  for (std::size_t k = 0; k < faces.size(); ++k) {
    const core_face& f = faces[k];
    const point &a = points[f.v[0]], &b = points[f.v[1]], &c = points[f.v[2]];
    double cross = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
    queue_if_bad(static_cast<std::int32_t>(k), distance2(b, c), distance2(c, a), distance2(a, b), cross);
  }
}

bool core::encroached(const core_segment& s) const {
  return sees_obtuse(points[faces[s.edge >> 2].v[s.edge & 3]], points[s.a], points[s.b]);
}

/// Grows the cavity of p (Bowyer 1981, Watson 1981) from the edges on the stack. The rim comes out
/// counterclockwise, because of the order in which edges are pushed. No face is met twice: the
/// cavity's dual is a tree, or a vertex would lie inside it.
void core::spread(const point& p) {
  while (!stack_.empty()) {
    std::int32_t h = stack_.back();
    stack_.pop_back();
    const core_face& f = faces[h >> 2];
    int i = h & 3;
    std::int32_t across = f.n[i];
    if (across >= 0) {
      const core_face& g = faces[across >> 2];
      if (in_circle(points[g.v[0]], points[g.v[1]], points[g.v[2]], p)) {
        if (cavity_.size() > 100000) fail("a cavity grew without end", p);
        cavity_.push_back(across >> 2);
        std::int32_t base = across & ~3, j = across & 3;
        stack_.push_back(base + previous(j));
        stack_.push_back(base + next(j));
        continue;
      }
    }
    rim_.push_back({f.v[next(i)], f.v[previous(i)], across, 0, 0});
  }
}

/// Areas of the faces to be. \return false if one of them would not be counterclockwise: p does not
/// see its edge.
bool core::measure_rim(const point& p, const point& end) {
  for (rim_edge& e : rim_) {
    const point &a = points[e.a], &b = points[e.b];
    double ax = a.x - p.x, ay = a.y - p.y, bx = b.x - p.x, by = b.y - p.y;
    double left = ax * by, right = ay * bx;
    e.cross = left - right;
    e.spoke2 = ax * ax + ay * ay;
    if (!(e.cross > 4e-16 * (std::fabs(left) + std::fabs(right))) && orient2d(p, a, b) <= 0) return false;
  }
  rim_.push_back({-1, -1, -1, 0, distance2(end, p)}); // so that rim_[k + 1].spoke2 is always there
  return true;
}

std::int32_t core::new_face_slot(std::size_t k) {
  if (k < cavity_.size()) return cavity_[k];
  if (faces.size() >= (1U << 29)) fail("more than 2^29 triangles in one group", points.back());
  faces.emplace_back();
  cavity_.push_back(static_cast<std::int32_t>(faces.size() - 1));
  return cavity_.back();
}

void core::set_outer(std::int32_t outer, std::int32_t handle) {
  if (outer >= 0) {
    faces[outer >> 2].n[outer & 3] = handle;
  } else {
    segments[~outer].edge = handle;
  }
}

void core::check_cap(const point& where) {
  if (static_cast<double>(++insertions) > cap)
    fail("refinement did not end after " + std::to_string(insertions - 1) + " insertions", where);
}

/// Replaces the cavity by a star of faces around p; the rim is closed and p sees all of it.
void core::insert_inside(const point& p) {
  check_cap(p);
  auto v = static_cast<std::int32_t>(points.size());
  points.push_back(p);
  vertices.push_back({0, core_no_origin});
  std::size_t count = rim_.size() - 1;
  for (std::size_t k = 0; k < count; ++k) new_face_slot(k);
  for (std::size_t k = 0; k < count; ++k) {
    const rim_edge& e = rim_[k];
    std::int32_t slot = cavity_[k], after = cavity_[k + 1 == count ? 0 : k + 1],
                 before = cavity_[k == 0 ? count - 1 : k - 1];
    faces[slot] = {{v, e.a, e.b}, {e.outer, 4 * after + 2, 4 * before + 1}};
    set_outer(e.outer, 4 * slot);
  }
  for (std::size_t k = 0; k < count; ++k) {
    const rim_edge& e = rim_[k];
    queue_if_bad(cavity_[k], distance2(points[e.a], points[e.b]), rim_[k + 1].spoke2, e.spoke2, e.cross);
  }
}

std::int32_t core::split_segment(std::int32_t segment) {
  const core_segment& s = segments[segment];
  return split_segment_at(segment,
                          split_point(points[s.a], vertices[s.a].apex != 0, points[s.b], vertices[s.b].apex != 0));
}

std::int32_t core::split_segment_at(std::int32_t segment, const point& p) {
  const core_segment s = segments[segment];
  check_cap(p);
  const point low = std::min(points[s.a], points[s.b]), high = std::max(points[s.a], points[s.b]);
  double shortest = 1e-9 * factor * sizes_->h(p);
  if (!(distance2(low, high) > shortest * shortest) || p == low || p == high || !std::isfinite(p.x) ||
      !std::isfinite(p.y))
    fail("a segment would become too short to be split", p);
  std::int32_t face = s.edge >> 2, i = s.edge & 3;
  cavity_.assign(1, face);
  rim_.clear();
  stack_.assign({4 * face + previous(i), 4 * face + next(i)});
  spread(p);
  if (!measure_rim(p, points[s.a])) {
    // p is off the segment by a rounding error, which can matter only where faces are as flat as
    // that
    cavity_.assign(1, face);
    const core_face& f = faces[face];
    rim_ = {{f.v[previous(i)], f.v[i], f.n[next(i)], 0, 0}, {f.v[i], f.v[next(i)], f.n[previous(i)], 0, 0}};
    if (!measure_rim(p, points[s.a])) fail("a triangle is too flat to split its edge", p);
  }
  auto v = static_cast<std::int32_t>(points.size());
  auto second = static_cast<std::int32_t>(segments.size());
  points.push_back(p);
  vertices.push_back({0, s.origin & core_no_origin}); // -1 becomes core_no_origin
  std::size_t count = rim_.size() - 1;
  for (std::size_t k = 0; k < count; ++k) new_face_slot(k);
  for (std::size_t k = 0; k < count; ++k) {
    const rim_edge& e = rim_[k];
    std::int32_t slot = cavity_[k];
    faces[slot] = {
        {v, e.a, e.b},
        {e.outer, k + 1 == count ? ~segment : 4 * cavity_[k + 1] + 2, k == 0 ? ~second : 4 * cavity_[k - 1] + 1}};
    set_outer(e.outer, 4 * slot);
  }
  segments[segment] = {s.a, v, 4 * cavity_[count - 1] + 1, s.tag, s.origin};
  segments.push_back({v, s.b, 4 * cavity_[0] + 2, s.tag, s.origin});
  if (s.tag >= 0) split_log.push_back({low, high, segment, second});
  for (std::int32_t half : {segment, second})
    if (encroached(segments[half])) encroached_.push_back(half);
  for (std::size_t k = 0; k < count; ++k) {
    const rim_edge& e = rim_[k];
    if (e.outer < 0 && encroached(segments[~e.outer])) encroached_.push_back(~e.outer);
    queue_if_bad(cavity_[k], distance2(points[e.a], points[e.b]), rim_[k + 1].spoke2, e.spoke2, e.cross);
  }
  return v;
}

/// The circumcentre. (Off-centres, A. Uengoer 2004, were tried and save less than 0.1 %: few faces
/// are thin here.)
bool core::steiner_point(const core_face& f, point& result) const {
  const point &a = points[f.v[0]], &b = points[f.v[1]], &c = points[f.v[2]];
  double bx = b.x - a.x, by = b.y - a.y, cx = c.x - a.x, cy = c.y - a.y;
  double b2 = bx * bx + by * by, c2 = cx * cx + cy * cy, scale = 0.5 / (bx * cy - by * cx);
  result = {a.x + (cy * b2 - by * c2) * scale, a.y + (bx * c2 - cx * b2) * scale};
  return std::isfinite(result.x) && std::isfinite(result.y);
}

bool core::splittable(const core_segment& s) const {
  return give_up_below == 0 || distance2(points[s.a], points[s.b]) >= give_up_below * give_up_below;
}

/// Ruppert's step: the Steiner point goes in unless it lies in a segment's diametral circle (or
/// beyond the segment); then the segment is split instead. The face's own circle contains the
/// point, so its cavity can be grown from the face and no point location is needed: were the point
/// not in the cavity, a segment would be in between, on the rim.
void core::try_face(std::int32_t face, int bucket) {
  point p;
  if (!steiner_point(faces[face], p)) {
    ++given_up;
    return;
  }
  cavity_.assign(1, face);
  rim_.clear();
  stack_.assign({4 * face + 2, 4 * face + 1, 4 * face});
  spread(p);
  to_split_.clear();
  bool too_short = false;
  for (const rim_edge& e : rim_) {
    if (e.outer >= 0) continue;
    const point &a = points[e.a], &b = points[e.b];
    if (!sees_obtuse(p, a, b) && orient2d(a, b, p) > 0) continue;
    if (splittable(segments[~e.outer])) {
      to_split_.push_back(~e.outer);
    } else {
      too_short = true;
    }
  }
  if (!to_split_.empty()) {
    ++rejected;
    std::int32_t stamp = faces[face].v[0];
    for (std::size_t k = 0; k < to_split_.size(); ++k) split_segment(to_split_[k]);
    if (faces[face].v[0] == stamp) {
      buckets_[bucket].push_back({face, stamp});
      top_ = std::max(top_, bucket);
    }
  } else if (too_short || !measure_rim(p, points[rim_[0].a])) {
    ++given_up;
  } else {
    insert_inside(p);
  }
}

void core::refine() {
  while (true) {
    while (!encroached_.empty()) {
      std::int32_t s = encroached_.back();
      encroached_.pop_back();
      if (encroached(segments[s]) && splittable(segments[s])) split_segment(s);
    }
    while (top_ >= 0 && buckets_[top_].empty()) --top_;
    if (top_ < 0) return;
    int bucket = top_;
    queued q = buckets_[bucket].back();
    buckets_[bucket].pop_back();
    if (faces[q.face].v[0] == q.stamp) try_face(q.face, bucket);
  }
}

void core::compact() {
  for (auto& b : buckets_) std::vector<queued>().swap(b);
  points.shrink_to_fit();
  vertices.shrink_to_fit();
  faces.shrink_to_fit();
  segments.shrink_to_fit();
}

std::uint64_t core::bytes() const {
  std::uint64_t sum = points.capacity() * sizeof(point) + vertices.capacity() * sizeof(core_vertex) +
                      faces.capacity() * sizeof(core_face) + segments.capacity() * sizeof(core_segment);
  for (const auto& b : buckets_) sum += b.capacity() * sizeof(queued);
  return sum;
}

} // namespace detail
} // namespace mesh
