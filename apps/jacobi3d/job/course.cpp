// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/job/course.hpp"

#include <algorithm>
#include <utility>

namespace jacobi3d {
namespace {
const tern::rank_local<rank_course> this_rank;
} // namespace

rank_course& here() { return *this_rank; }

void norm_table::begin(std::int64_t blocks, std::function<void(const norm_record&)> on_whole) {
  const std::lock_guard hold(guard_);
  sums_.clear();
  blocks_ = blocks;
  on_whole_ = std::move(on_whole);
}

void norm_table::add(std::int64_t iteration, double change) {
  norm_record whole{iteration, 0};
  {
    const std::lock_guard hold(guard_);
    sum& s = sums_[iteration];
    s.change = std::max(s.change, change);
    if (++s.blocks < blocks_) return;
    whole.change = s.change;
  }
  if (on_whole_) on_whole_(whole);
}

std::vector<norm_record> norm_table::all() const {
  const std::lock_guard hold(guard_);
  std::vector<norm_record> whole;
  for (const auto& [iteration, s] : sums_) whole.push_back({iteration, s.change});
  return whole;
}

void take_norm(std::int64_t iteration, double change) { here().norms.add(iteration, change); }

} // namespace jacobi3d
