// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The trace of a job: begun before its schedulers are made, merged into one file when all ranks
/// have ended. Internal.
///
/// Each process records into FILE.parts. A job that is killed leaves the parts, of which `tern
/// trace FILE` makes the file.

#include <cstdint>
#include <memory>
#include <string>

#include <tern/base/options.hpp>
#include <tern/trace/recorder.hpp>

namespace tern::net {

class node;

/// What this process records, if the option `trace` asks for it; else it does nothing. One in a
/// process at a time, and known to all of it, as the recording is.
class trace_session {
public:
  enum class job {
    here,     ///< all ranks are threads of this process
    parallel, ///< each is a process
    simulated ///< all are in this process, and time is virtual
  };
  /// \param rank of this process, if they are parallel.
  /// \param workers of each rank, if they are known.
  /// \throws error(io) naming the file; error(invalid_state) if the program records something by
  /// itself.
  trace_session(const options& opts, job kind, int rank, int ranks, int workers = 1);
  ~trace_session();
  trace_session(const trace_session&) = delete;
  trace_session& operator=(const trace_session&) = delete;

  /// This process records no more.
  void end() noexcept;
  /// Once all processes have ended: on rank 0, makes the file. What goes wrong is logged, and the
  /// parts are left.
  void merge() noexcept;

private:
  void leave() noexcept;

  friend std::string wanted_trace();
  friend void begin_trace(node&, const std::string&);
  friend void align_trace(node&);
  friend void tell_of_parts() noexcept;
  friend void merge_at_once() noexcept;

  std::string file_;
  job kind_;
  int rank_;
  bool far_ = false; // this process and rank 0 have different clocks
  std::unique_ptr<trace::recorder> recorder_;
};

/// The file into which this rank wants to record with other processes; empty: none.
std::string wanted_trace();
/// All ranks, when they have met: what earlier jobs have left is removed, and clocks are compared.
/// \param firsts what rank 0 wants, which is what is done: a rank that does not record takes part
/// in this, one that alone does ends it.
void begin_trace(node& here, const std::string& firsts);
/// All ranks, before the job closes: clocks are compared again.
void align_trace(node& here);

/// The job is about to end without merging: says where the parts are, if there are any.
void tell_of_parts() noexcept;
/// A simulated job is about to end: its trace is made now.
void merge_at_once() noexcept;

} // namespace tern::net
