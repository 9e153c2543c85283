// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What writes reports, and when. Each process has one reporter, as it has one set of signal
/// handlers; ranks know nothing of each other through it. Internal.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/net/memory/bounded_lock.hpp>
#include <tern/net/message/message_log.hpp>
#include <tern/net/report/report_entry.hpp>
#include <tern/task/report/fiber_report.hpp>

namespace tern::net {

class node;

/// Calls `f` with this process' ranks, in order, none of which ends meanwhile. \return false if the
/// list's lock could not be had in a moment: its holder may have crashed.
bool with_ranks(const std::function<void(const std::vector<node*>&)>& f);

/// What the reporter's thread looks at now and then. Used by that thread alone.
class watch {
public:
  virtual ~watch() = default;
  /// Seconds from one look to the next; 0: it does not look.
  virtual double every() const noexcept = 0;
  virtual void look_if_due() = 0;
  /// Failures of the job write a report.
  virtual bool wants_reports() const noexcept { return false; }
  /// The job is about to end by signal `number`. \return what the user should read then.
  virtual std::string before_end(int number, bool by_launcher);
};
using watches = std::vector<std::unique_ptr<watch>>;

/// While a job runs: a thread that writes reports, asleep until one is asked for, and the signals
/// that ask.
class report_session {
public:
  report_session(const options& opts, watches w);
  ~report_session();
  report_session(const report_session&) = delete;
  report_session& operator=(const report_session&) = delete;

private:
  bool mine_ = false; // there was no other
};

/// What the reporter's thread does besides, of which there is one at most.
class duty {
public:
  /// Seconds from one look to the next.
  virtual double every() const noexcept = 0;
  /// Files that ask for a look when there is something to read from them.
  virtual void files(std::vector<int>& all) const = 0;
  /// On the reporter's thread.
  virtual void look() noexcept = 0;

protected:
  ~duty() = default;
};
/// \return false if there is no reporter.
bool begin_duty(duty& d);
/// `d` is no longer used when this returns, unless it is ending the job.
void end_duty() noexcept;

/// Tells one job from others that write to a file of the same name. All ranks use that of rank 0,
/// once they have met.
std::uint64_t report_job() noexcept;
void set_report_job(std::uint64_t job) noexcept;

/// The job is about to end because of `what`: writes a report if failures have them, and says
/// where.
void report_failure(const std::string& what) noexcept;

/// The same for the reporter's own thread, in a look.
void report_failure_here(const std::string& what) noexcept;

/// The signal that asks for a report; 0: none does.
int report_signal() noexcept;

/// Standard error names the report's file; nothing if there is none.
void say_where(const std::string& path, const std::string& why = {}) noexcept;

/// The option `report`; empty if it was not given, or there is no job.
std::string report_file_option();

/// What a section begins with and what is known of the thread that asks for it.
struct report_cause {
  std::string reason;
  std::string thread;             ///< "fiber 5 'solver' on rank 2"; empty: none
  tern::detail::stopped_at where; ///< its stack, if `known` is not 0
  bool crash = false;             ///< what can be said at once is written at once
  /// The signal by which other processes of this job and host are asked for theirs; 0: they are
  /// not.
  int ask_others = 0;
};
/// Writes one. \param alone receives whether no other process has written lately. \param busy what
/// the watchdog knows.
/// \return the path, or empty.
std::string compose_report(const report_cause& cause, bool* alone = nullptr,
                           const tern::detail::busy_watch* busy = nullptr);

/// The last message of rank `from` that is still known; its `when` is 0 if there is none.
message_log::line last_message_of(node& n, int from);
/// "'tern collective', 5.312 s ago"
std::string words_for(node& n, const message_log::line& message);
/// What waits on `n` for `rank`, in words, each once.
std::vector<std::string> waits_for(node& n, int rank);

/// How ranks get on, for the watchdog.
std::uint64_t progress_of(node& n) noexcept;

/// Of what reports say of ranks, for an error: without the lists of messages, and not pages.
std::string without_messages(const std::string& text);
/// The same for a terminal: at most so many lines, and one that says how many are missing.
std::string briefly(const std::string& text, std::size_t most);

} // namespace tern::net
