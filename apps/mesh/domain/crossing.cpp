// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/domain/domain.hpp"
#include "apps/mesh/geometry/predicates.hpp"

#include <algorithm>
#include <cmath>

namespace mesh {
namespace {

double dot(const point& o, const point& a, const point& b) {
  return (a.x - o.x) * (b.x - o.x) + (a.y - o.y) * (b.y - o.y);
}

bool boxes_apart(const segment& s, const segment& t) {
  return std::max(s.a.x, s.b.x) < std::min(t.a.x, t.b.x) || std::max(t.a.x, t.b.x) < std::min(s.a.x, s.b.x) ||
         std::max(s.a.y, s.b.y) < std::min(t.a.y, t.b.y) || std::max(t.a.y, t.b.y) < std::min(s.a.y, s.b.y);
}

/// Whether two segments meet elsewhere than at common ends, and about where.
bool meet(segment s, segment t, point& where) {
  if (boxes_apart(s, t)) return false;
  if (s.b == t.a || s.b == t.b) std::swap(s.a, s.b); // a common end, if any, comes first
  if (s.a == t.b) std::swap(t.a, t.b);
  if (s.a == t.a) {
    where = s.b;
    return s.b == t.b || (orient2d(s.a, s.b, t.b) == 0 && dot(s.a, s.b, t.b) > 0);
  }
  int ta = orient2d(s.a, s.b, t.a), tb = orient2d(s.a, s.b, t.b);
  int sa = orient2d(t.a, t.b, s.a), sb = orient2d(t.a, t.b, s.b);
  if (ta * tb > 0 || sa * sb > 0) return false;
  if (ta == 0) {
    where = t.a;
  } else if (tb == 0) {
    where = t.b;
  } else if (sa == 0) {
    where = s.a;
  } else if (sb == 0) {
    where = s.b;
  } else {
    double dx = s.b.x - s.a.x, dy = s.b.y - s.a.y, ex = t.b.x - t.a.x, ey = t.b.y - t.a.y;
    double along = ((t.a.x - s.a.x) * ey - (t.a.y - s.a.y) * ex) / (dx * ey - dy * ex);
    if (!std::isfinite(along)) along = 0;
    where = {s.a.x + along * dx, s.a.y + along * dy};
  }
  return true; // on one line (all four zero): their boxes meet, so they overlap
}

/// Which segments pass through which cell of a uniform grid.
class buckets {
public:
  explicit buckets(const std::vector<segment>& segments) {
    low_ = high_ = segments.front().a;
    for (const auto& s : segments)
      for (const auto& p : {s.a, s.b}) {
        low_ = {std::min(low_.x, p.x), std::min(low_.y, p.y)};
        high_ = {std::max(high_.x, p.x), std::max(high_.y, p.y)};
      }
    double width = std::max(high_.x - low_.x, 1e-9), height = std::max(high_.y - low_.y, 1e-9);
    double cell = std::sqrt(width * height / (2.0 * static_cast<double>(segments.size())));
    cell = std::max(cell, std::max(width, height) / 4096);
    per_km_ = 1 / cell;
    columns_ = static_cast<std::size_t>(width * per_km_) + 1;
    rows_ = static_cast<std::size_t>(height * per_km_) + 1;
    start_.assign(columns_ * rows_ + 1, 0);
    for (std::size_t i = 0; i < segments.size(); ++i) walk(segments[i], [&](std::size_t c) { ++start_[c + 1]; });
    for (std::size_t c = 0; c < columns_ * rows_; ++c) start_[c + 1] += start_[c];
    entries_.resize(start_.back());
    std::vector<std::size_t> next(start_.begin(), start_.end() - 1);
    for (std::size_t i = 0; i < segments.size(); ++i)
      walk(segments[i], [&](std::size_t c) { entries_[next[c]++] = static_cast<std::uint32_t>(i); });
  }

  template <class F> void each_pair(F&& visit) const {
    for (std::size_t c = 0; c + 1 < start_.size(); ++c)
      for (std::size_t i = start_[c]; i < start_[c + 1]; ++i)
        for (std::size_t j = i + 1; j < start_[c + 1]; ++j) visit(entries_[i], entries_[j]);
  }

private:
  std::size_t index(double value, double low, std::size_t count) const {
    return static_cast<std::size_t>(std::clamp((value - low) * per_km_, 0.0, static_cast<double>(count - 1)));
  }

  /// Calls `visit` for each cell the segment may pass through: column by column, rows between its
  /// heights there, with a margin far above rounding.
  template <class F> void walk(segment s, F&& visit) const {
    if (s.b < s.a) std::swap(s.a, s.b);
    double margin = 1e-6 / per_km_;
    std::size_t first = index(s.a.x - margin, low_.x, columns_), last = index(s.b.x + margin, low_.x, columns_);
    double slope = s.b.x > s.a.x ? (s.b.y - s.a.y) / (s.b.x - s.a.x) : 0;
    for (std::size_t column = first; column <= last; ++column) {
      double from = s.a.y, to = s.b.y;
      if (first != last) {
        double left = low_.x + static_cast<double>(column) / per_km_;
        double right = left + 1 / per_km_;
        if (left > s.a.x) from = s.a.y + slope * (left - s.a.x);
        if (right < s.b.x) to = s.a.y + slope * (right - s.a.x);
        // A steep segment's height at a column's edge can be off by much: never beyond its ends,
        // and the columns beside its ends see all of it.
        double lowest = std::min(s.a.y, s.b.y), highest = std::max(s.a.y, s.b.y);
        bool steep = std::fabs(slope) > 1e6;
        from = steep ? lowest : std::clamp(from, lowest, highest);
        to = steep ? highest : std::clamp(to, lowest, highest);
      }
      std::size_t bottom = index(std::min(from, to) - margin, low_.y, rows_);
      std::size_t top = index(std::max(from, to) + margin, low_.y, rows_);
      for (std::size_t row = bottom; row <= top; ++row) visit(row * columns_ + column);
    }
  }

  point low_, high_;
  double per_km_ = 1;
  std::size_t columns_ = 1, rows_ = 1;
  std::vector<std::size_t> start_;
  std::vector<std::uint32_t> entries_;
};

} // namespace

bool find_crossing(const std::vector<segment>& segments, crossing& found) {
  if (segments.size() < 2) return false;
  bool any = false;
  buckets(segments).each_pair([&](std::uint32_t i, std::uint32_t j) {
    if (any && (i > found.first || (i == found.first && j >= found.second))) return;
    point where;
    if (!meet(segments[i], segments[j], where)) return;
    found = {i, j, where};
    any = true;
  });
  return any;
}

} // namespace mesh
