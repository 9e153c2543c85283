// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tern::test {
namespace {

using clock_type = std::chrono::steady_clock;

clock_type::time_point in_seconds(double seconds) {
  return clock_type::now() + std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(seconds));
}

std::vector<char*> pointers(const strings& words) {
  std::vector<char*> raw;
  for (const auto& one : words) raw.push_back(const_cast<char*>(one.c_str()));
  raw.push_back(nullptr);
  return raw;
}

strings environment_with(const std::optional<variables>& added) {
  strings all;
  for (char** each = environ; *each; ++each) {
    const std::string_view one(*each);
    if (!added || (!one.starts_with("TERN_") && !added->contains(std::string(one.substr(0, one.find('='))))))
      all.emplace_back(one);
  }
  if (added)
    for (const auto& [name, value] : *added) all.push_back(name + "=" + value);
  return all;
}

/// Whether the process has ended; if so it remains as a zombie, so that its id and its group's stay
/// its own.
bool ended(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

} // namespace

temporary::temporary(const std::filesystem::path& in) {
  std::string name = (in / "tern-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path = name;
}

temporary::~temporary() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string temporary::write(const std::string& name, const std::string& text) const {
  std::ofstream(path / name) << text;
  return *this / name;
}

child::child(const strings& argv, const surroundings& around) {
  const strings environment = environment_with(around.environment);
  const auto arguments = pointers(argv), settings = pointers(environment);
  int out_pipe[2], err_pipe[2];
  if (pipe2(out_pipe, O_CLOEXEC) != 0 || pipe2(err_pipe, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("no process");
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(97);
    ::signal(SIGINT, SIG_DFL); // a shell's background jobs ignore it, and so would the program
    dup2(out_pipe[1], STDOUT_FILENO);
    dup2(err_pipe[1], STDERR_FILENO);
    const int in = open(around.input.c_str(), O_RDONLY | O_CLOEXEC);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0) _exit(98);
    if (!around.folder.empty() && chdir(around.folder.c_str()) != 0) _exit(98);
    execve(arguments[0], arguments.data(), settings.data());
    _exit(99);
  }
  setpgid(pid_, pid_); // both sides do it: neither may be late
  close(out_pipe[1]);
  close(err_pipe[1]);
  out_ = out_pipe[0];
  err_ = err_pipe[0];
}

child::~child() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    const auto limit = in_seconds(2);
    while (!ended(pid_) && clock_type::now() < limit) read_some(5); // it may have much to say before it ends
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_, err_})
    if (fd >= 0) close(fd);
}

void child::signal(int which) const {
  if (pid_ > 0) kill(pid_, which);
}

bool child::wait_for(const std::string& in, const std::string& text, int times) {
  const auto limit = in_seconds(20);
  while (count(in, text) < times) {
    if (!reading() || clock_type::now() > limit) return false;
    read_some(500);
  }
  return true;
}

int child::end(double seconds) {
  const auto limit = in_seconds(seconds);
  int status = 0;
  // A launcher's grandchildren may keep the pipes a moment longer than it lives, so both must be
  // over.
  while (reading() || waitpid(pid_, &status, WNOHANG) != pid_) {
    if (clock_type::now() > limit) return -1;
    read_some(reading() ? 100 : 2);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Takes what is there, or waits that long for something.
void child::read_some(int milliseconds) {
  std::array<pollfd, 2> waiting{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  poll(waiting.data(), waiting.size(), milliseconds);
  if (waiting[0].revents) read_from(out_, out);
  if (waiting[1].revents) read_from(err_, err);
}

void child::read_from(int& fd, std::string& into) {
  std::array<char, 4096> buffer;
  const ssize_t n = read(fd, buffer.data(), buffer.size());
  if (n > 0) {
    into.append(buffer.data(), static_cast<std::size_t>(n));
  } else if (n == 0 || errno != EINTR) {
    close(fd);
    fd = -1;
  }
}

std::string finished::all() const {
  return (in_time() ? "code " + std::to_string(code) : std::string("killed after the deadline")) + "\nout: " + out +
         "\nerr: " + err;
}

finished run(const strings& argv, double seconds, const surroundings& around) {
  child one(argv, around);
  const int code = one.end(seconds);
  return {code, std::move(one.out), std::move(one.err)};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

} // namespace tern::test
