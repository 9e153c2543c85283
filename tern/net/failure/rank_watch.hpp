// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Notices that other ranks of an MPI job have died or stopped, and ends the job (decision 0018).
/// Internal.
///
/// The reporter's thread does it, so it goes on while all workers compute. Of the processes of its
/// own host a rank asks the operating system, so that a rank which is slow, or has no CPU, is never
/// taken for a dead one. Ranks of other hosts are watched by their neighbours there; beyond that,
/// if the option `silence-limit` wants it, by questions that their polling context answers.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/failure/host_record.hpp>
#include <tern/net/failure/liveness.hpp>
#include <tern/net/failure/process_state.hpp>
#include <tern/net/message/message_log.hpp>
#include <tern/net/report/reporter.hpp>

namespace tern::net {

class node;

namespace detail {

/// Does the reporter's thread send messages in such a job?
bool reporter_sends(const options& opts) noexcept;

class rank_watch final : duty {
public:
  /// Begins, if ranks are processes and the options want it.
  explicit rank_watch(node& n);
  ~rank_watch() { end(); }
  rank_watch(const rank_watch&) = delete;
  rank_watch& operator=(const rank_watch&) = delete;
  /// Before this rank lets others end. Twice does no harm.
  void end() noexcept;

private:
  struct peer {
    int rank = -1;
    int place = -1; // on this host; -1: on another
    process_name who;
    process_state state;
    int end = -1; // a file that becomes readable when it ends
    message_log::line last{.when = 0};
  };
  double every() const noexcept override { return cfg_.tick; }
  void files(std::vector<int>& all) const override;
  void look() noexcept override;

  void publish();
  void meet();
  void meet_far();
  void look_at(peer& p, double now);
  void note_last(peer& p);
  bool somebody_leaves(double now);
  void found(const liveness::finding& f, double now);
  void found_by_others();
  void debugged(const peer& p) const;
  std::string what_happened(const peer& p, liveness::kind what, double seconds) const;
  std::string known_here(const peer& p) const;
  void tell_program(const peer& p, const std::string& what);
  void end_job(const peer& p, liveness::kind what, const std::string& told);
  [[noreturn]] void abort() noexcept;

  node& here_;
  const liveness::settings cfg_;
  liveness state_;
  host_memory host_;
  std::string host_name_;
  std::uint64_t space_ = 0;
  bool active_ = false, met_ = false, met_far_ = false;
  std::vector<peer> peers_;
  std::vector<bool> known_; // by place: its end has been told here
  double leaving_since_ = -1, ends_at_ = -1;
  int code_ = 1; // of the job
};

} // namespace detail
} // namespace tern::net
