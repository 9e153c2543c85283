// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Folders for what is kept from run to run, and a folder for what compilers make, for processes
/// that can write no other: batch nodes and containers often have no HOME, or one that is
/// read-only. Internal.

#include <filesystem>
#include <string>

namespace tern::hetero::detail {

/// $XDG_CACHE_HOME/tern or ~/.cache/tern; empty if the environment names neither. Thread-safe while
/// the environment does not change.
std::filesystem::path usual_cache();

/// Makes the folder, and those above it, for its owner alone, if it is not there. Thread-safe.
/// \return why no file can be made in it, with its name: "/dev/null/x/.cache cannot be made: Not a
/// directory"; empty if files can be made.
std::string make_folder(const std::filesystem::path& folder);

/// A folder of this process alone, for `what` ("pocl"): made at the first call, in TMPDIR or /tmp,
/// and removed at the end of the process. That of a process that has been killed is removed by the
/// next one that needs such a folder. Thread-safe. \param why receives why there is none; then the
/// path is empty.
std::filesystem::path temporary_cache(const std::string& what, std::string& why);
/// The same, if it has been made; else an empty path.
std::filesystem::path known_temporary_cache(const std::string& what);

} // namespace tern::hetero::detail
