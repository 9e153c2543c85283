// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Who writes reports, and when. There is one for each process, as there is one set of signal handlers; ranks know
/// nothing of each other through it. Internal.

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/net/detail/report_entry.hpp>
#include <tern/task/detail/picture.hpp>
#include <tern/task/detail/unwind.hpp>

namespace tern::net {

class node;

/// Calls `f` with this process' ranks, in order, none of which ends meanwhile. \return false if the list's lock could
/// not be had in a moment: its holder may have crashed.
bool with_ranks(const std::function<void(const std::vector<node*>&)>& f);

/// While a job runs: a thread that writes reports, asleep until somebody asks, and the signals that ask.
class report_session {
public:
  explicit report_session(const options& opts);
  ~report_session();
  report_session(const report_session&) = delete;
  report_session& operator=(const report_session&) = delete;

private:
  bool mine_ = false; // there was no other
};

/// Tells one job from others that write to a file of the same name. Rank 0's is everybody's, once all have met.
std::uint64_t report_job() noexcept;
void set_report_job(std::uint64_t job) noexcept;

/// The job is about to end because of `what`: writes a report if failures have them, and says where.
void report_failure(const std::string& what) noexcept;

/// The option `report`; empty if it was not given, or there is no job.
std::string report_file_option();

/// What a section begins with and what is known of the thread that asks for it.
struct report_cause {
  std::string reason;
  std::string thread;             ///< "fiber 5 'solver' on rank 2"; empty: nobody's
  tern::detail::stopped_at where; ///< its stack, if `known` is not 0
  bool crash = false;             ///< what can be said at once is written at once
  int ask_others =
      0; ///< the signal by which other processes of this job and host are asked for theirs; 0: they are not
};
/// Writes one. \param alone receives whether no other process has written lately. \param busy what the watchdog knows.
/// \return the path, or empty.
std::string compose_report(const report_cause& cause, bool* alone = nullptr,
                           const tern::detail::busy_watch* busy = nullptr);

/// \return not locked if that takes too long: whoever has it may have crashed, or stand still for ever.
template <class Lock>
std::unique_lock<Lock> try_for_a_while(Lock& lock, std::chrono::milliseconds limit = std::chrono::milliseconds(200)) {
  std::unique_lock<Lock> hold(lock, std::try_to_lock);
  for (const auto until = std::chrono::steady_clock::now() + limit;
       !hold && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    static_cast<void>(hold.try_lock());
  }
  return hold;
}

/// How ranks get on, for the watchdog.
std::uint64_t progress_of(node& n) noexcept;

} // namespace tern::net
