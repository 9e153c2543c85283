// SPDX-License-Identifier: Apache-2.0
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tern::tool {

namespace fs = std::filesystem;

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

std::string killed_by(int signal) { return "was killed by " + signal_name(signal) + " (" + strsignal(signal) + ")"; }

std::string all_ranks(int ranks) {
  return ranks == 1 ? "the rank" : ranks > 0 ? "all " + std::to_string(ranks) + " ranks" : "all ranks";
}

std::string quoted(const std::string& word, bool command) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") == word.npos &&
      !(command && word.find('=') != word.npos))
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + quoted(word, text.empty());
  return text;
}

std::string own_command() {
  std::error_code failed;
  if (const auto found = look_for_program("tern"); found && fs::equivalent(*found, "/proc/self/exe", failed))
    return "tern";
  std::ifstream file("/proc/self/cmdline");
  std::string typed;
  return std::getline(file, typed, '\0') && !typed.empty() ? quoted(typed, true) : "tern";
}

namespace {

bool executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<fs::path> in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (executable_file(candidate)) return candidate;
  }
  return std::nullopt;
}

/// Reads `fd` until its end or the time is over; \return whether it ended.
bool drain(int fd, std::string& text, int milliseconds) {
  timespec start{};
  clock_gettime(CLOCK_MONOTONIC, &start);
  std::array<char, 4096> buffer;
  for (;;) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const auto spent = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1'000'000;
    const int left = milliseconds < 0 ? -1 : static_cast<int>(std::max<std::int64_t>(0, milliseconds - spent));
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, left);
    if (ready == 0) return false;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n > 0)
      text.append(buffer.data(), static_cast<std::size_t>(n));
    else if (n == 0 || errno != EINTR)
      return true;
  }
}

exit_status wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

} // namespace

std::optional<fs::path> look_for_program(const std::string& name) {
  if (name.find('/') == std::string::npos) return in_path(name);
  return executable_file(name) ? std::optional<fs::path>(name) : std::nullopt;
}

fs::path find_program(const std::string& name) {
  if (auto found = look_for_program(name)) return *found;
  std::error_code ignored;
  const bool has_slash = name.find('/') != std::string::npos;
  if (!has_slash) {
    if (executable_file(fs::path(".") / name))
      throw failure("there is no program \"" + name + "\" in PATH; did you mean ./" + name + "?", 127);
    if (!fs::exists(name, ignored))
      throw failure("there is no program \"" + name + "\" in PATH or in this folder", 127);
  }
  if (!fs::exists(name, ignored)) throw failure("there is no program " + name, 127);
  if (fs::is_directory(name, ignored)) throw failure(name + " is a folder, not a program", 126);
  throw failure(name + " is not executable; a program needs `chmod +x`, a script an interpreter in front of it", 126);
}

std::pair<exit_status, std::string> read_output(const std::vector<std::string>& argv) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) throw failure(std::string("no pipe: ") + std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) throw failure(std::string("cannot start a process: ") + std::strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    std::vector<char*> raw;
    for (const auto& one : argv) raw.push_back(const_cast<char*>(one.c_str()));
    raw.push_back(nullptr);
    execvp(raw[0], raw.data());
    _exit(127);
  }
  close(out[1]);
  std::string text;
  drain(out[0], text, -1);
  close(out[0]);
  return {wait_for(pid), text};
}

std::optional<std::string> in_child(const std::function<std::string()>& body, int seconds) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t pid = fork();
  if (pid < 0) return std::nullopt;
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nothing = open("/dev/null", O_RDWR); // libraries may chat
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    std::string text;
    try {
      text = body();
    } catch (const std::exception& e) {
      text = e.what();
    }
    const bool all = write(out[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    std::quick_exit(all ? 0 : 1); // static objects are our parent's; what libraries have registered is done
  }
  close(out[1]);
  std::string text;
  const bool ended = drain(out[0], text, seconds * 1000);
  close(out[0]);
  if (!ended) kill(pid, SIGKILL);
  const auto status = wait_for(pid);
  if (!ended || status.shell_code() != 0) return std::nullopt;
  return text;
}

} // namespace tern::tool
