// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// From the parts that a job's processes wrote (recorder.hpp) to one file that opens in Perfetto
/// (ui.perfetto.dev) and chrome://tracing.

#include <tern/base/language/compiler.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tern::trace {

/// What a trace holds, and what it lacks.
struct merge_summary {
  std::uint64_t records = 0;   ///< that were read
  std::uint64_t events = 0;    ///< lines in the file
  std::uint64_t lost = 0;      ///< records that were overwritten, or for which there was no room
  std::uint64_t damaged = 0;   ///< records that made no sense
  std::uint64_t sent = 0;      ///< messages
  std::uint64_t handled = 0;   ///< messages for which a handler has begun
  std::uint64_t forwarded = 0; ///< messages that were sent on, as new ones, to objects that were elsewhere
  /// How often objects of a class have come to another rank.
  struct moves {
    std::string type; ///< the class's name
    std::uint64_t number = 0, bytes = 0;
  };
  std::vector<moves> moved;         ///< the class that moved most first
  int parts = 0;                    ///< processes
  int not_ended = 0;                ///< processes that were killed, or still run
  int ranks = 0;                    ///< that recorded anything
  int expected_ranks = 0;           ///< of the job
  double seconds = 0;               ///< from the first event to the last one, by the job's clock
  std::vector<std::string> missing; ///< a sentence for each thing that the trace lacks; also said in the trace itself

  bool complete() const noexcept { return missing.empty(); }
  /// A line for people, one more for the objects that moved, and one for each thing that is
  /// missing.
  std::string text() const;
};

/// Merges all parts in `folder` into the file `out`. The file is a JSON array with an event a line,
/// ordered by time on each track, which viewers also accept when it is cut off. Ranks are processes
/// there, workers threads; their numbers are one higher, since several versions of Perfetto take 0
/// for the kernel's idle process. Clocks are aligned to rank 0's. Memory: names, tracks and fibers
/// with open regions, not records. One thread; the parts may still be written to.
/// \throws error(not_found) if there are no parts; error(invalid_data) naming a file that is no
/// part, or is of another version; error(io).
merge_summary merge(const std::string& folder, const std::string& out);

/// Removes the parts, and the folder if nothing else is in it; with a warning not those that are
/// recorded just now. Never throws.
void remove_parts(const std::string& folder) noexcept;

} // namespace tern::trace
