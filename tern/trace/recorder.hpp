// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The recording of a trace, for the layer that runs jobs, and for programs that use `tern::task`
/// without one:
///
///     tern::trace::prepare_parts("run.json.parts");            // one process of the job, before the others begin
///     {
///       tern::trace::recorder r({.folder = "run.json.parts", .ranks = 4});
///       ...
///     }
///     tern::trace::merge("run.json.parts", "run.json");        // when all have ended (merge.hpp)
///
/// Each process writes one file, a *part*, into the folder, through shared memory: what has been
/// recorded is in the file at once and stays there if the process is killed. Each thread has a ring
/// of its own in it.

#include <tern/base/language/compiler.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tern::trace {

struct recorder_settings {
  std::string folder;      ///< of the parts; made if it is not there
  int ranks = 1;           ///< of the whole job, so that absent ones can be named
  int rank = 0;            ///< where threads that are no workers are shown
  int ring_kib = 4096;     ///< each thread's ring, at least 256; the oldest records are overwritten, and counted
  bool lossless = false;   ///< nothing is overwritten: rings grow as long as the disk has room
  int most_names = 65536;  ///< different names in this process, at least 16
  int tasklet_sample = 16; ///< one of so many batches of tasklets is recorded
  /// Virtual time in nanoseconds, for the simulator; null: real time.
  std::int64_t (*clock)() = nullptr;
};

/// Real time in nanoseconds to which `recorder::clock_offset` refers (CLOCK_MONOTONIC).
std::int64_t clock_ns() noexcept;

/// Makes the folder and removes the parts of an earlier job from it; not those of one that still
/// runs, which are warned of. \param keep names of files that are of this one.
/// \throws error(io) naming the folder.
void prepare_parts(const std::string& folder, const std::vector<std::string>& keep = {});

/// Records what happens in this process from its construction to `end`. One at a time in a process.
/// A process that is forked meanwhile records nothing.
class recorder {
public:
  /// \throws error(invalid_argument) for settings out of range; error(invalid_state) if something
  /// is recorded already; error(io) naming the file.
  explicit recorder(recorder_settings settings);
  ~recorder(); ///< as `end`
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  /// What to add to this process' `clock_ns()` to get rank 0's, measured at `at` (by this process'
  /// clock). The first one told and the last one told count; between them the offset changes
  /// linearly. Processes of one machine need none.
  void clock_offset(std::int64_t at, std::int64_t add) noexcept;

  /// Ends the recording and says so in the part. Threads may still be inside a `region`, which is
  /// then cut off here.
  void end() noexcept;

  const std::string& part() const noexcept { return part_; } ///< the file's path

private:
  std::string part_;
  std::uint32_t number_ = 0;
};

} // namespace tern::trace
