// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/layout/index_order.hpp>

#include <algorithm>

namespace tern::mobile::detail {

void known_indices::cover(const array_layout& of, int home) {
  if (of.ranks() == 1) return cover_all(of.total());
  if (of.plan().mapping.what() != array_mapping::kind::block) return;
  const auto r = of.range_of(home);
  if (r.count == 0) return;
  if (!ranges_.empty() && ranges_.back().second == r.first)
    ranges_.back().second += r.count;
  else
    ranges_.emplace_back(r.first, r.first + r.count);
}

void known_indices::cover_all(std::int64_t total) { ranges_.assign({{0, total}}); }

void known_indices::cover(const known_indices& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> joined;
  for (const auto& r : ranges_)
    if (!joined.empty() && joined.back().second == r.first)
      joined.back().second = r.second;
    else
      joined.push_back(r);
  ranges_ = std::move(joined);
}

bool known_indices::are_covered(std::int64_t first, std::int64_t end) const noexcept {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const auto& r) { return r.first <= first && end <= r.second; });
}

} // namespace tern::mobile::detail
