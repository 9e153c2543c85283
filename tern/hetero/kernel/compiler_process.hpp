// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A compiler as a process of its own. Internal. Any thread.

#include <filesystem>
#include <string>
#include <vector>

namespace tern::hetero::detail {

/// A new folder, which goes with it. \throws error(io).
struct work_folder {
  work_folder();
  ~work_folder();
  work_folder(const work_folder&) = delete;
  work_folder& operator=(const work_folder&) = delete;
  std::filesystem::path path;
};

/// All of a file; empty if it cannot be read.
std::string contents_of(const std::filesystem::path& file);

/// Runs a program, found in PATH, to its end. \param input what it reads. \param said gets what it
/// writes to stdout and stderr. \return its exit code; 126: a signal ended it; 127: it is not
/// there.
int run_program(const std::vector<std::string>& words, const std::filesystem::path& said,
                const std::filesystem::path& input = "/dev/null");

/// Its first line for `--version`; empty if it is not there or does not say.
std::string version_of_program(const std::string& name);

} // namespace tern::hetero::detail
