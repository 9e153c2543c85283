// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A study that nothing is judged by: how the cost of a task grows with their number and with that
/// of the workers.

#include <cstddef>
#include <string>

namespace tern::bench::task {

/// Measures 10^3 to `most_tasks` tasks, empty ones and ones of about 1 µs, on 1 to 4 workers for
/// each core, with each runtime that is there, in turn; writes JSON to `file`. What takes more than
/// a minute has `null` for its seconds.
/// \return the exit code. \throws std::runtime_error if `file` cannot be written or a contestant
/// fails.
int growth(const std::string& file, std::size_t most_tasks);

} // namespace tern::bench::task
