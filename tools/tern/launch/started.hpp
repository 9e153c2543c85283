// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whether a program that the `tern` command has started called `tern::run`; and a folder for such
/// files.

#include <optional>
#include <string>

namespace tern::tool {

/// A folder that is removed with all it holds, in memory where the system has such a place. Nothing
/// is said if it cannot be made.
class scratch_folder {
public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  const std::string& path() const { return path_; } ///< empty if there is none
  bool in_memory() const { return in_memory_; }     ///< it is in /dev/shm

private:
  std::string path_;
  bool in_memory_ = false;
};

/// The file in which a program's processes enter themselves when they call `tern::run`. If the file
/// cannot be made, `started` returns true: no process is reported without evidence.
class start_file {
public:
  /// Makes the file `name` in `folder`.
  start_file(const scratch_folder& folder, const std::string& name);
  ~start_file();
  start_file(start_file&& other) noexcept;
  start_file& operator=(start_file&& other) noexcept;

  /// For the environment variable TERN_STARTED: the file; nothing if there is none.
  std::optional<std::string> path() const;
  /// Has one called `tern::run`?
  bool started() const;
  /// The rank of that process of this machine, -1 if none has that number.
  int rank_of(long process) const;

private:
  std::string path_;
};

} // namespace tern::tool
