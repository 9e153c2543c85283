// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// METG, the minimum effective task granularity: how short tasks may be while half of the machine's
/// peak is still reached (Slaughter et al., SC 2020). The work of tasks shrinks until the
/// efficiency falls below one half; between the two measurements around it is interpolated.

#include <functional>
#include <vector>

namespace tern::bench::grain {

struct point {
  double granularity; ///< seconds of a core for a task, everything included
  double efficiency;  ///< the part of that in which the task computed
};

struct metg_result {
  double seconds = 0;        ///< METG; the granularity of the longest tasks, if it is not `reached`
  bool reached = true;       ///< false: METG is more than that, or does not exist
  std::vector<point> points; ///< all that was measured, by descending work
};

constexpr double half = 0.5;

/// \param per_iteration seconds that an iteration of the tasks' kernel takes where nothing else is
/// to be done: the peak.
/// \param granularity measures the seconds of a core for a task of so many iterations (>= 1).
/// \return METG, to within an eighth of the work around it. If tasks of a single iteration are
/// still efficient, their granularity. Tasks of more than 4 ms are not tried.
metg_result find_metg(double per_iteration, const std::function<double(long iterations)>& granularity,
                      double efficiency = half);

} // namespace tern::bench::grain
