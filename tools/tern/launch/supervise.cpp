// SPDX-License-Identifier: Apache-2.0
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tern::tool {
namespace {

using clock_type = std::chrono::steady_clock;

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n > 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (n < 0 && errno == EAGAIN) { // another process made our terminal non-blocking
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (n < 0 && errno != EINTR)
      return; // no process reads any more
  }
}

class supervisor {
public:
  explicit supervisor(const job& what) : job_(what) {}
  ~supervisor() {
    for (const int fd : {signals_, out_[0], out_[1], err_[0], err_[1]})
      if (fd >= 0) close(fd);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  outcome run() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t watched;
    sigemptyset(&watched);
    for (const int s : {SIGCHLD, SIGTERM, SIGHUP}) sigaddset(&watched, s);
    if (job_.own_group) sigaddset(&watched, SIGINT);
    sigprocmask(SIG_BLOCK, &watched, &old_mask_);
    if (!job_.own_group) std::signal(SIGINT, SIG_IGN); // the debugger's
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    started_ = clock_type::now();
    start();
    while (!ended_ || reading()) step();
    clean_up();
    result_.seconds = std::chrono::duration<double>(clock_type::now() - started_).count();
    return result_;
  }

private:
  bool reading() const { return out_[0] >= 0 || err_[0] >= 0; }

  void start() {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0 || (job_.standard_output && pipe2(out_, O_CLOEXEC) != 0) ||
        (job_.standard_error && pipe2(err_, O_CLOEXEC) != 0))
      throw failure(std::string("no pipe: ") + std::strerror(errno));
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw failure(std::string("cannot start a process: ") + std::strerror(errno));
    if (pid_ == 0) become_job(report[1], parent);
    if (job_.own_group) setpgid(pid_, pid_); // both sides do it: neither may be late
    close(report[1]);
    for (int* fd : {&out_[1], &err_[1]}) {
      if (*fd >= 0) close(*fd);
      *fd = -1;
    }
    int problem = 0;
    const bool failed = read(report[0], &problem, sizeof problem) == sizeof problem;
    close(report[0]);
    if (failed) {
      waitpid(pid_, nullptr, 0);
      throw failure("cannot execute " + job_.argv[0] + ": " + std::strerror(problem), 126);
    }
  }

  [[noreturn]] void become_job(int report, pid_t parent) {
    if (job_.own_group) setpgid(0, 0);
    // If we are killed, so is the job; a launcher gets the chance to end its ranks.
    prctl(PR_SET_PDEATHSIG, job_.signal_leader_only ? SIGTERM : SIGKILL);
    if (getppid() != parent) _exit(1);
    // A background process group that reads the terminal is stopped; input from a file or pipe is
    // passed through.
    if (job_.own_group && (isatty(STDIN_FILENO) || job_.input_copy >= 0)) {
      const int nothing = open("/dev/null", O_RDONLY);
      dup2(nothing, STDIN_FILENO);
    }
    if (out_[1] >= 0) dup2(out_[1], STDOUT_FILENO);
    if (err_[1] >= 0) dup2(err_[1], STDERR_FILENO);
    for (const auto& [name, value] : job_.environment)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    std::signal(SIGPIPE, job_.survives_closed_pipes ? SIG_IGN : SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    std::vector<char*> raw;
    for (const auto& one : job_.argv) raw.push_back(const_cast<char*>(one.c_str()));
    raw.push_back(nullptr);
    execv(raw[0], raw.data());
    const int problem = errno;
    const bool told = write(report, &problem, sizeof problem) == sizeof problem;
    _exit(told ? 127 : 126);
  }

  void step() {
    std::array<pollfd, 4> waiting{pollfd{signals_, POLLIN, 0}, pollfd{out_[0], POLLIN, 0}, pollfd{err_[0], POLLIN, 0},
                                  pollfd{job_.input_copy >= 0 && !input_ended_ ? STDIN_FILENO : -1, POLLIN, 0}};
    poll(waiting.data(), waiting.size(), next_deadline());
    if (waiting[1].revents) pass_on(out_[0], STDOUT_FILENO, *job_.standard_output);
    if (waiting[2].revents) pass_on(err_[0], STDERR_FILENO, *job_.standard_error);
    if (waiting[3].revents) copy_input();
    if (waiting[0].revents) handle_signals();
    check_deadlines();
  }

  int next_deadline() const {
    auto next = clock_type::time_point::max();
    for (const auto& one : {hint_at_, kill_at_, stop_reading_at_}) next = std::min(next, one);
    if (next == clock_type::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - clock_type::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  void check_deadlines() {
    const auto now = clock_type::now();
    if (now >= hint_at_) {
      hint_at_ = clock_type::time_point::max();
      std::fprintf(stderr, "tern: %s passed on to %s; a second one kills them\n",
                   signal_name(result_.interrupted_by).c_str(), job_.ranks.c_str());
    }
    if (now >= kill_at_) {
      kill_at_ = now + std::chrono::milliseconds(200); // until all are gone
      kill_hard();
    }
    if (now >= stop_reading_at_) {
      for (int* fd : {&out_[0], &err_[0]}) {
        if (*fd >= 0) close(*fd);
        *fd = -1;
      }
      stop_reading_at_ = clock_type::time_point::max();
    }
  }

  void pass_on(int& from, int to, output_filter& filter) {
    std::array<char, 65536> buffer;
    const ssize_t n = read(from, buffer.data(), buffer.size());
    if (n > 0) {
      write_all(to, filter.feed({buffer.data(), static_cast<std::size_t>(n)}));
    } else if (n == 0 || errno != EINTR) {
      write_all(to, filter.end());
      close(from);
      from = -1;
    }
    if (job_.failed && kill_at_ == clock_type::time_point::max() && job_.failed())
      kill_at_ = clock_type::now() + std::chrono::milliseconds(static_cast<std::int64_t>(1000 * job_.failure_seconds));
  }

  void copy_input() {
    std::array<char, 4096> buffer;
    const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n > 0)
      write_all(job_.input_copy, {buffer.data(), static_cast<std::size_t>(n)});
    else if (n == 0 || errno != EINTR) {
      close(job_.input_copy);
      input_ended_ = true;
    }
  }

  void handle_signals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        reap();
      } else if (result_.interrupted_by == 0) {
        result_.interrupted_by = signal;
        hint_at_ = clock_type::now() + std::chrono::seconds(1);
        // A program may not have a handler for the terminal's hang-up that ends it, but it has one
        // for SIGTERM or none.
        const int passed = signal == SIGHUP ? SIGTERM : signal;
        if (!ended_) kill(job_.signal_leader_only || !job_.own_group ? pid_ : -pid_, passed);
      } else {
        hint_at_ = clock_type::time_point::max();
        kill_at_ = clock_type::now();
      }
    }
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != pid_) continue; // an orphan
      ended_ = true;
      result_.status = {WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
      hint_at_ = clock_type::time_point::max();
      // The job is over. What it left running would keep our pipes open for ever.
      kill_hard();
      stop_reading_at_ = clock_type::now() + std::chrono::seconds(2);
    }
  }

  void kill_hard() {
    if (!ended_) kill(job_.own_group ? -pid_ : pid_, SIGKILL);
    for (const pid_t pid : descendants()) kill(pid, SIGKILL);
  }

  /// Ends when no process of the job is left; one that is stuck in the kernel is given up after two
  /// seconds.
  void clean_up() {
    const auto limit = clock_type::now() + std::chrono::seconds(2);
    for (;;) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      const auto left = descendants();
      if (left.empty() || clock_type::now() > limit) return;
      for (const pid_t pid : left) kill(pid, SIGKILL);
      pollfd waiting{signals_, POLLIN, 0}; // SIGCHLD tells of the next one
      poll(&waiting, 1, 50);
      signalfd_siginfo info{};
      while (read(signals_, &info, sizeof info) == sizeof info) {
      }
    }
  }

  const job& job_;
  outcome result_;
  pid_t pid_ = -1;
  bool ended_ = false, input_ended_ = false;
  int signals_ = -1, out_[2] = {-1, -1}, err_[2] = {-1, -1};
  sigset_t old_mask_{};
  clock_type::time_point started_, hint_at_ = clock_type::time_point::max(), kill_at_ = clock_type::time_point::max(),
                                   stop_reading_at_ = clock_type::time_point::max();
};

} // namespace

outcome supervise(const job& what) { return supervisor(what).run(); }

int say_interrupted(const outcome& end, const std::string& ranks) {
  std::fprintf(stderr, "tern: %s after %.1f s; %s ended\n",
               end.interrupted_by == SIGINT ? "interrupted" : ("ended by " + signal_name(end.interrupted_by)).c_str(),
               end.seconds, ranks.c_str());
  return 128 + end.interrupted_by;
}

std::vector<pid_t> descendants() {
  if (siginfo_t info{}; waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
    return {}; // no children, so none: a look at all processes of a large machine takes milliseconds
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;
    const auto bracket = line.rfind(')'); // the name before it may hold anything
    char state = 0;
    int parent = 0;
    if (bracket == std::string::npos || std::sscanf(line.c_str() + bracket + 1, " %c %d", &state, &parent) != 2)
      continue;
    children.emplace(parent, static_cast<pid_t>(std::stol(name)));
  }
  std::vector<pid_t> found{getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto it = first; it != last; ++it) found.push_back(it->second);
  }
  found.erase(found.begin());
  return found;
}

} // namespace tern::tool
