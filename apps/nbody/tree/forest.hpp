// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The trees of all pieces under one root.

#include "apps/nbody/tree/tree.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace nbody {

using tree_ref = std::shared_ptr<const octree>;

/// The whole trees that a walk may open.
class opened_trees {
public:
  /// \pre pieces come in ascending order.
  void add(std::uint32_t piece, tree_ref tree);
  /// Null for others. A pointer that lives as long as this.
  const octree* find(std::uint32_t piece) const noexcept;

private:
  std::vector<std::uint32_t> pieces_;
  std::vector<tree_ref> trees_;
};

/// Every rank has one. Of each piece it knows the crown; a walk that opens more needs the whole
/// tree. What a walk finds does not depend on which whole trees are there: crowns have the same
/// cells. Reading is thread-safe.
class forest {
public:
  forest() = default;
  /// \param crowns by piece.
  forest(std::vector<octree> crowns, double theta);

  std::size_t pieces() const noexcept { return crowns_.size(); }
  /// The pieces whose whole trees bodies in the box may open, ascending.
  std::vector<std::uint32_t> opened_by(const box& targets) const;
  struct opening {
    std::vector<body_group> groups;
    std::vector<std::uint32_t> trees; ///< that these open, ascending
  };
  /// What a piece's groups open. A group is divided whose box makes it open several times as many
  /// trees as one of its bodies: an interval of keys that crosses the border of large cells has its
  /// bodies in corners far from each other, and one box around them is near to everything between.
  /// \param own the piece's bodies, in the order of keys. \param around all of them.
  opening open_for(const bodies& own, const box& around, const std::vector<body_group>& groups) const;

  /// Calls `take_cell(cell)` for each cell that bodies in the box take as a whole, and
  /// `take_bodies(tree, first, count)` for those of opened leaves, in the order of pieces and keys.
  /// \param whole has those that `opened_by` names.
  template <class C, class B>
  void walk(const box& targets, const opened_trees& whole, C&& take_cell, B&& take_bodies) const {
    walk_cells(top_, targets, take_cell, [&](const cell& root) {
      const octree* const tree = whole.find(root.first);
      if (tree)
        walk_cells(tree->cells, targets, take_cell,
                   [&](const cell& leaf) { take_bodies(*tree, leaf.first, leaf.count); });
      else
        walk_cells(crowns_[root.first].cells, targets, take_cell, missing);
    });
  }

private:
  template <class C, class O>
  static void walk_cells(const std::vector<cell>& cells, const box& targets, C&& take_cell, O&& open) {
    for (std::size_t i = 0; i < cells.size();) {
      const cell& c = cells[i];
      if (targets.distance2(c.x, c.y, c.z) > c.open2) {
        take_cell(c);
        i = c.next;
      } else if (c.kind == cell::inner) {
        ++i;
      } else {
        open(c);
        i = c.next;
      }
    }
  }
  [[noreturn]] static void missing(const cell& c);
  bool opens_too_many(const bodies& own, std::uint32_t body, std::size_t trees) const;
  void divide(const bodies& own, const body_group& group, opening& to) const;
  void add_top(std::size_t begin, std::size_t end, double theta);

  std::vector<octree> crowns_;
  std::vector<cell> top_; ///< cells over pieces; a piece's root is `elsewhere` with its number
};

} // namespace nbody
