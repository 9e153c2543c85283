// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace nbody {

void sample::add(const bodies& all, std::uint32_t stride) {
  const auto n = static_cast<std::uint32_t>(all.size());
  for (std::uint32_t i = 0; i < n; ++i) around.add(all.x[i], all.y[i], all.z[i]);
  for (std::uint32_t begin = 0; begin < n; begin += stride) {
    const std::uint32_t count = std::min(stride, n - begin), i = begin + count / 2;
    x.push_back(all.x[i]);
    y.push_back(all.y[i]);
    z.push_back(all.z[i]);
    weight.push_back(count);
  }
}

sample join_samples::operator()(sample a, const sample& b) const {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(a.x, b.x);
  append(a.y, b.y);
  append(a.z, b.z);
  append(a.weight, b.weight);
  a.around.add(b.around);
  return a;
}

std::uint32_t piece_plan::piece_of(std::uint64_t key) const noexcept {
  const auto after = std::upper_bound(first_keys.begin(), first_keys.end(), key);
  return static_cast<std::uint32_t>(after - first_keys.begin() - 1);
}

double power_of_two(double least) noexcept {
  return least > 0 && std::isfinite(least) ? std::exp2(std::ceil(std::log2(least))) : 1;
}

piece_plan plan_pieces(const sample& of, std::uint32_t pieces) {
  piece_plan plan;
  const double side = of.around.longest_side() * 1.001; // what lies on the upper side is within
  plan.space.side = side > 0 && std::isfinite(side) ? side : 1;
  for (std::size_t d = 0; d < 3; ++d) plan.space.low[d] = of.around.middle(d) - plan.space.side / 2;
  plan.length = power_of_two(plan.space.side);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> keys; // with weights
  keys.reserve(of.x.size());
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < of.x.size(); ++i) {
    keys.emplace_back(morton_key(plan.space, of.x[i], of.y[i], of.z[i]), of.weight[i]);
    all += of.weight[i];
  }
  std::sort(keys.begin(), keys.end());
  plan.first_keys.assign(1, 0);
  std::uint64_t before = 0;
  for (const auto& [key, weight] : keys) {
    while (plan.first_keys.size() < pieces && before * pieces >= plan.first_keys.size() * all)
      plan.first_keys.push_back(key);
    before += weight;
  }
  plan.first_keys.resize(pieces, std::uint64_t{1} << 63); // fewer samples than pieces: empty ones
  return plan;
}

} // namespace nbody
