// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A rank's copy of other ranks' trees. All ranks get all crowns; a whole tree is fetched when a
/// walk will open it, once for each rank and step.

#include "apps/nbody/tree/forest.hpp"

#include <cstdint>
#include <vector>

#include <tern/task/future.hpp>
#include <tern/task/sync.hpp>

namespace nbody {

/// Threads: `publish` and `get` by any fiber of the rank; `exchange` when neither is called.
class tree_store {
public:
  /// The piece's tree is made anew, on this rank: it stays here, wherever the piece goes, until
  /// that happens again.
  void publish(std::uint32_t piece, std::shared_ptr<octree> tree);
  /// Tells all ranks the crowns of what has been published since the last time. Collective. What
  /// was fetched before is dropped.
  void exchange(std::uint32_t pieces, double theta);

  const forest& all() const noexcept { return all_; }
  /// The whole trees of these pieces, which ascend. Asks for all that are not here before it waits.
  opened_trees get(const std::vector<std::uint32_t>& pieces);

  std::uint64_t fetched_trees() const noexcept { return fetched_; }

private:
  struct publication {
    std::uint32_t piece = 0;
    octree crown;
    template <class A> void serialize(A& ar) { ar(piece, crown); }
  };
  using arrival = tern::shared_future<std::shared_ptr<octree>>;
  friend std::shared_ptr<octree> whole_tree(std::uint32_t piece);

  tern::mutex lock_;
  std::vector<publication> published_;       ///< since the last exchange
  std::vector<std::shared_ptr<octree>> own_; ///< by piece: published here, and not yet elsewhere
  std::vector<int> where_;                   ///< by piece
  std::vector<arrival> fetched_trees_;       ///< by piece
  forest all_;
  std::uint64_t fetched_ = 0;
};

} // namespace nbody
