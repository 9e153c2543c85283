// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// For tests: the mesh program and the `tern` command as child processes. Needs the definitions MESH_PATH,
/// TERN_TOOL_PATH and MESH_TEST_MPIS (the MPIs that can be used, separated by commas).

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace mesh_test {

using strings = std::vector<std::string>;

/// A folder that goes with the test.
struct temporary {
  std::filesystem::path path;
  temporary() {
    std::string name = (std::filesystem::temp_directory_path() / "mesh-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~temporary() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  temporary(const temporary&) = delete;
  temporary& operator=(const temporary&) = delete;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

/// A running program. What it writes is read while we wait for it.
class child {
public:
  explicit child(strings argv, const std::string& folder = {}) {
    if (pipe2(out_, O_CLOEXEC) != 0 || pipe2(err_, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::vector<char*> raw;
    for (auto& one : argv) raw.push_back(one.data());
    raw.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(open("/dev/null", O_RDONLY), 0);
      dup2(out_[1], 1);
      dup2(err_[1], 2);
      if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(98);
      execv(raw[0], raw.data());
      _exit(99);
    }
    close(out_[1]);
    close(err_[1]);
  }
  ~child() {
    if (pid_ > 0) {
      kill(pid_, SIGTERM); // `tern run` ends its ranks
      usleep(500'000);
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_[0]);
    close(err_[0]);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// Reads until stderr has `text`. \return whether it came within 20 s.
  bool wait_for(const std::string& text) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (err.find(text) == std::string::npos)
      if (std::chrono::steady_clock::now() > limit || !read_some()) return false;
    return true;
  }
  /// Reads to the end. \return the exit code, or 1000 + signal, or -1 if it took longer than that.
  int end(double seconds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (read_some())
      if (std::chrono::steady_clock::now() > limit) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  std::string out, err;

private:
  bool read_some() {
    if (!open_[0] && !open_[1]) return false;
    std::array<pollfd, 2> waiting{pollfd{open_[0] ? out_[0] : -1, POLLIN, 0},
                                  pollfd{open_[1] ? err_[0] : -1, POLLIN, 0}};
    poll(waiting.data(), 2, 500);
    for (std::size_t i = 0; i < 2; ++i) {
      if (!waiting[i].revents) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = read(waiting[i].fd, buffer.data(), buffer.size());
      if (n > 0)
        (i ? err : out).append(buffer.data(), static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        open_[i] = false;
    }
    return true;
  }

  int out_[2], err_[2];
  bool open_[2] = {true, true};
  pid_t pid_ = -1;
};

struct finished {
  int code = 0;
  std::string out, err;
};

inline finished run(strings argv, double seconds = 50, const std::string& folder = {}) {
  child one(std::move(argv), folder);
  const int code = one.end(seconds);
  return {code, one.out, one.err};
}

/// The command line of a job: `where` is "" (the program alone, one rank), "inproc" or the name of an MPI.
inline strings job(const std::string& where, int ranks, const strings& arguments, int workers = 0) {
  strings line;
  if (!where.empty()) {
    line = {TERN_TOOL_PATH, "run", "-n", std::to_string(ranks)};
    if (where != "inproc") line.insert(line.end(), {"--mpi", where});
    if (workers > 0) line.insert(line.end(), {"--workers", std::to_string(workers)});
    line.push_back("--");
  }
  line.push_back(MESH_PATH);
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

/// "inproc" and the MPIs that can be used.
inline strings transports() {
  strings names{"inproc"};
  std::istringstream words(MESH_TEST_MPIS);
  for (std::string word; std::getline(words, word, ',');) names.push_back(word);
  return names;
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in, nullptr, false);
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Processes of the mesh program whose command line contains `mark`.
inline std::vector<pid_t> processes_of(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (std::filesystem::read_symlink(entry.path() / "exe", failed) != std::filesystem::path(MESH_PATH)) continue;
    if (has(read_text(entry.path() / "cmdline"), mark)) found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

} // namespace mesh_test
