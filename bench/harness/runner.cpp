// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/runner.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tern::bench::contest {

namespace {

std::runtime_error system_error(const std::string& what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

/// What this process was told about the runtimes is not meant for a comparison.
std::vector<std::string> clean_environment() {
  std::vector<std::string> kept;
  for (char** one = environ; *one; ++one) {
    const std::string_view variable = *one;
    bool meant = false;
    for (const std::string_view prefix :
         {"OMP_", "KMP_", "GOMP_", "LIBOMP_", "TBB_", "TERN_", "STARPU_", "OPENBLAS_", "GOTO_", "POCL_"})
      meant = meant || variable.starts_with(prefix);
    if (!meant) kept.emplace_back(variable);
  }
  return kept;
}

/// Where it was built, or in `contestants` beside this program: folders are taken to other
/// machines.
std::string found(const std::string& path) {
  if (access(path.c_str(), X_OK) == 0) return path;
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::filesystem::path beside = self.parent_path() / "contestants" / std::filesystem::path(path).filename();
  return std::filesystem::exists(beside, none) ? beside.string() : path;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (auto& one : strings) all.push_back(one.data());
  all.push_back(nullptr);
  return all;
}

} // namespace

runner::runner(const contestant& s, const std::string& benchmark, int workers, std::size_t size,
               std::chrono::seconds patience)
    : what_(s.name + ", " + benchmark + ", " + std::to_string(workers) + " workers, size " + std::to_string(size)),
      patience_(patience) {
  if (s.path.empty()) throw absent(s.name + " is not there: install " + s.needs + " and configure again");
  const std::string path = found(s.path);
  if (access(path.c_str(), X_OK) != 0) throw absent(path + ": " + std::strerror(errno));
  std::vector<std::string> words{path, benchmark, std::to_string(workers), std::to_string(size)};
  std::vector<std::string> environment = clean_environment();
  std::istringstream settings(s.setting);
  for (std::string one; std::getline(settings, one);) environment.push_back(one);
  const std::vector<char*> argv = pointers(words), envp = pointers(environment);
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0) throw system_error("no pipe");
  if (pipe2(out.data(), O_CLOEXEC) != 0) throw system_error("no pipe");
  pid_ = fork();
  if (pid_ < 0) throw system_error("cannot start a process");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // reaches also those that are stopped
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execve(path.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  try {
    if (const std::string first = line(); first != "ready") refused(first);
    stop();
  } catch (...) {
    end();
    throw;
  }
}

int runner::end() noexcept {
  int status = 0;
  if (pid_ < 0) return status;
  // Killed, not asked to end: it may be stopped, or busy for a long time yet.
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  close(to_);
  close(from_);
  return status;
}

void runner::stop() {
  kill(pid_, SIGSTOP);
  // Waits, but leaves a process that has ended in the process table: the system must not give its
  // number to another process yet.
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
}

void runner::gone() {
  const int status = end();
  const std::string how = WIFEXITED(status) ? "with code " + std::to_string(WEXITSTATUS(status))
                                            : "by signal " + std::to_string(WTERMSIG(status));
  throw std::runtime_error(what_ + ": it ended without an answer, " + how);
}

void runner::refused(const std::string& answer) {
  constexpr std::string_view not_there = "absent ";
  if (answer.starts_with(not_there)) throw absent(answer.substr(not_there.size()));
  throw std::runtime_error(what_ + ": " + answer);
}

std::string runner::line() {
  const auto end = std::chrono::steady_clock::now() + patience_;
  for (;;) {
    if (const auto newline = read_.find('\n'); newline != std::string::npos) {
      std::string first = read_.substr(0, newline);
      read_.erase(0, newline + 1);
      return first;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd waiting{from_, POLLIN, 0};
    if (left.count() <= 0) throw too_slow(what_ + ": no answer in " + std::to_string(patience_.count()) + " s");
    if (poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t n = read(from_, buffer.data(), buffer.size());
    if (n > 0)
      read_.append(buffer.data(), static_cast<std::size_t>(n));
    else if (n == 0 || errno != EINTR)
      gone();
  }
}

double runner::run() {
  if (pid_ < 0) throw std::runtime_error(what_ + ": it has ended"); // and a signal to -1 would reach all processes
  kill(pid_, SIGCONT);
  const char go = '\n';
  if (write(to_, &go, 1) != 1) gone();
  const std::string answer = line();
  stop();
  char* rest = nullptr;
  const double seconds = std::strtod(answer.c_str(), &rest);
  if (rest == answer.c_str() || *rest) refused(answer);
  return seconds;
}

double runners::run(const std::string& metric, const request& q) {
  if (metric != metric_) running_.clear();
  metric_ = metric;
  auto& one = running_[q];
  if (!one) one = std::make_unique<runner>(named_(q.contestant), q.benchmark, q.workers, q.size);
  return one->run();
}

double runners::run_afresh(const request& q) {
  running_.clear();
  return runner(named_(q.contestant), q.benchmark, q.workers, q.size).run();
}

namespace {

std::string describe(const std::vector<rival>& rivals) {
  std::string all;
  for (const rival& r : rivals)
    all += (all.empty() ? "" : ", ") + r.contestant + (r.benchmark.empty() ? "" : " " + r.benchmark);
  return rivals.size() > 1 ? "faster of " + all : all;
}

} // namespace

metric compare(runners& running, comparison c) {
  std::vector<rival> there;
  std::vector<std::string> missing;
  for (const rival& r : c.rivals)
    if (!running.named(r.contestant).path.empty())
      there.push_back(r);
    else
      missing.push_back(r.contestant);
  if (there.empty()) {
    there = c.rivals; // running them tells what is missing
    missing.clear();
  }
  const std::string name = describe(there);
  const auto measured = [c, &running](const std::string& contestant, const std::string& benchmark) {
    const std::string& what = benchmark.empty() ? c.benchmark : benchmark;
    return running.run(c.name, request{contestant, what, c.workers, c.size}) * 1e3;
  };
  return {.name = c.name,
          .unit = "ms",
          .target = c.target,
          .rival_name = name,
          .ours = [measured] { return measured("tern", ""); },
          .rival =
              [measured, there] {
                double best = std::numeric_limits<double>::infinity();
                for (const rival& r : there) best = std::min(best, measured(r.contestant, r.benchmark));
                return best;
              },
          .missing = missing};
}

} // namespace tern::bench::contest
