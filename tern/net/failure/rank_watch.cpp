// SPDX-License-Identifier: Apache-2.0
#include <tern/net/failure/rank_watch.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/net/failure/failed_ranks.hpp>
#include <tern/net/node.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/report/tracing.hpp>

namespace tern::net::detail {
namespace {

const option<double> limit_option{"failure-limit", 5,
                                  "end an MPI job when one of its processes has died, or has been stopped for so many "
                                  "seconds; 0: leave that to the launcher",
                                  between<double>(0, 1e6)};
const option<double> silence_option{
    "silence-limit", 0,
    "and when a rank on another host has not answered for so many seconds, more than any computes without letting its "
    "messages in (see progress); 0: however long it takes",
    between<double>(0, 1e6)};

constexpr int most_near = 8; // ranks of the host that a rank watches: those next to it
constexpr int most_far = 2;  // and of other hosts
constexpr double least_tick = 0.05, most_tick = 0.5;
constexpr double leaving_limit = 3; // seconds that a rank takes to end the job
constexpr double teller_limit = 4;  // and that a rank takes to tell of a failure
constexpr double program_limit = 1; // that functions of the program may take
constexpr const char* nothing_goes_on = "an MPI job cannot go on without one of its ranks, so it ends";

liveness::settings settings_of(const options& opts) {
  liveness::settings s;
  s.limit = opts[limit_option];
  s.silence = opts[silence_option];
  const double shortest = s.limit > 0 && s.silence > 0 ? std::min(s.limit, s.silence) : std::max(s.limit, s.silence);
  s.tick = std::clamp(shortest / 10, least_tick, most_tick);
  s.gap = std::max(3 * s.tick, 0.4 * shortest); // many ranks on few CPUs come late, and should notice all the same
  s.ask_after = std::clamp(s.silence / 4, 0.1, 1.0);
  return s;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// Then its report tells, and has asked others for theirs.
bool crashed(int status) {
  if (status == process_state::no_status || !WIFSIGNALED(status)) return false;
  const int by = WTERMSIG(status);
  return by == SIGSEGV || by == SIGBUS || by == SIGFPE || by == SIGILL || by == SIGABRT;
}

std::string in_seconds(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", s);
  return text;
}

} // namespace

bool reporter_sends(const options& opts) noexcept { return opts[silence_option] > 0; }

rank_watch::rank_watch(node& n) : here_(n), cfg_(settings_of(n.opts())), state_(cfg_, n.rank()) {
  const auto processes = n.wire().processes();
  if (!processes || n.size() == 1 || (cfg_.limit <= 0 && cfg_.silence <= 0)) return;
  host_ = *processes;
  host_name_ = host_name();
  if (!host_.first) host_.ranks = 1;
  known_.assign(static_cast<std::size_t>(host_.ranks), false);
  try {
    if (host_.first) publish();
  } catch (const error& e) {
    log_warning(std::string("other ranks cannot see whether this one is alive: ") + e.what());
  }
  active_ = begin_duty(*this);
}

void rank_watch::end() noexcept {
  if (!active_) return;
  active_ = false;
  end_duty();
  for (const peer& p : peers_)
    if (p.end >= 0) close(p.end);
}

// relaxed but for the last: see host_record.
void rank_watch::publish() {
  const process_name me = this_process();
  space_ = process_space();
  host_record& note = host_record::of(host_, host_.mine);
  note.rank.store(here_.rank(), std::memory_order_relaxed);
  note.started.store(me.started, std::memory_order_relaxed);
  note.space.store(space_, std::memory_order_relaxed);
  note.process.store(static_cast<std::uint32_t>(me.number), std::memory_order_release);
}

/// Those next to this rank, as they come.
void rank_watch::meet() {
  if (met_ || cfg_.limit <= 0) return;
  met_ = true;
  for (int d = 1; d < host_.ranks && d <= most_near; ++d) {
    const int place = (host_.mine + d) % host_.ranks;
    if (std::any_of(peers_.begin(), peers_.end(), [&](const peer& p) { return p.place == place; })) continue;
    const host_record& note = host_record::of(host_, place);
    const std::uint32_t number = note.process.load(std::memory_order_acquire);
    if (number == 0) {
      met_ = false;
      continue;
    }
    peer p;
    p.rank = note.rank.load(std::memory_order_relaxed);
    p.place = place;
    p.who = {static_cast<int>(number), note.started.load(std::memory_order_relaxed)};
    if (note.space.load(std::memory_order_relaxed) != space_) continue; // containers with numbers of their own
    if (!can_be_watched(p.who)) continue;
    p.end = watch_end_of(p.who);
    state_.watch(p.rank, steady_seconds());
    peers_.push_back(p);
  }
}

/// Those next to it elsewhere, once all of this host are known.
void rank_watch::meet_far() {
  if (met_far_ || cfg_.silence <= 0) return;
  std::vector<int> near{here_.rank()};
  for (int place = 0; place < host_.ranks && host_.first; ++place) {
    const host_record& note = host_record::of(host_, place);
    if (note.process.load(std::memory_order_acquire) == 0) return;
    if (note.space.load(std::memory_order_relaxed) == space_) near.push_back(note.rank.load(std::memory_order_relaxed));
  }
  met_far_ = true;
  int found = 0;
  for (int d = 1; d < here_.size() && found < most_far; ++d) {
    const int rank = (here_.rank() + d) % here_.size();
    if (std::find(near.begin(), near.end(), rank) != near.end()) continue;
    ++found;
    peer p;
    p.rank = rank;
    state_.watch(rank, steady_seconds());
    peers_.push_back(p);
  }
}

void rank_watch::files(std::vector<int>& all) const {
  if (ends_at_ >= 0) return; // they are not closed any more
  for (const peer& p : peers_)
    if (p.end >= 0) all.push_back(p.end);
}

void rank_watch::note_last(peer& p) {
  const auto last = last_message_of(here_, p.rank);
  if (last.when == 0 || last.when == p.last.when) return;
  p.last = last;
  state_.heard(p.rank, steady_seconds());
}

void rank_watch::look_at(peer& p, double now) {
  note_last(p);
  if (p.place < 0) {
    if (const auto answer = here_.failures().last_answer(p.rank); answer.at >= 0) state_.heard(p.rank, answer.at);
    return;
  }
  const auto ended = [&] { return p.state.sign == process_sign::left || p.state.sign == process_sign::killed; };
  if (ended()) return; // soon nothing is left of it that tells how
  p.state = state_of(p.who);
  state_.seen(p.rank, p.state.sign, now);
  if (!ended() || p.end < 0) return;
  close(p.end); // else it would ask for a look again and again
  p.end = -1;
}

/// A rank of this host ends the job and has said why. What happens to other ranks meanwhile is no
/// new failure.
bool rank_watch::somebody_leaves(double now) {
  if (!host_.first) return false;
  bool any = false;
  for (int place = 0; place < host_.ranks; ++place)
    any = any || host_record::of(host_, place).leaving.load(std::memory_order_relaxed) != 0;
  if (any && leaving_since_ < 0) leaving_since_ = now;
  return any && now - leaving_since_ < leaving_limit;
}

void rank_watch::look() noexcept {
  try {
    const double now = steady_seconds();
    if (ends_at_ >= 0) return now >= ends_at_ ? abort() : void();
    meet();
    meet_far();
    for (peer& p : peers_) look_at(p, now);
    if (const auto answer = here_.failures().last_answer(here_.rank()); answer.at >= 0)
      state_.heard(here_.rank(), answer.at);
    if (somebody_leaves(now)) return;
    found_by_others();
    for (const auto& f : state_.tick(now)) found(f, now);
  } catch (const std::exception& e) {
    log_error(std::string("other ranks cannot be watched: ") + e.what());
    for (peer& p : peers_) // one that stays readable would be looked at again and again
      if (const int fd = std::exchange(p.end, -1); fd >= 0) close(fd);
  }
}

void rank_watch::found(const liveness::finding& f, double now) {
  if (f.what == liveness::kind::ask) return failed_ranks::ask(here_, f.rank);
  const auto at = std::find_if(peers_.begin(), peers_.end(), [&](const peer& p) { return p.rank == f.rank; });
  if (at == peers_.end() || (at->place >= 0 && known_[static_cast<std::size_t>(at->place)])) return;
  if (f.what == liveness::kind::debugged) return debugged(*at);
  end_job(*at, f.what, what_happened(*at, f.what, now - f.since));
}

void rank_watch::found_by_others() {
  for (int place = 0; place < host_.ranks && host_.first; ++place) {
    const host_record& note = host_record::of(host_, place);
    const std::uint32_t how = note.found.load(std::memory_order_relaxed); // a number and nothing behind it
    if (how == 0 || place == host_.mine || known_[static_cast<std::size_t>(place)]) continue;
    peer p;
    p.rank = note.rank.load(std::memory_order_relaxed);
    p.place = place;
    const auto at = std::find_if(peers_.begin(), peers_.end(), [&](const peer& x) { return x.place == place; });
    end_job(at == peers_.end() ? p : *at, static_cast<liveness::kind>(how - 1), {});
  }
}

/// Only the one before it says so.
void rank_watch::debugged(const peer& p) const {
  if (p.place != (host_.mine + 1) % host_.ranks) return;
  log_warning("rank " + std::to_string(p.rank) + " (process " + std::to_string(p.who.number) + " on host " +
              host_name_ + ") is stopped in a debugger: the job waits for it");
}

std::string rank_watch::what_happened(const peer& p, liveness::kind what, double seconds) const {
  std::string text = "rank " + std::to_string(p.rank);
  if (p.place >= 0) {
    text += " (process " + std::to_string(p.who.number) + " on host " + host_name_ + ")";
  } else {
    const auto answer = here_.failures().last_answer(p.rank);
    text += answer.from.empty() ? " (it has not said on which host)" : " (" + answer.from + ")";
  }
  switch (what) {
  case liveness::kind::stopped:
    return text + " has been stopped for " + in_seconds(seconds);
  case liveness::kind::silent:
    return text + " has not been heard of for " + in_seconds(seconds);
  default:
    return text + " " + words_for_end(p.state.status);
  }
}

/// What this rank had of it and waits for.
std::string rank_watch::known_here(const peer& p) const {
  const std::string here = "rank " + std::to_string(here_.rank());
  const auto now = last_message_of(here_, p.rank);
  const auto& last = now.when != 0 ? now : p.last;
  std::string text = last.when != 0 ? here + " had its last message, " + words_for(here_, last)
                                    : here + " knows of no message of it lately";
  const auto waits = waits_for(here_, p.rank);
  for (std::size_t i = 0; i < waits.size(); ++i) text += (i == 0 ? ", and waits for it in " : ", ") + waits[i];
  if (waits.empty()) text += ", and does not wait for it";
  return text;
}

void rank_watch::tell_program(const peer& p, const std::string& what) {
  here_.failures().tell(here_, {p.rank, p.place >= 0 ? host_name_ : std::string(), fiber_clock::now(),
                                what.empty() ? "rank " + std::to_string(p.rank) + " has failed" : what});
}

/// \param told what happened, by a rank that has seen it; empty: another rank tells it.
void rank_watch::end_job(const peer& p, liveness::kind what, const std::string& told) {
  bool first = true;
  code_ = code_for_end(p.state.status);       // as if the launcher had been faster
  ends_at_ = steady_seconds() + teller_limit; // even if the rank that reports it fails
  if (p.place >= 0) {
    known_[static_cast<std::size_t>(p.place)] = true;
    std::uint32_t nobody = 0;
    first = host_record::of(host_, p.place)
                .found.compare_exchange_strong(nobody, 1 + static_cast<std::uint32_t>(what), std::memory_order_relaxed);
  }
  if (!first) {
    log_error("of rank " + std::to_string(p.rank) + ", which is lost: " + known_here(p));
    tell_program(p, told);
    return;
  }
  std::string hint = nothing_goes_on;
  if (what == liveness::kind::stopped)
    hint += "; --tern-failure-limit=SECONDS lets ranks be stopped for longer, 0 for ever";
  if (what == liveness::kind::silent)
    hint +=
        "; does it compute for longer than --tern-silence-limit without letting messages in? --tern-progress=thread "
        "answers meanwhile";
  if (p.state.status == SIGKILL) hint += "; the kernel kills processes when memory runs out: see dmesg";
  const std::string text = error(errc::transport, told + "; " + known_here(p), hint).what();
  log_error(text); // before all else: a launcher may be about to kill us too
  tell_program(p, told);
  if (!crashed(p.state.status)) report_failure_here(text);
  // Others look once in each tick, and add what they know.
  const double begun = steady_seconds();
  double passed = 0;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    passed = steady_seconds() - begun;
  } while (passed < std::max(0.3, 2 * cfg_.tick) || (here_.failures().running() > 0 && passed < program_limit));
  // Launchers ask processes to end, and one that is stopped would not hear it.
  for (const peer& each : peers_)
    if (each.place >= 0 && state_of(each.who).sign == process_sign::stopped) kill_process(each.who);
  abort();
}

void rank_watch::abort() noexcept {
  tell_of_parts();
  here_.wire().abort(code_);
  __builtin_unreachable(); // g++ does not see [[noreturn]] through the virtual call
}

} // namespace tern::net::detail
