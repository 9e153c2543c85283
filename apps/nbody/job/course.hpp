// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How far a run has come: what a checkpoint keeps beside the pieces, and how a later run goes on.

#include "apps/nbody/job/piece.hpp"
#include "apps/nbody/job/rank_state.hpp"
#include "apps/nbody/job/settings.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace nbody {

/// After so many steps.
struct step_record {
  std::uint64_t step = 0;
  double time = 0;
  nbody::totals sum;
  double seconds = 0;   ///< of wall time, for the step
  double imbalance = 1; ///< of the ranks' times for forces: largest over mean
  template <class A> void serialize(A& ar) { ar(step, time, sum, seconds, imbalance); }
};

struct course {
  settings begun; ///< with the step and the softening that are used
  constants fixed;
  std::uint64_t step = 0, frame = 0; ///< done; made
  std::vector<double> view;          ///< of the film: see `frame_function`
  std::vector<step_record> records;  ///< the first is the beginning
  double seconds = 0;                ///< of wall time, of all jobs
  template <class A> void serialize(A& ar) { ar(begun, fixed, step, frame, view, records, seconds); }
};

/// If the job was started with `--restart FOLDER`: pieces are there on all ranks when it returns,
/// and `to` says how far they have come. Collective; before the first object is made. \throws what
/// tern::restored throws.
bool find_course(course& to);
/// Collective. \param now on rank 0. \throws what tern::checkpoint throws.
void save_course(const std::string& folder, const course& now);

/// The folder of `--restart`; empty: none.
std::string restart_folder();

/// All that the command line leaves open becomes as it was. \throws tern::error(invalid_argument)
/// that names each option which says something else, or if more steps are done than are wanted.
void go_on_as_begun(settings& wanted, const course& from, const std::string& folder);

} // namespace nbody
