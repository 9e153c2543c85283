// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The phases of a step, each of which ends when it has ended everywhere. Collective: called by the
/// main fibers of all ranks together.

#include "apps/nbody/job/settings.hpp"

namespace nbody {

/// Makes the array of pieces and gives them rank 0's bodies.
void make_pieces(const initial& start, const settings& wanted);
/// New limits of the pieces, by where bodies are.
void plan_again();
/// A half kick and a drift of `dt`; bodies go to their pieces.
void advance_all(double dt);
/// Trees of all pieces, and all crowns on all ranks.
void make_trees();
/// Forces, and a kick of `dt`.
void attract_all(double dt);

} // namespace nbody
