// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A run, from bodies to sums. Every function here is called by the main fibers of all ranks
/// together.

#include "apps/nbody/job/piece.hpp"
#include "apps/nbody/job/settings.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tern/mobile/array.hpp>

namespace nbody {

/// After so many steps.
struct step_record {
  std::uint64_t step = 0;
  double time = 0;
  nbody::totals sum;
  double seconds = 0;   ///< of wall time, for the step
  double imbalance = 1; ///< of the ranks' times for forces: largest over mean
};

struct finished_run {
  tern::mobile_array<piece> pieces;
  std::vector<step_record> steps; ///< on rank 0; the first is the beginning
  double softening = 0, step = 0; ///< that were used
  std::uint32_t piece_count = 0;
  std::vector<double> busy;                   ///< by rank, on rank 0: seconds of forces
  std::uint64_t moved = 0, fetched_trees = 0; ///< moves by the policy; trees that ranks had others send
  std::string policy;
  double seconds = 0; ///< of the steps, with forces before the first
  std::uint64_t interactions = 0;
  double imbalance() const; ///< of `busy`
};

/// Called on rank 0 with the number of the picture, at the beginning and then evenly.
using frame_function = std::function<void(std::uint64_t frame, double time, const snapshot& bodies)>;

/// \param start on rank 0 only. \throws tern::error(invalid_data) on rank 0 if a body's place is no
/// longer a finite number.
finished_run run_job(const initial& start, const settings& wanted, const frame_function& on_frame);

/// All bodies, piece by piece, on rank 0, which alone calls it.
std::vector<extract> gather_bodies(const finished_run& run);

} // namespace nbody
