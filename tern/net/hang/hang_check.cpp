// SPDX-License-Identifier: Apache-2.0
#include <tern/net/hang/hang_check.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <system_error>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/net/failure/host_record.hpp>
#include <tern/net/node.hpp>
#include <tern/net/report.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/task/boundary/own_threads.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {
namespace {

const option<std::string> hang_option{
    "hang", "stop",
    "what follows when no rank can ever go on, where all are in one process: end the job with code 1, and say what "
    "each fiber waits for; only say it; or do not look",
    one_of({"stop", "report", "off"})};

const option<double> notice_option{
    "hang-notice", 30,
    "seconds without progress after which a line says how to get a report, once, where it cannot be known that no rank "
    "will ever go on: under MPI, and with threads of the program; 0: never",
    between<double>(0, 1e6)};

constexpr double patience = 2; // seconds without progress before any worker is held
constexpr int tries = 20;      // workers wake now and then to have a look, so not all sleep at each moment
constexpr std::size_t most_lines = 20;

using held = std::unique_lock<tern::detail::spin_lock>;

/// \param whole the process has all ranks, so what has come counts too.
bool stands_still_now(const std::vector<node*>& ranks, bool whole) {
  std::vector<held> all;
  all.reserve(ranks.size());
  for (node* n : ranks) {
    tern::detail::scheduler_core& core = n->fibers().inside();
    all.emplace_back(core.parking.freeze);
    if (!core.parking.stands_still()) return false;
  }
  return !whole || std::all_of(ranks.begin(), ranks.end(), [](node* n) { return n->nothing_under_way(); });
}

bool stands_still(const std::vector<node*>& ranks, bool whole) {
  for (int i = 0; i < tries; ++i) {
    if (stands_still_now(ranks, whole)) return true;
    usleep(2000); // a worker that has only had a look sleeps again
  }
  return false;
}

bool is_ours(const std::vector<node*>& ranks, int thread) {
  if (thread == static_cast<int>(gettid()) || tern::detail::is_own_thread(thread)) return true;
  return std::any_of(ranks.begin(), ranks.end(), [&](node* n) {
    const tern::detail::scheduler_core& core = n->fibers().inside();
    return core.loop.poller_thread.load(std::memory_order_relaxed) == thread ||
           std::any_of(core.workers.begin(), core.workers.end(), [&](const auto& w) { return w->thread == thread; });
  });
}

/// What else in this process could bring something to the ranks; empty: nothing.
std::string others_in_process(const std::vector<node*>& ranks) {
  std::error_code failed;
  std::size_t others = 0, seen = 0;
  for (std::filesystem::directory_iterator at("/proc/self/task", failed), end; !failed && at != end;
       at.increment(failed)) {
    ++seen;
    others += !is_ours(ranks, std::atoi(at->path().filename().c_str()));
  }
  if (failed || seen == 0) return "threads of the program, which cannot be told here,";
  if (others == 1) return "a thread that is not Tern's";
  if (others > 1) return std::to_string(others) + " threads that are not Tern's";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:") && std::atoi(line.c_str() + 10) != 0) return "a debugger";
    if (!line.starts_with("SigCgt:")) continue;
    const unsigned long long caught = std::strtoull(line.c_str() + 7, nullptr, 16);
    // Ours, those of crashes, and the C library's own two.
    constexpr int harmless[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGUSR1, SIGUSR2, 32, 33};
    for (int s = 1; s <= 64; ++s)
      if ((caught >> (s - 1) & 1) != 0 && std::find(std::begin(harmless), std::end(harmless), s) == std::end(harmless))
        return std::string("a handler of the signal ") +
               (s < SIGRTMIN ? std::string("SIG") + sigabbrev_np(s) : std::to_string(s));
  }
  return {};
}

std::uint64_t progress(const std::vector<node*>& ranks) noexcept {
  std::uint64_t all = 0;
  for (node* n : ranks) all += progress_of(*n);
  return all;
}

bool is_whole(const std::vector<node*>& ranks) {
  return !ranks.front()->wire().processes() && ranks.size() == static_cast<std::size_t>(ranks.front()->size());
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// Of the processes of this host: since when the last of them stands still; negative: not all do.
double all_still_since(const host_memory& host) {
  double last = 0;
  for (int place = 0; place < host.ranks; ++place) {
    const detail::host_record& note = detail::host_record::of(host, place);
    const std::uint64_t since = note.still_since.load(std::memory_order_relaxed);
    if (since == 0 || note.leaving.load(std::memory_order_relaxed) != 0) return -1;
    last = std::max(last, static_cast<double>(since - 1));
  }
  return last;
}

} // namespace

standstill_watch::standstill_watch(const options& opts)
    : off_(opts[hang_option] == "off"), ends_(opts[hang_option] == "stop"), notice_(opts[notice_option]),
      last_look_(steady_seconds()), still_since_(last_look_) {}

void standstill_watch::look_if_due() {
  const double now = steady_seconds();
  if (off_ || now - last_look_ < 0.9 * tick) return;
  if (now - last_look_ > 3 * tick) still_since_ += now - last_look_ - tick; // all may have been stopped
  last_look_ = now;
  with_ranks([&](const std::vector<node*>& ranks) { look(ranks, now); });
}

void standstill_watch::look(const std::vector<node*>& ranks, double now) {
  if (ranks.empty() || ranks.front()->simulated()) return;
  const std::uint64_t made = progress(ranks);
  const bool moved = made != progress_ || ranks.size() != ranks_;
  progress_ = made;
  ranks_ = ranks.size();
  if (moved) {
    still_since_ = now;
    told_ = false;
  }
  if (!is_whole(ranks)) return look_at_process(*ranks.front(), now);
  if (told_ || now - still_since_ < patience || !stands_still(ranks, true)) return;
  const std::string others = others_in_process(ranks);
  // Else a thread may have brought something just before it ended, or a fiber have begun one that
  // was not counted.
  if (!stands_still(ranks, true) || progress(ranks) != made) return;
  if (others.empty()) return found(ranks);
  if (notice_ > 0 && now - still_since_ >= notice_)
    say(now - still_since_,
        ranks.size() == 1 ? "the rank waits" : "all " + std::to_string(ranks.size()) + " ranks wait",
        others + " may bring something yet");
}

void standstill_watch::found(const std::vector<node*>& ranks) {
  told_ = true;
  const std::string text =
      error(errc::deadlock,
            "nothing can happen any more, and " + std::to_string(ranks.size()) +
                (ranks.size() == 1 ? " rank has" : " ranks have") +
                " not ended:" + without_messages(describe(ranks, 2)),
            ends_ ? "look at what they wait for, and which code should have sent it; --tern-hang=report keeps the job"
                  : "look at what they wait for, and which code should have sent it")
          .what();
  if (!ends_) return log_error(text);
  report_failure_here(text);
  ranks.front()->fatal(text);
}

// An MPI process knows of others only what those of its host have noted.
void standstill_watch::look_at_process(node& here, double now) {
  const auto host = here.wire().processes();
  if (!host) return; // ranks of one process that begin or end
  const std::vector<node*> alone{&here};
  const bool still = now - still_since_ >= patience && stands_still(alone, false);
  if (host->first)
    detail::host_record::of(*host, host->mine)
        .still_since.store(still ? static_cast<std::uint64_t>(still_since_) + 1 : 0, std::memory_order_relaxed);
  if (!still || said_ || notice_ <= 0 || here.rank() != 0) return;
  const double since = host->first ? all_still_since(*host) : still_since_;
  if (since < 0 || now - since < notice_) return;
  const int known = host->first ? host->ranks : 1;
  if (known == here.size())
    say(now - since, known == 1 ? "the rank waits" : "all " + std::to_string(known) + " ranks wait", {});
  else
    say(now - since, known == 1 ? "rank 0 waits" : "the " + std::to_string(known) + " ranks of this host wait",
        "those of other hosts may go on");
}

void standstill_watch::say(double seconds, const std::string& who, const std::string& doubt) {
  if (std::exchange(said_, true)) return;
  char text[64];
  std::snprintf(text, sizeof text, " and no progress has been made for %.0f s", seconds);
  const int signal = report_signal();
  const std::string how = signal == 0 ? std::string("--tern-watchdog=SECONDS")
                                      : std::string("kill -") + sigabbrev_np(signal) + " " + std::to_string(getpid()) +
                                            ", on " + host_name() + ",";
  log_warning(who + text + (doubt.empty() ? "" : " (" + doubt + ")") + ": " + how +
              " writes a report of what each fiber waits for");
}

std::string standstill_watch::before_end(int number, bool by_launcher) {
  std::string text;
  if (off_ || (number != SIGINT && !by_launcher)) return text;
  with_ranks([&](const std::vector<node*>& ranks) {
    if (ranks.empty() || ranks.front()->simulated()) return;
    const bool whole = is_whole(ranks);
    node& here = *ranks.front();
    const auto host = here.wire().processes();
    if ((!whole && !host) || !stands_still(ranks, whole)) return;
    if (!whole && host->first && all_still_since(*host) < 0) return;
    const std::size_t most = whole ? most_lines : most_lines / static_cast<std::size_t>(here.size());
    if (most < 3) return;
    text = std::string("tern: nothing goes on ") + (whole ? "in this job" : "on rank " + std::to_string(here.rank())) +
           "; what its fibers wait for:\n" + briefly(describe(ranks, 0), most - 2);
  });
  return text;
}

} // namespace tern::net
