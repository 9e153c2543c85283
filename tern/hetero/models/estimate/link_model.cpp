// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/estimate/link_model.hpp>

#include <algorithm>
#include <bit>
#include <vector>

namespace tern::hetero::detail {
namespace {

int range_of(std::uint64_t bytes) noexcept { return static_cast<int>(std::bit_width(bytes)) - 1; }

void count_fresh(std::uint32_t& fresh, const sample_history& of) noexcept {
  fresh = static_cast<std::uint32_t>(std::min<std::size_t>(fresh + 1, of.size())); // others are gone
}

struct copy_point {
  double bytes, time;
};

// The least sum of squared relative errors: each point's weight is 1/time^2.
link_line fitted(const std::vector<copy_point>& points) noexcept {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const copy_point& p : points) {
    const double weight = 1 / (p.time * p.time);
    w += weight;
    x += weight * p.bytes;
    y += weight * p.time;
    xx += weight * p.bytes * p.bytes;
    xy += weight * p.bytes * p.time;
  }
  const double determinant = w * xx - x * x;
  link_line l;
  if (determinant > 0) l = {(y * xx - x * xy) / determinant, (w * xy - x * y) / determinant};
  if (l.per_byte <= 0) return {y / w, 0}; // noise: the larger took no longer
  if (l.latency < 0) return {0, xy / xx};
  return l;
}

} // namespace

void link_model::add(std::uint64_t bytes, double nanoseconds) {
  if (bytes == 0 || !(nanoseconds > 0)) return;
  size_range& r = ranges_[range_of(bytes)];
  r.bytes.add(static_cast<double>(bytes));
  r.times.add(nanoseconds);
  count_fresh(r.fresh, r.times);
}

void link_model::add_both_ways(std::uint64_t bytes, double nanoseconds) {
  const std::optional<double> alone = at(bytes);
  if (!alone || !(nanoseconds > 0)) return;
  both_ways_.add(nanoseconds / *alone);
  count_fresh(fresh_both_ways_, both_ways_);
}

std::optional<link_line> link_model::line() const {
  std::vector<copy_point> points;
  for (const auto& [k, r] : ranges_)
    if (r.times.usable()) points.push_back({r.bytes.median(), r.times.median()});
  if (points.size() < 2 || points.back().bytes < 4 * points.front().bytes) return std::nullopt;
  return fitted(points);
}

std::optional<double> link_model::at(std::uint64_t bytes) const {
  if (bytes == 0) return 0;
  if (const std::optional<link_line> l = line()) return l->at(static_cast<double>(bytes));
  // Of one size: a larger one takes longer in proportion, a smaller one as long.
  for (const int k : {range_of(bytes), range_of(bytes) - 1, range_of(bytes) + 1})
    if (const auto found = ranges_.find(k); found != ranges_.end() && found->second.times.usable())
      return found->second.times.median() * std::max(1.0, static_cast<double>(bytes) / found->second.bytes.median());
  return std::nullopt;
}

double link_model::both_ways_factor() const noexcept {
  return both_ways_.usable() ? std::max(1.0, both_ways_.median()) : 1;
}

void link_model::merge_fresh(const link_model& newer) {
  const auto add_last = [](sample_history& to, const sample_history& from, std::size_t n) {
    for (const float x : from.samples().last(std::min(n, from.size()))) to.add(x);
  };
  for (const auto& [k, from] : newer.ranges_) {
    if (from.fresh == 0) continue;
    size_range& to = ranges_[k];
    add_last(to.bytes, from.bytes, from.fresh);
    add_last(to.times, from.times, from.fresh);
  }
  add_last(both_ways_, newer.both_ways_, newer.fresh_both_ways_);
}

void link_model::set_stored() noexcept {
  for (auto& [k, r] : ranges_) r.fresh = 0;
  fresh_both_ways_ = 0;
}

bool link_model::has_fresh() const noexcept {
  return fresh_both_ways_ > 0 ||
         std::any_of(ranges_.begin(), ranges_.end(), [](const auto& r) { return r.second.fresh > 0; });
}

} // namespace tern::hetero::detail
