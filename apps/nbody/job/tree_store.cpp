// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/tree_store.hpp"

#include "apps/nbody/job/rank_state.hpp"

#include <mutex>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

namespace nbody {

/// A handler: the tree of a piece that has published it on this rank.
std::shared_ptr<octree> whole_tree(std::uint32_t piece) {
  tree_store& mine = here().trees;
  const std::lock_guard hold(mine.lock_);
  return mine.own_.at(piece);
}

void tree_store::publish(std::uint32_t piece, std::shared_ptr<octree> tree) {
  octree crown = crown_of(*tree, piece);
  const std::lock_guard hold(lock_);
  if (own_.size() <= piece) own_.resize(piece + 1);
  own_[piece] = std::move(tree);
  published_.push_back({piece, std::move(crown)});
}

void tree_store::exchange(std::uint32_t pieces, double theta) {
  auto by_rank = tern::communicator::world().allgather(std::exchange(published_, {}));
  std::vector<octree> crowns(pieces);
  where_.assign(pieces, -1);
  for (std::size_t r = 0; r < by_rank.size(); ++r)
    for (publication& p : by_rank[r]) {
      crowns[p.piece] = std::move(p.crown);
      where_[p.piece] = static_cast<int>(r);
    }
  own_.resize(pieces);
  for (std::uint32_t p = 0; p < pieces; ++p)
    if (where_[p] != tern::rank()) own_[p].reset();
  fetched_trees_.assign(pieces, {});
  all_ = forest(std::move(crowns), theta);
}

opened_trees tree_store::get(const std::vector<std::uint32_t>& pieces) {
  struct wanted {
    tree_ref here;
    arrival coming;
  };
  std::vector<wanted> all;
  all.reserve(pieces.size());
  {
    const std::lock_guard hold(lock_);
    for (const std::uint32_t p : pieces) {
      if (own_[p]) {
        all.push_back({own_[p], {}});
        continue;
      }
      if (!fetched_trees_[p].valid()) {
        fetched_trees_[p] = tern::call<&whole_tree>(where_[p], p).share();
        ++fetched_;
      }
      all.push_back({nullptr, fetched_trees_[p]});
    }
  }
  opened_trees whole;
  for (std::size_t i = 0; i < pieces.size(); ++i) whole.add(pieces[i], all[i].here ? all[i].here : all[i].coming.get());
  return whole;
}

} // namespace nbody
