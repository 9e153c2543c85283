// SPDX-License-Identifier: Apache-2.0
#include <tern/net/job/rank_life.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <source_location>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/collective/inner_communicator.hpp>
#include <tern/net/collective/quiesce.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/failure/rank_watch.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/report/tracing.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {
namespace {

using detail::describe, detail::failure;

// What rank 0 tells all others first.
struct beginning {
  std::uint64_t program = 0, job = 0;
  bool stats = false;
  std::string trace;
  template <class A> void serialize(A& ar) { ar(program, job, stats, trace); }
};

// How all main functions ended.
struct main_ends {
  static constexpr int none = std::numeric_limits<int>::max();
  int code = 0;             // the largest exit code
  int first_changed = none; // the first rank that returned another number than its exit code
  template <class A> void serialize(A& ar) { ar(code, first_changed); }
};

// What exit() would leave of it, but never success for a failure; so that the largest of all ranks'
// is what it seems.
int exit_code(int returned) {
  return returned >= 0 && returned <= 255 ? returned : (returned & 255) ? returned & 255 : 1;
}

void tell_of_exit_code(int returned) {
  const int kept = returned & 255;
  log_warning("the main function returned " + std::to_string(returned) +
              ", of which the system keeps the last 8 bits as an exit code: " + std::to_string(kept) +
              (kept == 0 ? "; Tern makes it 1, since 0 would mean success" : "") + "; return a number from 0 to 255");
}

job_settings settings_of(const options& opts, const transport& wire, const sim::simulation* world, int workers) {
  if (!world) return resolve(opts, wire);
  job_settings s; // nothing of this machine counts
  s.workers = workers;
  s.stack_bytes = stack_bytes(opts);
  return s;
}

void tell_start(const transport& wire, const job_settings& s) {
  log_info("Tern " TERN_VERSION ": " + std::to_string(wire.size()) + (wire.size() == 1 ? " rank" : " ranks") + " (" +
           wire.describe() + "), " + std::to_string(s.workers) + (s.workers == 1 ? " worker" : " workers") + " each" +
           (s.poll_apart ? ", a thread for messages, " : ", ") +
           (s.cpus.empty() ? std::string("not bound") : "bound to " + s.bound_to) +
           (s.quota ? ", CPU quota " + std::to_string(*s.quota) : std::string()));
}

node_settings node_settings_of(const options& opts, const job_settings& s, std::unique_ptr<transport> wire,
                               sim::simulation* world, bool apart) {
  node_settings n;
  n.opts = &opts;
  n.stops_at_unhandled = stops_at_unhandled(opts);
  n.send.mode = aggregation_of(opts);
  n.send.patience = world ? 20'000 : tern::detail::ticks_in(20e-6);
  n.send.only_owner_sends = s.workers == 1 && !s.poll_apart && !world && !detail::reporter_sends(opts);
  // A rank that shares a core leaves it to those that are to answer.
  n.receive.awaits_answers = s.spin.count() > 0;
  n.rank.world = world;
  n.rank.polls_apart = s.poll_apart;
  n.rank.has_server = apart;
  scheduler::settings& fibers = n.rank.fibers;
  fibers.workers = s.workers;
  fibers.stack_bytes = s.stack_bytes;
  fibers.spin = s.spin;
  fibers.cpus = s.cpus;
  fibers.name = "tern r" + std::to_string(wire->rank());
  fibers.poll_apart = s.poll_apart || apart;
  fibers.others_wait_for_events = s.workers > 1 || wire->size() > 1;
  fibers.trace_rank = wire->rank();
  fibers.sharers = world ? 1 : wire->host_size();
  fibers.opts = &opts;
  if (wire->rank() == 0 && !world) tell_start(*wire, s); // thousands of jobs may be simulated one after the other
  n.rank.wire = std::move(wire);
  return n;
}

const detail::collective_kind start_kind{"the start"}, end_of_main{"the end of the main function"};

} // namespace

rank_life::rank_life(const std::shared_ptr<const options>& opts, std::unique_ptr<transport> wire,
                     sim::simulation* world, int workers, bool apart)
    : rank_life(opts, settings_of(*opts, *wire, world, workers), std::move(wire), world, apart) {}

// References: nothing is moved before the settings have been found.
rank_life::rank_life(const std::shared_ptr<const options>& opts, const job_settings& s,
                     std::unique_ptr<transport>&& wire, sim::simulation* world, bool apart)
    : opts_(opts), epochs_(here_, world != nullptr),
      here_(node_settings_of(*opts_, s, std::move(wire), world, apart),
            {&calls_, &collectives_, &epochs_, &failures_, &survivors_, this}),
      polls_apart_(s.poll_apart) {
  here_.attach(epochs_);
  tern::detail::scheduler_core& core = here_.fibers().inside();
  core.main_is = "main function of rank " + std::to_string(here_.rank());
  if (stops_at_dropped(*opts_))
    core.tell_dropped = [](void* rank, const std::string& text) noexcept {
      static_cast<rank_base*>(rank)->fatal("a future was dropped with an exception that was never retrieved: " + text);
    };
  collectives_.make_everyone(here_);
  reported_.emplace(here_);
}

void rank_life::fatal(const std::string& what, int code) noexcept {
  log_error(what);
  report_failure(what);
  tell_of_parts();
  detail::exit_guard::disarm();
  here_.wire().abort(code);
}

void rank_life::end_from_outside(const std::string& what, int code, bool by_parent) noexcept {
  const std::string asked = "rank " + std::to_string(here_.rank()) + " was asked to end: " + what;
  if (by_parent && here_.wire().processes()) return report_failure_here(asked + " by the launcher");
  const std::string text = asked + "; the job ends, with code " + std::to_string(code);
  log_error(text);
  report_failure_here(text);
  tell_of_parts();
  detail::exit_guard::disarm();
  here_.wire().abort(code);
}

// \return the trace that rank 0 wants.
std::string rank_life::compare_programs() {
  // With it goes what the job is called in reports, and what rank 0 wants of all; in a simulation
  // nothing, as no run may differ from another.
  beginning first{handler_table::fingerprint(), 0, stats_.wanted(), {}};
  const std::uint64_t mine = first.program;
  const detail::inner_communicator all(collectives_.everyone());
  const auto here = std::source_location::current();
  if (here_.simulated()) {
    first.program = all.broadcast(start_kind, std::pair<std::uint64_t, std::uint64_t>{mine, 0}, 0, here).first;
  } else {
    first.job = report_job();
    first.trace = wanted_trace();
    first = all.broadcast(start_kind, std::move(first), 0, here);
  }
  if (first.job) set_report_job(first.job);
  if (stats_.wanted() && !first.stats)
    log_warning("there is no table of statistics: the option 'stats' must be given to rank 0 too");
  stats_.set_wanted(first.stats);
  if (first.program != mine)
    throw error(errc::invalid_state, "rank " + std::to_string(here_.rank()) + " runs another program than rank 0",
                "start the same executable, built once, on all ranks");
  barrier(); // a rank that has compared must not send to one that has not: that would run another function there
  return first.trace;
}

int rank_life::guarded_main(const std::function<int()>& main) {
  try {
    begin_trace(here_, compare_programs());
    rank_stage::begin_all(here_);
    return main();
  } catch (...) {
    if (is_dead()) return 0; // a test has killed it
    const failure f = describe(std::current_exception());
    here_.fatal(error(f.code, "the main function failed on rank " + std::to_string(here_.rank()) + ": " + f.message,
                      f.hint, f.place)
                    .what());
  }
}

int rank_life::run(const std::function<int()>& main, const std::function<void()>& last) {
  try {
    rank_base* const outer = polls_apart_ ? rank_base::poll_apart_for(&here_) : nullptr;
    here_.fibers().run([&] { live(main); });
    if (polls_apart_) rank_base::poll_apart_for(outer);
  } catch (const error& e) { // a deadlock: the other ranks would wait for this one
    if (!is_dead()) here_.fatal(e.what());
  }
  return end(last);
}

void rank_life::live(const std::function<int()>& main) {
  stats_.begin();
  const int returned = guarded_main(main);
  code_ = exit_code(returned);
  while (!is_dead()) {
    try {
      end_together(returned);
      break;
    } catch (const error& e) {
      if (e.code() != errc::rank_lost || !here_.generation().guarded()) fail_at_end();
      if (is_dead()) break;
      // The survivors end together; or another has ended, since all had come as far as they could.
      if (!survivors_.recover(detail::finished_copy)) break;
    } catch (...) {
      fail_at_end();
    }
  }
  if (here_.generation().guarded() && !is_dead()) here_.wire().leave();
  lived_ = true;
}

void rank_life::end_together(int returned) {
  const auto here = std::source_location::current();
  const main_ends all =
      detail::inner_communicator(collectives_.everyone())
          .allreduce(
              end_of_main,
              main_ends{exit_code(returned), exit_code(returned) == returned ? main_ends::none : here_.rank()},
              [](main_ends a, main_ends b) {
                return main_ends{std::max(a.code, b.code), std::min(a.first_changed, b.first_changed)};
              },
              here);
  code_ = all.code;
  if (all.first_changed == here_.rank() && !stages_ended_) tell_of_exit_code(returned);
  align_trace(here_);
  detail::quiesce(here_, quiescence::messages, here, true);
  if (!std::exchange(stages_ended_, true)) {
    rank_stage::end_all(here_);
    stats_.show();
  }
  barrier();
  collectives_.everyone()->end(); // nothing may be left of an earlier operation
  if (const std::string strange = collectives_.strangers(); !strange.empty())
    throw error(errc::invalid_state, strange, "all ranks of a communicator must call the same of its operations");
}

// In a handler of exceptions.
void rank_life::fail_at_end() {
  const failure f = describe(std::current_exception());
  here_.fatal(error(f.code, "the end of the job failed on rank " + std::to_string(here_.rank()) + ": " + f.message,
                    f.hint, f.place)
                  .what());
}

int rank_life::end(const std::function<void()>& last) {
  // The last worker may have gone to rest before the owner sent what others wait for: a barrier's
  // end.
  // In a simulation that loses ranks, what is kept may be for one that has crashed.
  while (!here_.has_sent_all() && !(here_.simulated() && here_.generation().guarded()))
    if (here_.poll() == event_source::polled::nothing) here_.wait(std::chrono::milliseconds(1));
  here_.destroy_locals();
  if (last) last();
  here_.wire().finish();
  return code_;
}

} // namespace tern::net
