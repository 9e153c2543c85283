// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/refine/refine.hpp"

#include "apps/mesh/refine/refine_core.hpp"

#include <tern/base/error.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <unordered_map>
#include <utility>

namespace mesh {

namespace {

constexpr double border_spacing = 0.7; ///< of a divided border, in h; 1.0 leaves thousands of splits to the rounds
constexpr std::size_t listed_places = 16;

double length(const point& a, const point& b) {
  double x = b.x - a.x, y = b.y - a.y;
  return std::sqrt(x * x + y * y);
}

std::uint64_t mix(std::uint64_t x) { // the finisher of splitmix64 (Steele, Lea, Flood 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint64_t mix(std::uint64_t h, const point& p) { // + 0.0: the two zeros are one coordinate
  h = mix(h + 0x9e3779b97f4a7c15U + std::bit_cast<std::uint64_t>(p.x + 0.0));
  return mix(h + 0x9e3779b97f4a7c15U + std::bit_cast<std::uint64_t>(p.y + 0.0));
}

struct split_hash {
  std::size_t operator()(const split& s) const { return mix(mix(0, s.a), s.b); }
};

/// Neumaier's compensated sum.
void add(double& sum, double& error, double x) {
  double t = sum + x;
  error += std::fabs(sum) >= std::fabs(x) ? (sum - t) + x : (x - t) + sum;
  sum = t;
}

/// Edges of spacing 1 in the metric of h between a and b.
double measure(const size_field& sizes, const point& a, const point& b, std::vector<double>* sums = nullptr) {
  constexpr int samples = 32;
  double step = length(a, b) / samples, sum = 0;
  for (int k = 0; k < samples; ++k) {
    double u = (k + 0.5) / samples;
    sum += step / (border_spacing * sizes.h(a.x + u * (b.x - a.x), a.y + u * (b.y - a.y)));
    if (sums != nullptr) sums->push_back(sum);
  }
  return sum;
}

/// The first division of a border piece p-q, p < q, the same for both groups: points between p and
/// q, in order. Long pieces are divided evenly in the metric of h, starting at apexes with a power
/// of two (see `split_point`); short ones as refinement would.
void divide(const size_field& sizes, const point& p, bool p_apex, const point& q, bool q_apex,
            std::vector<point>& out) {
  double n = measure(sizes, p, q);
  if (n < 1.3) return;
  if (n < 4) {
    point m = split_point(p, p_apex, q, q_apex);
    divide(sizes, p, p_apex, m, false, out);
    out.push_back(m);
    divide(sizes, m, false, q, q_apex, out);
    return;
  }
  double whole = length(p, q);
  auto shell = [&](const point& apex) { return std::exp2(std::floor(std::log2(0.9 * sizes.h(apex)))) / whole; };
  point a = p, b = q;
  double u = p_apex ? shell(p) : 0, v = q_apex ? shell(q) : 0;
  if (u > 0.4) u = 0;
  if (v > 0.4) v = 0;
  if (u > 0) out.push_back(a = {p.x + (q.x - p.x) * u, p.y + (q.y - p.y) * u});
  if (v > 0) b = {q.x - (q.x - p.x) * v, q.y - (q.y - p.y) * v};
  std::vector<double> sums{0};
  n = measure(sizes, a, b, &sums);
  int pieces = std::max(1, static_cast<int>(std::lround(n)));
  std::size_t k = 0;
  for (int i = 1; i < pieces; ++i) {
    double target = n * i / pieces;
    while (k + 2 < sums.size() && sums[k + 1] < target) ++k;
    double t =
        (static_cast<double>(k) + (target - sums[k]) / (sums[k + 1] - sums[k])) / static_cast<double>(sums.size() - 1);
    out.push_back({a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t});
  }
  if (v > 0) out.push_back(b);
}

} // namespace

group_statistics& group_statistics::operator+=(const group_statistics& o) {
  triangles += o.triangles;
  points += o.points;
  add(area, area_error, o.area);
  area_error += o.area_error;
  smallest_angle = std::min(smallest_angle, o.smallest_angle);
  smallest_free_angle = std::min(smallest_free_angle, o.smallest_free_angle);
  below_20_input += o.below_20_input;
  below_20_artificial += o.below_20_artificial;
  shortest_edge = std::min(shortest_edge, o.shortest_edge);
  outline_length += o.outline_length;
  border_pieces += o.border_pieces;
  border_edges += o.border_edges;
  border_hash += o.border_hash;
  splits += o.splits;
  insertions += o.insertions;
  rejected += o.rejected;
  hash += o.hash;
  bytes += o.bytes;
  seconds += o.seconds;
  places.insert(places.end(), o.places.begin(), o.places.end());
  std::sort(places.begin(), places.end(), [](const small_angle& a, const small_angle& b) {
    if (a.artificial != b.artificial) return a.artificial > b.artificial;
    return a.degrees != b.degrees ? a.degrees < b.degrees : a.where < b.where;
  });
  if (places.size() > listed_places) places.resize(listed_places);
  return *this;
}

struct group_mesh::impl {
  std::uint32_t id;
  const size_field* sizes;
  detail::core core;
  std::vector<coarse_piece> pieces; ///< emptied by refine()
  std::vector<std::uint32_t> neighbours;
  std::vector<std::vector<split>> fresh;                       ///< by neighbour: splits not taken yet
  std::unordered_map<split, std::int32_t, split_hash> borders; ///< border segments: number, or `was_split`
  std::vector<point> sharp;                                    ///< input vertices with an angle below 20 degrees
  std::uint64_t border_pieces = 0, splits = 0, peak_bytes = 0;
  double seconds = 0;
  bool refined = false;
  static constexpr std::int32_t was_split = -1;

  impl(const group_definition& d, const size_field& s)
      : id(d.id), sizes(&s), core(s, "group " + std::to_string(d.id)), pieces(d.pieces) {
    auto bad = [&](const char* what) {
      throw tern::error(tern::errc::invalid_data, "group " + std::to_string(id) + ": " + what);
    };
    if (d.triangulation.empty()) bad("no triangles");
    if (!(d.triangles >= 0) || d.triangles > 1e9) bad("its estimated number of triangles cannot be right");
    auto expected = static_cast<std::size_t>(std::min(d.triangles * 1.1, 4e6)) + 64; // the definition may be hostile
    core.points.reserve(expected * 6 / 10);
    core.vertices.reserve(expected * 6 / 10);
    core.faces.reserve(expected);
    for (const coarse_node& n : d.nodes) {
      core.points.push_back(n.where);
      core.vertices.push_back({n.apex != 0 ? 1U : 0U, n.origin & detail::core_no_origin});
    }
    auto number = [&](std::uint32_t v) {
      if (v >= d.nodes.size()) bad("a node's number is out of range");
      return static_cast<std::int32_t>(v);
    };
    double shortest = 1e300;
    for (const coarse_triangle& t : d.triangulation) {
      core.faces.push_back({{number(t.a), number(t.b), number(t.c)}, {}});
      for (auto [u, v] : {std::pair(t.a, t.b), std::pair(t.b, t.c), std::pair(t.c, t.a)})
        shortest = std::min(shortest, length(d.nodes[u].where, d.nodes[v].where));
    }
    // The coarse mesh resolves what the input demands; nothing right is a thousand times finer than
    // both it and h.
    core.give_up_below = std::min(shortest, s.sizes().h_min) / 1024;
    core.cap = 10 * d.triangles + 200 * static_cast<double>(d.triangulation.size()) + 200000;
    for (const coarse_piece& p : d.pieces) {
      core.segments.push_back({number(p.a), number(p.b), -1, -1, p.origin & detail::core_no_origin});
      if (p.neighbour == id) bad("a piece borders the group itself");
      if (p.neighbour != no_neighbour) neighbours.push_back(p.neighbour);
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    for (std::size_t k = 0; k < d.pieces.size(); ++k)
      if (d.pieces[k].neighbour != no_neighbour)
        core.segments[k].tag = static_cast<std::int32_t>(index_of(d.pieces[k].neighbour));
    fresh.resize(neighbours.size());
    for (const sharp_joint& j : d.joints) {
      if (j.degrees >= 20) continue;
      core.joints.push_back({j.first, j.second, j.where});
      sharp.push_back(j.where);
    }
    std::sort(core.joints.begin(), core.joints.end(), [](const detail::core_joint& a, const detail::core_joint& b) {
      return std::pair(a.first, a.second) < std::pair(b.first, b.second);
    });
  }

  impl(tern::input_archive& ar, const size_field& s) : id(0), sizes(&s), core(s, {}) {
    ar(id);
    core = detail::core(s, "group " + std::to_string(id));
    all(ar);
  }
  template <class A> void save(A& ar) {
    ar(id);
    all(ar);
  }
  template <class A> void all(A& ar) {
    ar(core, pieces, neighbours, fresh, borders, sharp, border_pieces, splits, peak_bytes, seconds, refined);
  }

  std::size_t index_of(std::uint32_t neighbour) const {
    auto n = std::lower_bound(neighbours.begin(), neighbours.end(), neighbour);
    if (n == neighbours.end() || *n != neighbour)
      throw tern::error(tern::errc::invalid_argument,
                        "group " + std::to_string(neighbour) + " is no neighbour of group " + std::to_string(id));
    return static_cast<std::size_t>(n - neighbours.begin());
  }

  split ends(std::int32_t segment) const {
    const auto& s = core.segments[segment];
    auto [a, b] = std::minmax(core.points[s.a], core.points[s.b]);
    return {a, b};
  }

  /// Takes note of the border segments split since the last call. \param tell whether neighbours
  /// are to hear of them.
  void note_splits(bool tell) {
    for (const detail::core_split& s : core.split_log) {
      split key{s.low, s.high};
      borders[key] = was_split;
      borders[ends(s.first)] = s.first;
      borders[ends(s.second)] = s.second;
      if (tell) fresh[core.segments[s.first].tag].push_back(key);
      ++splits;
    }
    core.split_log.clear();
  }

  void divide_border(std::int32_t segment) {
    std::int32_t a = core.segments[segment].a, b = core.segments[segment].b;
    const point p = core.points[a], q = core.points[b];
    std::vector<point> points;
    if (p < q) {
      divide(*sizes, p, core.vertices[a].apex, q, core.vertices[b].apex, points);
    } else {
      divide(*sizes, q, core.vertices[b].apex, p, core.vertices[a].apex, points);
      std::reverse(points.begin(), points.end());
    }
    for (const point& x : points) { // the second half is the new segment, and still to be divided
      borders.erase(ends(segment));
      core.split_segment_at(segment, x);
      borders[ends(segment)] = segment;
      segment = static_cast<std::int32_t>(core.segments.size() - 1);
    }
    borders[ends(segment)] = segment;
  }

  void build() {
    core.build();
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      if (pieces[k].neighbour == no_neighbour) continue;
      divide_border(static_cast<std::int32_t>(k));
      ++border_pieces;
    }
    core.split_log.clear(); // the first division is known to both sides
    std::vector<coarse_piece>().swap(pieces);
    core.queue_all();
  }

  void run_refinement() {
    core.refine();
    note_splits(true);
    peak_bytes = std::max(peak_bytes, core.bytes());
  }
};

namespace {

class stopwatch {
public:
  explicit stopwatch(double& sum) : sum_(sum) {}
  ~stopwatch() { sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

private:
  double& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace

group_mesh::group_mesh(const group_definition& definition, const size_field& sizes)
    : impl_(std::make_unique<impl>(definition, sizes)) {}
group_mesh::group_mesh(tern::input_archive& ar, const size_field& sizes) : impl_(std::make_unique<impl>(ar, sizes)) {}
group_mesh::~group_mesh() = default;
group_mesh::group_mesh(group_mesh&&) noexcept = default;
group_mesh& group_mesh::operator=(group_mesh&&) noexcept = default;

void group_mesh::refine() {
  if (impl_->refined)
    throw tern::error(tern::errc::invalid_state, "group " + std::to_string(impl_->id) + " is refined already");
  stopwatch timer(impl_->seconds);
  impl_->refined = true;
  impl_->build();
  impl_->run_refinement();
}

const std::vector<std::uint32_t>& group_mesh::neighbours() const { return impl_->neighbours; }

std::vector<split> group_mesh::take_new_splits(std::uint32_t neighbour) {
  return std::exchange(impl_->fresh[impl_->index_of(neighbour)], {});
}

std::size_t group_mesh::apply_splits(std::vector<split> from_neighbours) {
  if (from_neighbours.empty()) return 0;
  stopwatch timer(impl_->seconds);
  auto squared = [](const split& s) {
    double x = s.b.x - s.a.x, y = s.b.y - s.a.y;
    return x * x + y * y;
  };
  // Longer ones first: a segment's halves exist only after it was split.
  std::sort(from_neighbours.begin(), from_neighbours.end(), [&](const split& s, const split& t) {
    double ls = squared(s), lt = squared(t);
    if (ls != lt) return ls > lt;
    return s.a != t.a ? s.a < t.a : s.b < t.b;
  });
  std::size_t count = 0;
  for (const split& s : from_neighbours) {
    auto known = impl_->borders.find(s);
    if (known == impl_->borders.end()) {
      char text[200];
      std::snprintf(text, sizeof text,
                    "group %u has no border segment (%.17g, %.17g)-(%.17g, %.17g) km, which a neighbour split",
                    impl_->id, s.a.x, s.a.y, s.b.x, s.b.y);
      throw tern::error(tern::errc::invalid_data, text);
    }
    if (known->second == impl::was_split) continue;
    impl_->core.split_segment(known->second);
    impl_->note_splits(false);
    ++count;
  }
  impl_->run_refinement();
  return count;
}

std::uint64_t group_mesh::border_hash(std::uint32_t neighbour) const {
  auto tag = static_cast<std::int32_t>(impl_->index_of(neighbour));
  std::uint64_t sum = 0;
  for (const auto& [key, segment] : impl_->borders)
    if (segment >= 0 && impl_->core.segments[segment].tag == tag) sum += mix(mix(0, key.a), key.b);
  return sum;
}

group_statistics group_mesh::statistics() const {
  const detail::core& core = impl_->core;
  group_statistics r;
  r.triangles = core.faces.size();
  r.points = core.points.size();
  double smallest = 1, smallest_free = 1, shortest = 1e300; // the angles as sin^2, the edge squared
  const double sine_20 = std::sin(20 / detail::degrees_per_radian), bound = sine_20 * sine_20;
  for (const detail::core_face& f : core.faces) {
    const point *a = &core.points[f.v[0]], *b = &core.points[f.v[1]], *c = &core.points[f.v[2]];
    double bx = b->x - a->x, by = b->y - a->y, cx = c->x - a->x, cy = c->y - a->y;
    add(r.area, r.area_error, (bx * cy - by * cx) / 2);
    int corner = 0;
    double s = core.sine2(f, corner);
    smallest = std::min(smallest, s);
    if (s < std::max(smallest_free, bound)) {
      // Strict: excused is only what the input makes inevitable, not what refinement happened to
      // leave alone.
      const point& p = core.points[f.v[corner]];
      bool at_input = std::find(impl_->sharp.begin(), impl_->sharp.end(), p) != impl_->sharp.end();
      bool excused =
          s < bound && core.excused(f) && (at_input || f.n[(corner + 1) % 3] >= 0 || f.n[(corner + 2) % 3] >= 0);
      if (!excused) smallest_free = std::min(smallest_free, s);
      if (s < bound) {
        group_statistics one;
        (excused ? one.below_20_input : one.below_20_artificial) = 1;
        one.places.push_back({p, std::asin(std::sqrt(s)) * detail::degrees_per_radian, excused ? 0U : 1U});
        r += one;
      }
    }
    if (*b < *a) std::swap(a, b);
    if (*c < *b) std::swap(b, c);
    if (*b < *a) std::swap(a, b);
    r.hash += mix(mix(mix(0, *a), *b), *c);
    double u = length(*a, *b), v = length(*b, *c), w = length(*c, *a);
    shortest = std::min(shortest, std::min(u, std::min(v, w)));
  }
  r.smallest_angle = std::asin(std::sqrt(smallest)) * detail::degrees_per_radian;
  r.smallest_free_angle = std::asin(std::sqrt(smallest_free)) * detail::degrees_per_radian;
  r.shortest_edge = shortest;
  for (const detail::core_segment& s : core.segments)
    if (s.tag < 0) r.outline_length += length(core.points[s.a], core.points[s.b]);
  r.border_pieces = impl_->border_pieces;
  for (const auto& [key, segment] : impl_->borders) {
    if (segment < 0) continue;
    ++r.border_edges;
    std::uint64_t h = mix(mix(0, key.a), key.b);
    r.border_hash += impl_->neighbours[core.segments[segment].tag] > impl_->id ? h : 0 - h;
  }
  r.splits = impl_->splits;
  r.insertions = core.insertions;
  r.rejected = core.rejected;
  r.bytes = std::max(impl_->peak_bytes, core.bytes());
  r.seconds = impl_->seconds;
  return r;
}

extracted group_mesh::extract() const {
  extracted r;
  r.group = impl_->id;
  r.points = impl_->core.points;
  r.triangles.reserve(impl_->core.faces.size());
  for (const detail::core_face& f : impl_->core.faces)
    r.triangles.push_back(
        {static_cast<std::uint32_t>(f.v[0]), static_cast<std::uint32_t>(f.v[1]), static_cast<std::uint32_t>(f.v[2])});
  return r;
}

void group_mesh::compact() { impl_->core.compact(); }

template <class A> void group_mesh::save(A& ar) const { impl_->save(ar); }
template void group_mesh::save(tern::size_archive& ar) const;
template void group_mesh::save(tern::output_archive& ar) const;

} // namespace mesh
