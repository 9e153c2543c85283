// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/tree/forest.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <tern/base/error.hpp>

namespace nbody {
namespace {

constexpr std::size_t children = 8;

} // namespace

void opened_trees::add(std::uint32_t piece, tree_ref tree) {
  pieces_.push_back(piece);
  trees_.push_back(std::move(tree));
}

const octree* opened_trees::find(std::uint32_t piece) const noexcept {
  const auto at = std::lower_bound(pieces_.begin(), pieces_.end(), piece);
  return at != pieces_.end() && *at == piece ? trees_[static_cast<std::size_t>(at - pieces_.begin())].get() : nullptr;
}

forest::forest(std::vector<octree> crowns, double theta) : crowns_(std::move(crowns)) {
  if (!crowns_.empty()) add_top(0, crowns_.size(), theta);
}

// A cell over the pieces [begin, end): consecutive along the curve, so near each other.
void forest::add_top(std::size_t begin, std::size_t end, double theta) {
  if (end - begin == 1) {
    if (crowns_[begin].cells.empty()) return;
    cell root = crowns_[begin].cells.front();
    root.kind = cell::elsewhere;
    root.first = static_cast<std::uint32_t>(begin);
    top_.push_back(root);
    top_.back().next = static_cast<std::uint32_t>(top_.size());
    return;
  }
  std::size_t step = 1;
  while (step * children < end - begin) step *= children;
  const std::size_t at = top_.size();
  top_.emplace_back();
  for (std::size_t i = begin; i < end; i += step) add_top(i, std::min(end, i + step), theta);
  if (top_.size() == at + 1) { // no bodies at all
    top_.pop_back();
    return;
  }
  cell& mine = top_[at];
  mine.next = static_cast<std::uint32_t>(top_.size());
  const auto each = [&](auto&& f) {
    for (std::size_t i = at + 1; i < mine.next; i = top_[i].next) f(top_[i]);
  };
  box around;
  each([&](const cell& c) {
    around.add(c.around);
    mine.count += c.count;
  });
  moment_sum sum(around);
  each([&](const cell& c) { sum.add_mass(c.mass, c.x, c.y, c.z); });
  sum.begin_moments();
  each([&](const cell& c) { sum.add_moment(c.mass, c.x, c.y, c.z, &c.moment); });
  sum.finish(mine, theta);
}

std::vector<std::uint32_t> forest::opened_by(const box& targets) const {
  std::vector<std::uint32_t> opened;
  const auto nothing = [](const cell&) {};
  walk_cells(top_, targets, nothing, [&](const cell& root) {
    bool opens = false;
    walk_cells(crowns_[root.first].cells, targets, nothing, [&](const cell&) { opens = true; });
    if (opens) opened.push_back(root.first);
  });
  return opened;
}

bool forest::opens_too_many(const bodies& own, std::uint32_t body, std::size_t trees) const {
  constexpr std::size_t times = 4, few = 32;
  if (trees <= few) return false;
  box one;
  one.add(own.x[body], own.y[body], own.z[body]);
  return trees > times * opened_by(one).size() + few;
}

void forest::divide(const bodies& own, const body_group& group, opening& to) const {
  const auto opened = opened_by(group.around);
  if (group.count == 1 || !opens_too_many(own, group.first, opened.size())) {
    to.groups.push_back(group);
    to.trees.insert(to.trees.end(), opened.begin(), opened.end());
    return;
  }
  const std::uint32_t end = group.first + group.count;
  for (std::uint32_t first = group.first, count = group.count / 2; first < end; first += count, count = end - first) {
    body_group half{first, count, {}};
    for (std::uint32_t i = first; i < first + count; ++i) half.around.add(own.x[i], own.y[i], own.z[i]);
    divide(own, half, to);
  }
}

forest::opening forest::open_for(const bodies& own, const box& around, const std::vector<body_group>& groups) const {
  opening all{groups, opened_by(around)};
  if (groups.empty() || !opens_too_many(own, 0, all.trees.size())) return all;
  all = {};
  for (const body_group& g : groups) divide(own, g, all);
  std::sort(all.trees.begin(), all.trees.end());
  all.trees.erase(std::unique(all.trees.begin(), all.trees.end()), all.trees.end());
  return all;
}

void forest::missing(const cell& c) {
  throw tern::error(tern::errc::internal,
                    "a walk opens a cell of piece " + std::to_string(c.first) + ", whose tree has not been fetched");
}

} // namespace nbody
