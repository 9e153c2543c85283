// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// A progress bar on rank 0's standard error: a moving bar on a terminal, a line for each quarter elsewhere.

#include <cstddef>

namespace mesh {

/// Collective in name only: ranks other than 0 do nothing.
void progress_begin(std::size_t steps, bool quiet);
/// A handler: one step is done somewhere. Send it to rank 0.
void progress_one();
void progress_end();

} // namespace mesh
