// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Carriers and rivals side by side: METG of each with each problem, and efficiencies over the
/// length of tasks.

#include <string>
#include <vector>

#include "bench/grain/jobs.hpp"

namespace tern::bench::grain {

/// Where tasks run: on two ranks, or in one process.
enum class place { ranks, process };
/// In a table of METG, or also in pictures.
enum class shown { table, everywhere };

/// What one contestant did with one problem.
struct finding {
  std::string contestant, problem;
  place where;
  bool ours, in_pictures;
  double metg;           ///< microseconds
  nlohmann::json points; ///< pairs of microseconds and efficiency
};

/// Measures `turns` times all contestants in turn, each with all problems that it can run. Where a
/// contestant has several settings, the best counts each time. Contestants that are absent are told
/// of on stderr, and so is the progress.
/// \param seconds of a run, as bench_grain_X takes them.
/// \param least which contestants: those of pictures only, or all.
/// \return for each contestant and problem the turn whose METG is the median.
std::vector<finding> survey(const words& problems, const std::string& seconds, int turns, shown least);

} // namespace tern::bench::grain
