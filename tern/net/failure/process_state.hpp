// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What /proc tells of another process of this host. Internal.

#include <cstdint>
#include <string>

#include <tern/net/failure/liveness.hpp>

namespace tern::net::detail {

/// Numbers of processes are used again; with the moment of its start a process is known for good.
struct process_name {
  int number = 0;
  std::uint64_t started = 0; ///< ticks of the kernel since it was booted
  bool operator==(const process_name&) const = default;
};
/// \throws error(system) if there is no /proc.
process_name this_process();
/// Two processes that see the same one of these see the same numbers of processes. 0: unknown.
std::uint64_t process_space();

/// Of one moment.
struct process_state {
  process_sign sign = process_sign::unknown; ///< never unknown but from `state_of_text`
  int status = no_status;                    ///< as of waitpid, of one that has ended
  static constexpr int no_status = -1;       ///< nothing is left of it that could tell
};
/// \param text of its /proc/PID/stat. \param traced whether it has a tracer.
process_state state_of_text(const std::string& text, const process_name& who, bool traced);
process_state state_of(const process_name& who);
/// Not if it seems to have begun at another time: clocks differ between containers.
bool can_be_watched(const process_name& who);

/// "was killed by SIGKILL", "has ended with exit code 3", "has gone".
std::string words_for_end(int status);
/// The exit code of a job that ends because one of its processes ended so: 128 + the signal's
/// number, or 1.
int code_for_end(int status);

/// Becomes readable when the process ends; -1: the kernel has no such file, or does not let us. The
/// caller closes it.
int watch_end_of(const process_name& who);
/// Ends it. Does nothing if it is another one by now.
void kill_process(const process_name& who);

} // namespace tern::net::detail
