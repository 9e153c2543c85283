// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/output/summary.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mesh {
namespace {

double longest_edge(const gathered_mesh& m, const std::array<std::uint32_t, 3>& t) {
  const point &a = m.points[t[0]], &b = m.points[t[1]], &c = m.points[t[2]];
  auto square = [](const point& p, const point& q) { return (q.x - p.x) * (q.x - p.x) + (q.y - p.y) * (q.y - p.y); };
  return std::sqrt(std::max({square(a, b), square(b, c), square(c, a)}));
}

} // namespace

summary::summary(const gathered_mesh& m) {
  histogram.assign(bins, 0);
  edges.reserve(m.triangles.size());
  double low = std::numeric_limits<double>::max(), high = 0;
  std::vector<char> group_seen;
  for (std::size_t i = 0; i < m.triangles.size(); ++i) {
    double edge = longest_edge(m, m.triangles[i]);
    edges.push_back(static_cast<float>(edge));
    low = std::min(low, edge);
    high = std::max(high, edge);
    ++histogram[bin(edge)];
    if (m.rank[i] >= by_rank.size()) by_rank.resize(m.rank[i] + std::size_t{1}, 0);
    ++by_rank[m.rank[i]];
    if (std::size_t group = std::min(m.group[i], 1U << 24); group >= group_seen.size() || !group_seen[group]) {
      if (group >= group_seen.size()) group_seen.resize(group + 1, 0);
      group_seen[group] = 1;
      ++groups;
    }
  }
  for (auto n : by_rank) ranks += n > 0;
  if (m.triangles.empty()) return;
  smallest = low;
  largest = high;
  auto quantile = [&](double share) {
    std::size_t wanted = static_cast<std::size_t>(share * static_cast<double>(m.triangles.size())), sum = 0;
    for (std::size_t b = 0; b < bins; ++b)
      if ((sum += histogram[b]) > wanted) return bin_start(b);
    return high;
  };
  fine = std::clamp(quantile(0.05), low, high);
  bar_low = std::clamp(quantile(0.001), low, high);
  bar_high = std::clamp(quantile(0.999) * 1.02, low, high);
  if (const double wider = 2.5 / (bar_high / bar_low); wider > 1) { // so that the bar has a labelled size
    bar_low /= std::sqrt(wider);
    bar_high *= std::sqrt(wider);
  }
}

point interesting_place(const gathered_mesh& m, const domain& sea, double side) {
  const double width = sea.high.x - sea.low.x, height = sea.high.y - sea.low.y;
  const double cell = std::max(side / 2, std::sqrt(width * height / 1e6));
  const auto columns = static_cast<std::size_t>(width / cell), rows = static_cast<std::size_t>(height / cell);
  const point middle{(sea.low.x + sea.high.x) / 2, (sea.low.y + sea.high.y) / 2};
  if (columns < 2 || rows < 2) return middle;
  struct tally {
    std::uint64_t ranks = 0, groups = 0;
    float area = 0;
    std::uint32_t triangles = 0;
  };
  std::vector<tally> cells(columns * rows);
  for (std::size_t i = 0; i < m.triangles.size(); ++i) {
    const auto& t = m.triangles[i];
    const point &a = m.points[t[0]], &b = m.points[t[1]], &c = m.points[t[2]];
    double column = ((a.x + b.x + c.x) / 3 - sea.low.x) / cell, row = ((a.y + b.y + c.y) / 3 - sea.low.y) / cell;
    if (!(column >= 0 && row >= 0)) continue;
    auto u = static_cast<std::size_t>(column), v = static_cast<std::size_t>(row);
    if (u >= columns || v >= rows) continue;
    tally& here = cells[v * columns + u];
    here.ranks |= std::uint64_t{1} << m.rank[i] % 64;
    here.groups |= std::uint64_t{1} << m.group[i] % 64;
    here.area += static_cast<float>(std::fabs((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)) / 2);
    ++here.triangles;
  }
  double best = 0;
  point place = middle;
  for (std::size_t v = 0; v + 1 < rows; ++v)
    for (std::size_t u = 0; u + 1 < columns; ++u) {
      tally sum;
      for (std::size_t k : {v * columns + u, v * columns + u + 1, (v + 1) * columns + u, (v + 1) * columns + u + 1}) {
        sum.ranks |= cells[k].ranks;
        sum.groups |= cells[k].groups;
        sum.area += cells[k].area;
        sum.triangles += cells[k].triangles;
      }
      if (sum.triangles == 0) continue;
      double share = std::min(1.0, sum.area / (4 * cell * cell));
      double score = (0.02 + share * share * (1 - share)) * (1 + 2 * std::min(std::popcount(sum.ranks) - 1, 2)) *
                     (1 + 0.5 * std::min(std::popcount(sum.groups) - 1, 4)) * std::log1p(sum.triangles);
      if (score <= best) continue;
      best = score;
      place = {sea.low.x + static_cast<double>(u + 1) * cell, sea.low.y + static_cast<double>(v + 1) * cell};
    }
  return place;
}

} // namespace mesh
