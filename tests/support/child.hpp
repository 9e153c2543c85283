// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests: a program as a child process, read while it runs and ended with what it started when
/// its time is over; and a folder that goes with the test. Programs that use it compile child.cpp
/// too.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace tern::test {

using strings = std::vector<std::string>;
using variables = std::map<std::string, std::string>;

/// A folder that goes with the test.
struct temporary {
  std::filesystem::path path;
  explicit temporary(const std::filesystem::path& in = std::filesystem::temp_directory_path());
  ~temporary();
  temporary(const temporary&) = delete;
  temporary& operator=(const temporary&) = delete;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  /// \return the path of the new file.
  std::string write(const std::string& name, const std::string& text) const;
};

/// One on a disk, as a rule: the usual folder for temporary files may be memory itself.
struct temporary_on_disk : temporary {
  temporary_on_disk() : temporary("/var/tmp") {}
  const std::string path = temporary::path.string();
};

/// What a child finds when it starts.
struct surroundings {
  std::string folder = {}; ///< where it runs; empty: here
  std::string input = "/dev/null";
  /// If given, it has these and our own without TERN_…; else just our own.
  std::optional<variables> environment = {};
};

/// A running program, the leader of a process group. What it writes is read while we wait for it.
class child {
public:
  /// Exit code 98: no such folder or input; 99: `argv[0]`, a path, cannot be executed.
  explicit child(const strings& argv, const surroundings& around = {});
  /// If it still runs: SIGTERM, at which a launcher ends its ranks, and SIGKILL to its group when
  /// that is done or after two seconds.
  ~child();
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  void signal(int which) const;
  /// Reads until stdout or stderr has `text` so many times. \return whether it came within 20 s.
  bool wait_for_out(const std::string& text, int times = 1) { return wait_for(out, text, times); }
  bool wait_for_err(const std::string& text, int times = 1) { return wait_for(err, text, times); }
  /// Reads until the child has ended and no process can write to its output any more. \return the
  /// exit code, or 1000 + signal, or -1 if it took longer than that.
  int end(double seconds = 50);

  std::string out, err;

private:
  bool wait_for(const std::string& in, const std::string& text, int times);
  bool reading() const { return out_ >= 0 || err_ >= 0; }
  void read_some(int milliseconds);
  static void read_from(int& fd, std::string& into);

  int out_ = -1, err_ = -1; ///< -1: at its end
  pid_t pid_ = -1;          ///< -1: it has ended and nothing is left of it
};

struct finished {
  int code = -1; ///< as of `child::end`
  std::string out, err;
  bool in_time() const { return code != -1; } ///< it ended by itself
  std::string all() const;                    ///< everything, for a failing test's message
};

finished run(const strings& argv, double seconds = 50, const surroundings& around = {});

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
int count(const std::string& text, const std::string& part);

} // namespace tern::test
