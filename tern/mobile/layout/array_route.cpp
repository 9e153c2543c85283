// SPDX-License-Identifier: Apache-2.0
/// \file
/// To which ranks operations on arrays go.
#include <tern/mobile/layout/array_route.hpp>

#include <numeric>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {

array_route array_route::slice(std::int64_t begin, std::int64_t end) const {
  array_route part;
  part.origin_ = origin_;
  std::int64_t at = 0;
  for (const rank_run& r : runs_) {
    const std::int64_t from = std::max(begin, at), to = std::min(end, at + r.count);
    if (from < to)
      part.runs_.push_back(
          {r.first + static_cast<std::int32_t>(from - at), static_cast<std::int32_t>(to - from), r.number});
    at += r.count;
  }
  return part;
}

void array_route::check(int ranks) const {
  bool fine = !runs_.empty() && origin_ >= 0 && origin_ < ranks;
  for (const rank_run& r : runs_) fine = fine && r.first >= 0 && r.count > 0 && r.count <= ranks - r.first;
  if (!fine) throw error(errc::invalid_data, "an operation on an array is for ranks that there are not");
}

std::vector<std::int32_t> homes_of(const array_box& box, const array_layout& of) {
  std::vector<std::int32_t> homes;
  const auto ranks = static_cast<std::int32_t>(of.ranks());
  if (const std::int64_t n = box.count(); n < ranks) {
    homes.reserve(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) homes.push_back(of.place_of(box.linear(i, of)).home);
    std::sort(homes.begin(), homes.end());
    homes.erase(std::unique(homes.begin(), homes.end()), homes.end());
    return homes;
  }
  std::int32_t first = 0, last = ranks - 1;
  if (of.plan().mapping.what() == array_mapping::kind::block) {
    first = of.place_of(box.linear(0, of)).home;
    last = of.place_of(box.linear(box.count() - 1, of)).home;
  } else if (of.plan().mapping.what() == array_mapping::kind::cyclic) {
    last = static_cast<std::int32_t>(std::min<std::int64_t>(last, of.total() - 1));
  }
  homes.resize(static_cast<std::size_t>(last - first + 1));
  std::iota(homes.begin(), homes.end(), first);
  return homes;
}

} // namespace tern::mobile::detail
