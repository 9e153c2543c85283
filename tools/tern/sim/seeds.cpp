// SPDX-License-Identifier: Apache-2.0
#include "tools/tern/sim/seeds.hpp"

#include "tools/tern/launch/process.hpp"
#include "tools/tern/launch/started.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tern::tool {
namespace {

using clock_type = std::chrono::steady_clock;
constexpr auto never = clock_type::time_point::max();
constexpr std::size_t kept_output = 64 * 1024;
constexpr auto progress_interval = std::chrono::milliseconds(200);

clock_type::duration seconds(double s) {
  return std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(s));
}

/// The end of what a program has written.
class tail {
public:
  void add(std::string_view more) {
    text_ += more;
    if (text_.size() > 2 * kept_output) cut();
  }
  /// With a line that tells what is left out.
  std::string text() {
    cut();
    std::string all = left_out_ ? "tern: … " + std::to_string(left_out_) + " bytes before this are left out …\n" : "";
    all += text_;
    if (!all.empty() && all.back() != '\n') all += '\n';
    return all;
  }

private:
  void cut() {
    if (text_.size() <= kept_output) return;
    left_out_ += text_.size() - kept_output;
    text_.erase(0, text_.size() - kept_output);
  }
  std::string text_;
  std::uint64_t left_out_ = 0;
};

/// A run under way, under a process of its own that sees to the end of all that the program starts,
/// and then ends as the program did.
struct running {
  std::uint64_t number = 0;
  start_file mark;
  pid_t keeper = -1;
  int output = -1;
  tail written = {};
  clock_type::time_point limit = never;
  bool too_long = false, unwanted = false, ended = false;
  exit_status status = {};
};

class searcher {
public:
  explicit searcher(const seed_search& what) : what_(what), show_progress_(isatty(STDERR_FILENO) == 1) {
    result_.well.resize(what.ways.size());
  }
  ~searcher() {
    stop_all();
    clear_progress();
    if (signals_ >= 0) close(signals_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  searcher(const searcher&) = delete;
  searcher& operator=(const searcher&) = delete;

  search_result run() {
    prctl(PR_SET_CHILD_SUBREAPER, 1); // for what a killed keeper leaves
    sigset_t watched;
    sigemptyset(&watched);
    for (const int s : {SIGCHLD, SIGTERM, SIGHUP, SIGINT}) sigaddset(&watched, s);
    sigprocmask(SIG_BLOCK, &watched, &old_mask_);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) throw failure(std::string("no signalfd: ") + std::strerror(errno));
    started_ = clock_type::now();
    const auto end = what_.budget > 0 ? started_ + seconds(what_.budget) : never;
    for (;;) {
      if (result_.interrupted_by || clock_type::now() >= end) break;
      while (!result_.failed && next_ < what_.runs() && running_.size() < static_cast<std::size_t>(what_.jobs))
        start_next();
      if (running_.empty()) break;
      step(end);
    }
    // Only if all smaller ones came to their end is a failing one the first.
    if (auto& failed = result_.failed)
      failed->first =
          std::none_of(running_.begin(), running_.end(), [&](const running& r) { return r.number < failed->number; });
    stop_all();
    clear_progress();
    result_.seconds = spent();
    return result_;
  }

private:
  void start_next() {
    int output[2];
    if (pipe2(output, O_CLOEXEC) != 0) throw failure(std::string("no pipe: ") + std::strerror(errno));
    running one{next_, start_file(scratch_, std::to_string(next_))};
    const pid_t parent = getpid();
    std::fflush(nullptr);
    one.keeper = fork();
    if (one.keeper < 0) {
      const int problem = errno;
      close(output[0]);
      close(output[1]);
      throw failure(std::string("cannot start a process: ") + std::strerror(problem));
    }
    if (one.keeper == 0) keep(one, output[1], parent);
    close(output[1]);
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    one.output = output[0];
    one.limit = clock_type::now() + seconds(what_.limit);
    running_.push_back(std::move(one));
    ++next_;
  }

  /// The forked copy of this process that sees to one run.
  [[noreturn]] void keep(const running& run, int output, pid_t parent) {
    setpgid(0, 0); // a Ctrl-C is for the one that decides
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    for (const int s : {SIGTERM, SIGHUP}) std::signal(s, SIG_DFL); // by which we end it, also under nohup
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    exit_status status{126, 0};
    try {
      const sim_way& way = what_.ways[run.number % what_.ways.size()];
      sim::world w = way.world;
      w.seed = what_.first + run.number / what_.ways.size();
      job one;
      one.argv = what_.argv;
      // Many programs that write one trace at the same time would spoil it.
      one.environment = {{"TERN_SIM", sim_text(w)},
                         {"TERN_TRANSPORT", "sim"},
                         {"TERN_TRACE", std::nullopt},
                         {"TERN_STARTED", run.mark.path()}};
      one.environment.insert(one.environment.end(), way.environment.begin(), way.environment.end());
      one.ranks = all_ranks(w.ranks);
      status = supervise(one).status;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "tern: %s\n", e.what());
    }
    if (status.signal) { // pass it on
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none); // the program has had its own
      prctl(PR_SET_DUMPABLE, 0);
      std::signal(status.signal, SIG_DFL);
      sigset_t all;
      sigfillset(&all);
      sigprocmask(SIG_UNBLOCK, &all, nullptr);
      raise(status.signal);
    }
    _exit(status.shell_code());
  }

  void step(clock_type::time_point end) {
    std::vector<pollfd> waiting{{signals_, POLLIN, 0}};
    auto next = end;
    for (const auto& one : running_) {
      waiting.push_back({one.output, POLLIN, 0});
      if (!one.too_long && !one.unwanted) next = std::min(next, one.limit);
    }
    auto left = next == never ? std::chrono::milliseconds(60'000)
                              : std::chrono::ceil<std::chrono::milliseconds>(next - clock_type::now());
    if (show_progress_) left = std::min(left, progress_interval);
    poll(waiting.data(), waiting.size(), static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
    if (waiting[0].revents) handle_signals();
    if (result_.interrupted_by) return;
    for (auto& one : running_) read_output_of(one);
    for (auto it = running_.begin(); it != running_.end();)
      if (it->ended) {
        close(it->output);
        if (!it->unwanted) judge(*it);
        it = running_.erase(it);
      } else {
        ++it;
      }
    const auto now = clock_type::now();
    for (auto& one : running_)
      if (!one.unwanted && !one.too_long && now >= one.limit) {
        one.too_long = true;
        stop(one);
      } else if (!one.unwanted && result_.failed && one.number > result_.failed->number) {
        one.unwanted = true;
        stop(one);
      }
    if (show_progress_ && now >= progress_at_) {
      progress_at_ = now + progress_interval;
      std::fprintf(stderr, "\rtern: %llu of %s, %.0f s ", static_cast<unsigned long long>(result_.all_well()),
                   count_of(what_, what_.runs()).c_str(), spent());
      std::fflush(stderr);
      progress_shown_ = true;
    }
  }

  void handle_signals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == sizeof info)
      if (static_cast<int>(info.ssi_signo) != SIGCHLD && result_.interrupted_by == 0)
        result_.interrupted_by = static_cast<int>(info.ssi_signo);
    reap();
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
      for (auto& one : running_)
        if (one.keeper == pid) {
          one.ended = true;
          one.status = {WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
        }
  }

  static void read_output_of(running& one) {
    std::array<char, 65536> buffer;
    // All of it once the program has ended; no process is left that could write more.
    for (std::size_t all = 0; one.ended || all < buffer.size();) {
      const ssize_t n = read(one.output, buffer.data(), buffer.size());
      if (n <= 0) return;
      one.written.add({buffer.data(), static_cast<std::size_t>(n)});
      all += static_cast<std::size_t>(n);
    }
  }

  void judge(running& one) {
    const bool started = one.mark.started(), well = !one.too_long && one.status.shell_code() == 0;
    if (well && started) {
      ++result_.well[one.number % what_.ways.size()];
      return;
    }
    if (result_.failed && result_.failed->number < one.number) return;
    result_.not_started = well;
    result_.failed = {one.number,
                      (one.too_long        ? "still running after " + number_text(what_.limit) + " s"
                       : one.status.signal ? "killed by " + signal_name(one.status.signal)
                                           : "exit code " + std::to_string(one.status.code)) +
                          (started ? "" : ", before it called tern::run"),
                      one.written.text()};
  }

  /// The keeper passes the first signal on and kills with the second; of one kind it might see only
  /// one.
  static void stop(const running& one) {
    kill(one.keeper, SIGTERM);
    kill(one.keeper, SIGHUP);
  }

  /// Nothing is left afterwards. A keeper that cannot end its program in time is ended too.
  void stop_all() {
    for (const auto& one : running_)
      if (!one.ended) stop(one);
    const auto limit = clock_type::now() + std::chrono::seconds(5);
    const auto wait = [this] {
      pollfd waiting{signals_, POLLIN, 0};
      poll(&waiting, 1, 50);
      handle_signals();
    };
    const auto left = [this] {
      return std::any_of(running_.begin(), running_.end(), [](auto& r) { return !r.ended; });
    };
    while (left() && clock_type::now() < limit) {
      for (auto& one : running_) read_output_of(one); // or it waits for us
      wait();
    }
    const auto last = clock_type::now() + std::chrono::seconds(2);
    for (auto more = descendants(); !more.empty() && clock_type::now() < last; more = descendants()) {
      for (const pid_t pid : more) kill(pid, SIGKILL);
      wait();
    }
    for (auto& one : running_) close(one.output);
    running_.clear();
  }

  void clear_progress() {
    if (progress_shown_) std::fprintf(stderr, "\r%60s\r", "");
    progress_shown_ = false;
  }

  double spent() const { return std::chrono::duration<double>(clock_type::now() - started_).count(); }

  const seed_search& what_;
  const scratch_folder scratch_;
  std::uint64_t next_ = 0;
  std::list<running> running_;
  search_result result_;
  int signals_ = -1;
  sigset_t old_mask_{};
  clock_type::time_point started_, progress_at_ = clock_type::now() + progress_interval;
  const bool show_progress_;
  bool progress_shown_ = false;
};

} // namespace

std::string sim_text(const sim::world& w) {
  std::string text = sim::to_string(w);
  // A text without it leaves the number to the environment.
  if (w.workers == 1 && (std::getenv("TERN_WORKERS") || std::getenv("TERN_OPTIONS"))) text += ",workers=1";
  return text;
}

std::string not_simulated(const std::string& program) {
  return program + " did not call tern::run, so nothing was simulated; is it the program itself that stands behind --, "
                   "built with this Tern?";
}

std::string count_of(const seed_search& what, std::uint64_t number) {
  return std::to_string(number) + " " + what.counted[number == 1 ? 0 : 1];
}

std::string number_text(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

std::uint64_t search_result::all_well() const {
  std::uint64_t sum = 0;
  for (const auto n : well) sum += n;
  return sum;
}

search_result search_seeds(const seed_search& what) { return searcher(what).run(); }

void tell_failure(const seed_search& what, const failed_run& run, const std::string& which) {
  std::fwrite(run.output.data(), 1, run.output.size(), stdout);
  std::fflush(stdout);
  const sim_way& way = what.ways[run.number % what.ways.size()];
  sim::world w = way.world;
  w.seed = what.first + run.number / what.ways.size();
  const std::string place =
      run.first ? ", the first of " + std::to_string(run.number + 1) : ", and a smaller one may too";
  // What we set for the program may be set otherwise where the command is typed.
  const char* const transport = std::getenv("TERN_TRANSPORT");
  const bool force = std::getenv("TERN_OPTIONS") || (transport && std::string_view(transport) != "auto");
  std::string variables;
  for (const auto& [name, value] : way.environment) variables += name + "=" + quoted(value) + " ";
  const std::string text = quoted(sim_text(w)), program = quoted(what.shown);
  std::fprintf(stderr,
               "tern: %s fails (%s)%s; to see it again:\n"
               "  TERN_SIM=%s %s%s%s\n"
               "  %s%s sim --world %s --trace replay.json -- %s\n",
               which.c_str(), run.how.c_str(), place.c_str(), text.c_str(), force ? "TERN_TRANSPORT=sim " : "",
               variables.c_str(), program.c_str(), variables.c_str(), own_command().c_str(), text.c_str(),
               program.c_str());
}

std::optional<int> tell_early_end(const seed_search& what, const search_result& result) {
  if (result.not_started) {
    std::fwrite(result.failed->output.data(), 1, result.failed->output.size(), stdout);
    std::fflush(stdout);
    std::fprintf(stderr, "tern: %s\n", not_simulated(what.shown[0]).c_str());
    return 1;
  }
  if (result.interrupted_by) {
    std::fprintf(stderr, "tern: %s after %.1f s; %llu of %s%s\n",
                 result.interrupted_by == SIGINT ? "interrupted"
                                                 : ("ended by " + signal_name(result.interrupted_by)).c_str(),
                 result.seconds, static_cast<unsigned long long>(result.all_well()),
                 count_of(what, what.runs()).c_str(), result.failed ? " did not fail" : ", none fails");
    return 128 + result.interrupted_by;
  }
  if (!result.failed && result.all_well() == 0) {
    std::fprintf(stderr, "tern: none of %s came to its end in %s s; give them more (--budget)\n",
                 count_of(what, what.runs()).c_str(), number_text(what.budget).c_str());
    return 1;
  }
  return std::nullopt;
}

int tell_seeds(const seed_search& what, const search_result& result) {
  if (result.failed && !result.not_started)
    tell_failure(what, *result.failed, "seed " + std::to_string(what.first + result.failed->number));
  if (const auto code = tell_early_end(what, result)) return *code;
  if (result.failed) return 1;
  const auto well = result.all_well();
  if (well == what.runs())
    std::fprintf(stderr, "tern: %s, none fails (%.1f s)\n", count_of(what, well).c_str(), result.seconds);
  else
    std::fprintf(stderr, "tern: %llu of %s in %s s, none fails\n", static_cast<unsigned long long>(well),
                 count_of(what, what.runs()).c_str(), number_text(what.budget).c_str());
  return 0;
}

} // namespace tern::tool
