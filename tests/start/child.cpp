// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace start {
namespace {

using clock_type = std::chrono::steady_clock;

[[noreturn]] void become(const std::vector<std::string>& command, const std::vector<std::string>& environment, int out,
                         int err) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  std::vector<char*> arguments, variables;
  for (const auto& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  for (const auto& one : environment) variables.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  execve(arguments[0], arguments.data(), variables.data());
  _exit(127);
}

} // namespace

std::string ending::all() const {
  return (in_time ? "code " + std::to_string(code) : std::string("killed after the deadline")) + "\nout: " + out +
         "\nerr: " + err;
}

ending run(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
           double seconds) {
  std::vector<std::string> variables;
  for (char** each = environ; *each; ++each)
    if (!std::string_view(*each).starts_with("TERN_")) variables.emplace_back(*each);
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);

  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) become(command, variables, out[1], err[1]);
  setpgid(child, child); // both sides do it: neither may be late
  close(out[1]);
  close(err[1]);

  ending end;
  const auto start = clock_type::now();
  const auto left = [&] { return seconds - std::chrono::duration<double>(clock_type::now() - start).count(); };
  std::array<pollfd, 2> reading{pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  bool ended = false;
  int status = 0;
  while (left() > 0 && !ended) {
    poll(reading.data(), reading.size(), 20);
    for (std::size_t i = 0; i < reading.size(); ++i) {
      if (!reading[i].revents) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = read(reading[i].fd, buffer.data(), buffer.size());
      if (n > 0)
        (i == 0 ? end.out : end.err).append(buffer.data(), static_cast<std::size_t>(n));
      else
        reading[i].fd = -1;
    }
    // A launcher's grandchildren may keep the pipes a moment longer than it lives, so both must be over.
    if (reading[0].fd < 0 && reading[1].fd < 0) ended = waitpid(child, &status, WNOHANG) == child;
  }
  if (!ended) {
    kill(child, SIGTERM); // a launcher ends its ranks then
    for (int tries = 0; tries < 50 && waitpid(child, &status, WNOHANG) != child; ++tries) usleep(20000);
    kill(-child, SIGKILL);
    waitpid(child, &status, WNOHANG);
  }
  close(out[0]);
  close(err[0]);
  end.in_time = ended;
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

} // namespace start
