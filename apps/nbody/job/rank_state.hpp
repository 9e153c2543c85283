// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What each rank has beside its pieces.

#include "apps/nbody/force/group_force.hpp"
#include "apps/nbody/job/piece.hpp"
#include "apps/nbody/job/plan.hpp"
#include "apps/nbody/job/tree_store.hpp"
#include "apps/nbody/tree/tree.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/net/rank_local.hpp>

namespace nbody {

/// The same on all ranks through the run.
struct constants {
  tree_settings tree;
  force_settings force;     ///< but for `length`, which the plan has
  std::uint32_t stride = 1; ///< of samples
  template <class A> void serialize(A& ar) { ar(tree, force, stride); }
};

struct rank_state {
  constants fixed;
  piece_plan plan; ///< of this step
  tern::mobile_array<piece> pieces;
  tree_store trees;

  /// Adds time that a worker has spent on forces. Any fiber.
  void add_busy(double seconds);
  /// Since the last time.
  double take_busy();
  /// Space for a tasklet. Any fiber; give it back.
  std::unique_ptr<group_force> borrow_space();
  void give_back(std::unique_ptr<group_force> space);
  /// Forgets spaces of other settings.
  void drop_spaces();

private:
  std::mutex lock_; // for a few instructions
  double busy_ = 0;
  std::vector<std::unique_ptr<group_force>> spaces_;
};

/// The calling rank's.
rank_state& here();

} // namespace nbody
