// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/tree/tree.hpp"

#include "apps/nbody/bodies/morton.hpp"

namespace nbody {
namespace {

constexpr int crown_levels = 2;

class builder {
public:
  builder(octree& to, std::span<const std::uint64_t> keys, const tree_settings& how)
      : to_(to), keys_(keys), how_(how) {}

  /// The cell of bodies [begin, end), whose keys agree in the digits above `level`.
  void add(std::uint32_t begin, std::uint32_t end, int level) {
    while (end - begin > how_.leaf && level < morton_levels && digit(begin, level) == digit(end - 1, level)) ++level;
    const std::size_t at = to_.cells.size();
    to_.cells.emplace_back();
    const bool is_leaf = end - begin <= how_.leaf || level == morton_levels;
    if (!is_leaf)
      for (std::uint32_t from = begin, to = begin; from < end; from = to) {
        while (to < end && digit(to, level) == digit(from, level)) ++to;
        add(from, to, level + 1);
      }
    cell& mine = to_.cells[at];
    mine.kind = is_leaf ? cell::leaf : cell::inner;
    mine.first = begin;
    mine.count = end - begin;
    mine.next = static_cast<std::uint32_t>(to_.cells.size());
    is_leaf ? sum_bodies(mine) : sum_children(at);
  }

private:
  std::uint64_t digit(std::uint32_t i, int level) const { return keys_[i] >> (3 * (morton_levels - 1 - level)) & 7; }

  void sum_bodies(cell& to) {
    box around;
    const std::uint32_t end = to.first + to.count;
    for (std::uint32_t i = to.first; i < end; ++i) around.add(to_.x[i], to_.y[i], to_.z[i]);
    moment_sum sum(around);
    for (std::uint32_t i = to.first; i < end; ++i) sum.add_mass(to_.mass[i], to_.x[i], to_.y[i], to_.z[i]);
    sum.begin_moments();
    for (std::uint32_t i = to.first; i < end; ++i) sum.add_moment(to_.mass[i], to_.x[i], to_.y[i], to_.z[i], nullptr);
    sum.finish(to, how_.theta);
  }

  void sum_children(std::size_t at) {
    cell& to = to_.cells[at];
    box around;
    const auto each = [&](auto&& f) {
      for (std::size_t i = at + 1; i < to.next; i = to_.cells[i].next) f(to_.cells[i]);
    };
    each([&](const cell& c) { around.add(c.around); });
    moment_sum sum(around);
    each([&](const cell& c) { sum.add_mass(c.mass, c.x, c.y, c.z); });
    sum.begin_moments();
    each([&](const cell& c) { sum.add_moment(c.mass, c.x, c.y, c.z, &c.moment); });
    sum.finish(to, how_.theta);
  }

  octree& to_;
  std::span<const std::uint64_t> keys_;
  const tree_settings& how_;
};

void copy_crown(const octree& from, std::size_t at, int level, std::uint32_t piece, octree& to) {
  const std::size_t place = to.cells.size();
  to.cells.push_back(from.cells[at]);
  if (level == crown_levels || from.cells[at].kind != cell::inner) {
    to.cells[place].kind = cell::elsewhere;
    to.cells[place].first = piece;
  } else {
    for (std::size_t i = at + 1; i < from.cells[at].next; i = from.cells[i].next)
      copy_crown(from, i, level + 1, piece, to);
  }
  to.cells[place].next = static_cast<std::uint32_t>(to.cells.size());
}

} // namespace

octree build_tree(const bodies& of, std::span<const std::uint64_t> keys, const tree_settings& how) {
  octree to{{}, of.mass, of.x, of.y, of.z};
  if (of.empty()) return to;
  to.cells.reserve(3 * of.size() / how.leaf + 16);
  builder(to, keys, how).add(0, static_cast<std::uint32_t>(of.size()), 0);
  return to;
}

std::vector<body_group> groups_of(const octree& whole, const tree_settings& how) {
  std::vector<body_group> all;
  for (std::size_t i = 0; i < whole.cells.size();) {
    const cell& c = whole.cells[i];
    if (c.kind == cell::leaf || c.count <= how.group) {
      all.push_back({c.first, c.count, c.around});
      i = c.next;
    } else {
      ++i;
    }
  }
  return all;
}

octree crown_of(const octree& whole, std::uint32_t piece) {
  octree to;
  if (!whole.cells.empty()) copy_crown(whole, 0, 0, piece, to);
  return to;
}

} // namespace nbody
