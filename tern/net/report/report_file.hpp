// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The file that the processes of a job write their reports to, one after the other. Internal.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tern/net/rank/ranges.hpp>

namespace tern::net {

class report_file {
public:
  /// Opens it, and waits some seconds for its lock (others may write). The report of another job is
  /// begun anew; to any other file, and to what is no file or is our stdout or stderr, it adds. If
  /// the file cannot be opened or written, standard error says why and has all that was to be in
  /// it.
  /// \param follow if it is a symbolic link.
  report_file(const std::string& path, std::uint64_t job, const std::string& heading, bool follow);
  ~report_file();
  report_file(const report_file&) = delete;
  report_file& operator=(const report_file&) = delete;

  void write(std::string_view text);
  /// What was written is on standard error, as the file could not be had.
  bool is_lost() const noexcept { return lost_; }
  /// Which ranks have written within the last `seconds`, ourselves included; none if it cannot be
  /// read.
  std::vector<int> ranks_within(double seconds) const;

private:
  void go_to_standard_error(int why);

  int fd_ = -1;
  bool lost_ = false;
  std::string path_, written_;
  std::size_t begin_ = 0; ///< of the job's part
  bool stream_ = false;   ///< it cannot be read
};

/// The line that begins a process' part; `ranks_within` reads it.
std::string part_heading(const std::vector<int>& ranks, int of, const std::string& who);

/// A process of our job on this host.
struct neighbour {
  int rank = -1, process = 0;
  char state = '?'; ///< as in /proc/PID/stat
};
/// Those of these ranks that are found, as far as one launcher has started them and us.
std::vector<neighbour> neighbours(const std::vector<int>& ranks);
/// A line: "rank 3: process 812 on this host is stopped (SIGSTOP)".
std::string words_for(const neighbour& n);
/// Asks it for its report by that signal, if it has a handler for it. \return whether it can be
/// expected to answer.
bool ask(const neighbour& n, int signal);

} // namespace tern::net
