// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/job/group.hpp"

#include "apps/common/progress.hpp"

#include <mutex>
#include <utility>

#include <tern/base/clock.hpp>
#include <tern/net/message.hpp>

namespace mesh {
namespace {

const tern::rank_local<size_field> sizes_of_rank;

struct busy_time {
  std::mutex lock;
  double seconds = 0;
};
const tern::rank_local<busy_time> busy_of_rank;

/// Adds the time for which it lives.
class busy_scope {
public:
  busy_scope() = default;
  ~busy_scope() {
    const std::lock_guard hold(busy_of_rank->lock);
    busy_of_rank->seconds += clock_.seconds();
  }
  busy_scope(const busy_scope&) = delete;
  busy_scope& operator=(const busy_scope&) = delete;

private:
  tern::stopwatch clock_;
};

} // namespace

double rank_busy() {
  const std::lock_guard hold(busy_of_rank->lock);
  return busy_of_rank->seconds;
}

size_field& rank_sizes() { return *sizes_of_rank; }

group::group(const group_definition& definition)
    : mesh_(definition, rank_sizes()), id_(definition.id), work_(definition.work) {}

group::group(tern::input_archive& ar) : mesh_(ar, rank_sizes()) { ar(id_, work_, refined_, neighbours_, inbox_); }

void group::meet(std::vector<std::pair<std::uint32_t, group_ptr>> neighbours) {
  neighbours_ = {neighbours.begin(), neighbours.end()};
  for (auto n : mesh_.neighbours())
    if (!neighbours_.contains(n))
      throw tern::error(tern::errc::internal,
                        "subdomain " + std::to_string(id_) + " does not know its neighbour " + std::to_string(n));
}

std::uint64_t group::refine() {
  const busy_scope busy;
  mesh_.refine();
  const std::uint64_t told = tell();
  mesh_.compact();
  refined_ = true;
  tern::send<&apps::progress_one>(0);
  return told;
}

void group::take(const std::vector<split>& theirs) { inbox_.insert(inbox_.end(), theirs.begin(), theirs.end()); }

std::uint64_t group::follow() {
  if (inbox_.empty()) return 0;
  const busy_scope busy;
  const std::uint64_t changed = mesh_.apply_splits(std::exchange(inbox_, {}));
  tell();
  return changed;
}

std::uint64_t group::tell() {
  std::uint64_t told = 0;
  for (const auto& [number, neighbour] : neighbours_) {
    const auto mine = mesh_.take_new_splits(number);
    if (mine.empty()) continue;
    told += mine.size();
    tern::send<&group::take>(neighbour, mine);
  }
  return told;
}

} // namespace mesh
