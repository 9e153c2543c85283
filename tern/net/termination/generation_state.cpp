// SPDX-License-Identifier: Apache-2.0
#include <tern/net/termination/generation_state.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace tern::net {

generation_state::generation_state(int ranks) : ranks_(ranks), plain_(static_cast<unsigned>(ranks)) {}
generation_state::~generation_state() = default;

bool generation_state::add(death d) {
  const std::lock_guard hold(guard_);
  const auto at = std::lower_bound(dead_.begin(), dead_.end(), d.rank,
                                   [](const death& known, int rank) { return known.rank < rank; });
  if (at != dead_.end() && at->rank == d.rank) {
    if (at->text.empty()) at->text = std::move(d.text);
    return false;
  }
  dead_.insert(at, std::move(d));
  return true;
}

bool generation_state::is_dead(int rank) const {
  const std::lock_guard hold(guard_);
  return std::any_of(dead_.begin(), dead_.end(), [rank](const death& d) { return d.rank == rank; });
}

std::size_t generation_state::dead_count() const {
  const std::lock_guard hold(guard_);
  return dead_.size();
}

std::vector<generation_state::death> generation_state::dead() const {
  const std::lock_guard hold(guard_);
  return dead_;
}

std::vector<int> generation_state::living() const {
  std::vector<int> all;
  const std::lock_guard hold(guard_);
  auto next = dead_.begin();
  for (int r = 0; r < ranks_; ++r)
    if (next != dead_.end() && next->rank == r)
      ++next;
    else
      all.push_back(r);
  return all;
}

} // namespace tern::net
