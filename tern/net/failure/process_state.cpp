// SPDX-License-Identifier: Apache-2.0
#include <tern/net/failure/process_state.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern::net::detail {
namespace {

/// Empty if it cannot be read, and then why. Without allocation of buffers that grow: it is read
/// for ever.
std::string text_of(int process, const char* file, int& why) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", process, file);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  why = errno;
  if (fd < 0) return {};
  std::array<char, 4096> text;
  const ssize_t n = read(fd, text.data(), text.size());
  why = n == 0 ? ESRCH : errno; // of one that has ended meanwhile
  close(fd);
  return {text.data(), n > 0 ? static_cast<std::size_t>(n) : 0};
}
std::string text_of(int process, const char* file) {
  int why = 0;
  return text_of(process, file, why);
}

// proc(5): behind the name, which may hold anything, stand state, parent and so on.
struct stat_fields {
  char state = 0;
  long long threads = 0, status = 0;
  std::uint64_t started = 0;
};
bool read_fields(const std::string& text, stat_fields& f) {
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return false;
  constexpr int state = 3, threads = 20, started = 22, status = 52;
  const char* p = text.c_str() + bracket + 1;
  for (int field = state; field <= status; ++field) {
    while (*p == ' ') ++p;
    if (*p == '\0' || *p == '\n') return field > started; // an old kernel has fewer
    if (field == state) f.state = *p;
    if (field == threads) f.threads = std::strtoll(p, nullptr, 10);
    if (field == started) f.started = std::strtoull(p, nullptr, 10);
    if (field == status) f.status = std::strtoll(p, nullptr, 10);
    while (*p != ' ' && *p != '\0' && *p != '\n') ++p;
  }
  return true;
}

bool is_traced(int process) {
  const std::string status = text_of(process, "status");
  const auto at = status.find("\nTracerPid:");
  return at != std::string::npos && std::atoi(status.c_str() + at + 11) != 0;
}

int open_process(int number) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, number, 0));
#else
  static_cast<void>(number);
  return -1;
#endif
}

bool is_still(const process_name& who) {
  stat_fields f;
  return read_fields(text_of(who.number, "stat"), f) && f.started == who.started;
}

} // namespace

process_name this_process() {
  stat_fields f;
  const int me = static_cast<int>(getpid());
  if (!read_fields(text_of(me, "stat"), f)) throw error(errc::system, "/proc/self/stat cannot be read");
  return {me, f.started};
}

std::uint64_t process_space() {
  struct stat s {};
  return stat("/proc/self/ns/pid", &s) == 0 ? static_cast<std::uint64_t>(s.st_ino) : 0;
}

process_state state_of_text(const std::string& text, const process_name& who, bool traced) {
  stat_fields f;
  // Nothing tells how: perhaps a launcher ends the job, and has waited for it already.
  if (!read_fields(text, f) || f.started != who.started) return {process_sign::left, process_state::no_status};
  switch (f.state) {
  case 't': // by a tracer, which need not have a number that we can see
    return {process_sign::traced, process_state::no_status};
  case 'T':
    return {traced ? process_sign::traced : process_sign::stopped, process_state::no_status};
  case 'Z':
    if (f.threads > 1) break; // its first thread has ended, others go on
    [[fallthrough]];
  case 'X':
  case 'x': {
    const auto status = static_cast<int>(f.status);
    if (!WIFSIGNALED(status)) return {process_sign::left, status};
    const int by = WTERMSIG(status); // those by which launchers, batch systems and people ask
    const bool asked = by == SIGTERM || by == SIGINT || by == SIGHUP || by == SIGQUIT || by == SIGALRM;
    return {asked ? process_sign::left : process_sign::killed, status};
  }
  default:
    break;
  }
  return {process_sign::runs, process_state::no_status};
}

bool can_be_watched(const process_name& who) {
  stat_fields f;
  return !read_fields(text_of(who.number, "stat"), f) || f.started == who.started;
}

process_state state_of(const process_name& who) {
  int why = 0;
  const std::string text = text_of(who.number, "stat", why);
  // That we cannot read it, for want of files or because /proc hides it, says nothing of it.
  if (text.empty() && ((why != ENOENT && why != ESRCH) || kill(who.number, 0) == 0 || errno != ESRCH))
    return {process_sign::runs, process_state::no_status};
  const process_state s = state_of_text(text, who, false);
  return s.sign == process_sign::stopped && is_traced(who.number) ? state_of_text(text, who, true) : s;
}

std::string words_for_end(int status) {
  if (status == process_state::no_status) return "has gone";
  if (WIFSIGNALED(status)) {
    const char* const name = sigabbrev_np(WTERMSIG(status));
    return std::string("was killed by ") +
           (name ? std::string("SIG") + name : "signal " + std::to_string(WTERMSIG(status)));
  }
  return "has ended with exit code " + std::to_string(WEXITSTATUS(status));
}

int code_for_end(int status) {
  return status != process_state::no_status && WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1;
}

int watch_end_of(const process_name& who) {
  const int fd = open_process(who.number);
  if (fd >= 0 && !is_still(who)) { // the number is another process' now
    close(fd);
    return -1;
  }
  return fd;
}

void kill_process(const process_name& who) {
  // The file stands for one process for ever; only without one might the number be used again in
  // between.
  const int fd = open_process(who.number);
  if (is_still(who)) {
#ifdef SYS_pidfd_send_signal
    if (fd >= 0)
      syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0);
    else
#endif
      kill(who.number, SIGKILL);
  }
  if (fd >= 0) close(fd);
}

} // namespace tern::net::detail
