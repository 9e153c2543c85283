// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Child processes for the `tern` command: finding programs, running one to its end with its output
/// read or watched, passing signals on, and leaving no process behind.

#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace tern::tool {

/// Something the user can put right. `code` is the exit code of the command: 2 wrong usage, 126 a
/// program that cannot be executed, 127 a program that is not there (as in the shell), 1 anything
/// else.
struct failure : std::runtime_error {
  explicit failure(const std::string& what, int exit_code = 1) : std::runtime_error(what), code(exit_code) {}
  int code;
};

/// How a process ended.
struct exit_status {
  int code = 0;   ///< its exit code, if `signal` is 0
  int signal = 0; ///< what killed it, or 0
  /// The shell's convention: 128 + signal.
  int shell_code() const { return signal ? 128 + signal : code; }
};

/// "SIGSEGV"; "signal 42" for one without a name.
std::string signal_name(int signal);

/// "was killed by SIGSEGV (Segmentation fault)".
std::string killed_by(int signal);
/// "all 4 ranks", "the rank"; "all ranks" of 0, which is an unknown number.
std::string all_ranks(int ranks);

/// `word` as a shell takes it for one word. \param command it stands first, where a = means
/// something.
std::string quoted(const std::string& word, bool command = false);
/// `words` as they are typed in a shell, the first of them a command.
std::string quoted(const std::vector<std::string>& words);
/// This command as it is typed in a shell: "tern" if that is what PATH has, else as it was started.
std::string own_command();

/// The executable that `name` stands for, searched in PATH if it holds no slash.
/// \throws failure (126, 127) saying what is wrong with it and, if a file of that name stands in
/// the working folder, that.
std::filesystem::path find_program(const std::string& name);
/// The same, without the reasons.
std::optional<std::filesystem::path> look_for_program(const std::string& name);

/// Runs a command to its end and returns what it wrote to stdout and stderr. No input.
std::pair<exit_status, std::string> read_output(const std::vector<std::string>& argv);

/// Runs `body` in a forked copy of this process and returns the text it returns; what it breaks
/// dies with it.
/// \return nothing if it died or took longer than `seconds`.
std::optional<std::string> in_child(const std::function<std::string()>& body, int seconds);

/// Takes what the job writes to one of its streams and decides what the user sees.
class output_filter {
public:
  virtual ~output_filter() = default;
  /// \return what to pass on now.
  virtual std::string feed(std::string_view text) = 0;
  /// The stream has ended: what was still held back.
  virtual std::string end() = 0;
};

/// A command to supervise.
struct job {
  std::vector<std::string> argv;
  /// Variables to set, or to remove (no value), on top of this process' environment.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  /// In a process group of its own, so that signals reach all of it and nothing else. Without: the
  /// job shares our terminal and handles its Ctrl-C itself (a debugger).
  bool own_group = true;
  /// Signals go to the process alone, which passes them on to its ranks (an MPI launcher), or to
  /// its whole group.
  bool signal_leader_only = false;
  /// A write to a pipe that is closed is an error for it, and does not end it by SIGPIPE.
  bool survives_closed_pipes = false;
  output_filter* standard_output = nullptr; ///< null: passed through untouched
  output_filter* standard_error = nullptr;
  /// Asked after each output: true once it is clear that the job has failed, which must end it
  /// within `failure_seconds`.
  std::function<bool()> failed;
  double failure_seconds = 8;
  /// A pipe into which our standard input is copied while the job runs, or -1.
  int input_copy = -1;
  /// Names the ranks in messages: "all 4 ranks".
  std::string ranks;
};

struct outcome {
  exit_status status;
  int interrupted_by = 0; ///< the signal that ended the job through us, or 0
  double seconds = 0;
};

/// Runs the job. SIGINT, SIGTERM and SIGHUP are passed on once; the next one kills. When it
/// returns, no process that the job started is left. Call from a process with one thread. \throws
/// failure if it cannot be started.
outcome supervise(const job& what);
/// Says that a signal has ended the job. \return the exit code for that. \pre `end.interrupted_by`.
int say_interrupted(const outcome& end, const std::string& ranks);

/// All processes below this one. If it is a subreaper (supervise makes it one) it inherits orphans,
/// so that no process leaves this tree.
std::vector<pid_t> descendants();

} // namespace tern::tool
