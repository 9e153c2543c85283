// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a run says of itself, for people and for programs.

#include "apps/jacobi3d/job/job.hpp"
#include "apps/jacobi3d/job/settings.hpp"

#include <optional>
#include <string>

namespace jacobi3d {

/// The part of a run that does not depend on the type of its cells.
struct run_figures {
  plan about;
  std::int64_t iterations = 0;
  double seconds = 0;
  std::uint64_t hash = 0;
  std::vector<norm_record> norms;
  std::vector<rank_figures> ranks;
  std::uint64_t moves = 0;
  std::optional<bool> verified; ///< none: was not asked for
  bool converged() const;
};
template <class T> run_figures figures_of(const finished_run<T>& run) {
  return {run.about, run.iterations, run.seconds, run.hash, run.norms, run.ranks, run.moves, {}};
}

void print_table(const run_figures& run, const settings& wanted);
std::string summary_json(const run_figures& run, const settings& wanted);

} // namespace jacobi3d
