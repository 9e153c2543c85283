// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How `tern run` and `tern sim` learn that a program has called `tern::run`. Internal.
///
/// The command makes a file that begins with the line `start_file_head` and names it in the
/// environment variable TERN_STARTED. Each process that starts a job appends the line "RANK
/// PROCESS". A variable outlives scripts and launchers, which an open file does not; one that is
/// inherited too long names a file that is gone.

#include <string_view>

namespace tern::net::detail {

inline constexpr const char* start_file_variable = "TERN_STARTED";
inline constexpr std::string_view start_file_head = "tern started\n";

/// Appends this process to the file that TERN_STARTED names. Does nothing if there is no such file,
/// or if it does not begin as the command makes it. \param rank as far as the launcher's variables
/// tell it, else 0.
void mark_start(int rank) noexcept;

} // namespace tern::net::detail
