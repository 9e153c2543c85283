// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A progress bar on rank 0's standard error: a moving bar on a terminal, a line for each quarter
/// elsewhere.

#include <cstddef>
#include <string>

namespace apps {

/// What the bar says.
struct progress_words {
  std::string doing; ///< "meshing"
  std::string steps; ///< "subdomains"
};

/// Called by every rank of the job; ranks other than 0 do nothing, as in `progress_end`. \param
/// steps that will be reported. \param quiet shows nothing.
void progress_begin(progress_words words, std::size_t steps, bool quiet);
/// A handler: one step is done somewhere. Send it to rank 0. Any worker.
void progress_one();
void progress_end();

} // namespace apps
