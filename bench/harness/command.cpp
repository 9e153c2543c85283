// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/command.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tern::bench {

namespace {

std::string tail(const std::string& text) { return text.size() > 2000 ? "…" + text.substr(text.size() - 2000) : text; }

/// Reads both pipes until both have ended.
void read_both(int out, std::string& out_text, int err, std::string& err_text) {
  std::array<pollfd, 2> waiting{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<char, 65536> buffer;
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) break;
    for (auto& one : waiting) {
      if (one.fd < 0 || one.revents == 0) continue;
      const ssize_t n = read(one.fd, buffer.data(), buffer.size());
      if (n > 0)
        (one.fd == out ? out_text : err_text).append(buffer.data(), static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        one.fd = -1;
    }
  }
}

} // namespace

child_result run_command(const std::vector<std::string>& argv,
                         const std::vector<std::pair<std::string, std::string>>& environment) {
  if (argv.empty()) throw std::invalid_argument("run_command: no program given");
  int out[2], err[2], report[2];
  if (pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  if (pipe2(err, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  std::vector<char*> raw;
  for (const auto& one : argv) raw.push_back(const_cast<char*>(one.c_str()));
  raw.push_back(nullptr);
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); // not KILL: an MPI launcher has ranks to end
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(raw[0], raw.data());
    const int problem = errno;
    const bool told = write(report[1], &problem, sizeof problem) == sizeof problem;
    _exit(told ? 127 : 126);
  }
  for (const int fd : {out[1], err[1], report[1]}) close(fd);
  child_result done;
  std::string errors;
  int problem = 0, status = 0;
  const bool not_started = read(report[0], &problem, sizeof problem) == sizeof problem;
  read_both(out[0], done.output, err[0], errors);
  rusage usage{};
  while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  done.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  for (const int fd : {out[0], err[0], report[0]}) close(fd);
  if (not_started) throw absent(argv[0] + ": " + std::strerror(problem));
  if (WIFSIGNALED(status))
    throw std::runtime_error(argv[0] + " was killed by signal " + std::to_string(WTERMSIG(status)) + ": " +
                             tail(errors));
  if (WEXITSTATUS(status) != 0)
    throw std::runtime_error(argv[0] + " ended with exit code " + std::to_string(WEXITSTATUS(status)) + ": " +
                             tail(errors.empty() ? done.output : errors));
  return done;
}

nlohmann::json run_for_json(const std::vector<std::string>& argv, const std::string& json_file,
                            const std::vector<std::pair<std::string, std::string>>& environment) {
  if (!json_file.empty()) {
    std::remove(json_file.c_str()); // an old report must not pass for the new one
    run_command(argv, environment);
    std::ifstream file(json_file);
    if (!file) throw std::runtime_error(argv[0] + " did not write " + json_file);
    auto value = nlohmann::json::parse(file, nullptr, false);
    if (value.is_discarded()) throw std::runtime_error(json_file + ", written by " + argv[0] + ", is no JSON");
    return value;
  }
  std::istringstream lines(run_command(argv, environment).output);
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    auto value = nlohmann::json::parse(line, nullptr, false);
    if (value.is_object()) last = std::move(value);
  }
  if (!last.is_object()) throw std::runtime_error(argv[0] + " wrote no line that is a JSON object");
  return last;
}

} // namespace tern::bench
