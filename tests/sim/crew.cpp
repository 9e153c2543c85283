// SPDX-License-Identifier: Apache-2.0
// Cases in other processes: each gets a handful, tells through a pipe which one it is at and how
// each came out, and ends. One that dies has told where.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.hpp"

namespace tern::property {
namespace {

constexpr std::uint64_t handful = 32; // cases of a process: many enough that starting it costs nothing
constexpr std::size_t most_text = 8192;

// What a worker tells.
struct record {
  enum what : std::uint32_t { begins, fails, ends } kind = begins;
  std::uint32_t length = 0; ///< of the text that follows: kind, '\0', text
  std::uint64_t index = 0;
  std::uint64_t digest = 0;
};

struct worker {
  pid_t pid = -1;
  int in = -1;  ///< the pipe
  int log = -1; ///< what it writes to stdout and stderr, of the present case only
  std::string unread;
  std::uint64_t end = 0; ///< its cases end before this one
  std::uint64_t at = 0;
  bool busy = false; ///< with case `at`, since `since`
  double since = 0;
  bool late = false;    ///< we killed it for that
  bool dropped = false; ///< we killed it because its cases do not count any more
  std::optional<verdict> failure;
};

void write_all(int fd, const void* data, std::size_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = write(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(96); // the reader has gone
    p += n;
    size -= static_cast<std::size_t>(n);
  }
}

void tell(int fd, record::what kind, std::uint64_t index, const verdict& v) {
  record r;
  r.kind = kind;
  r.index = index;
  std::string text;
  if (kind == record::fails) text = v.kind + '\0' + v.text.substr(0, most_text);
  if (kind == record::ends) r.digest = v.digest();
  r.length = static_cast<std::uint32_t>(text.size());
  std::string all(reinterpret_cast<const char*>(&r), sizeof r);
  all += text;
  write_all(fd, all.data(), all.size());
}

// Another arrangement of the heap than a process has by itself.
void disorder(std::uint64_t seed) {
  dice d(seed);
  static std::vector<std::unique_ptr<char[]>> kept;
  for (int i = 0; i < 2000; ++i) {
    auto block = std::make_unique<char[]>(static_cast<std::size_t>(d.between(1, d.chance(0.05) ? 300'000 : 600)));
    if (d.chance(0.5)) kept.push_back(std::move(block));
  }
}

[[noreturn]] void work(const plan& p, std::uint64_t first, const std::vector<test_case>& cases, const crew& who,
                       double deadline, int out, int log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (who.junk) disorder(who.junk + first);
  for (std::uint64_t i = 0; i < cases.size() && monotonic_seconds() < deadline; ++i) {
    if (ftruncate(log, 0) == 0) lseek(log, 0, SEEK_SET);
    tell(out, record::begins, first + i, {});
    const verdict v = run_here(p, cases[i], *who.opts, who.twice,
                               [&](const verdict& bad) { tell(out, record::fails, first + i, bad); });
    std::fflush(stdout);
    tell(out, record::ends, first + i, v);
    if (v.failed) break; // what it left behind should not trouble the next one
  }
  _exit(0); // not what main has: this is a copy of another process
}

std::string read_log(int fd) {
  std::string text(most_text, '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  // The runtime's own hint is for programs that TERN_SIM simulates.
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find("to see it again:") == std::string::npos) kept += line + '\n';
  return kept;
}

class foreman {
public:
  foreman(const plan& p, std::uint64_t n, const std::function<test_case(std::uint64_t)>& make, const crew& who,
          double deadline, const std::function<bool(const verdict&)>& matters)
      : plan_(p), cases_(n), make_(make), who_(who), deadline_(deadline), matters_(matters) {}

  tally run(const std::function<void(const tally&)>& progress) {
    double shown = monotonic_seconds();
    for (;;) {
      while (more() && workers_.size() < static_cast<std::size_t>(who_.jobs)) start();
      if (workers_.empty()) break;
      listen();
      for (auto it = workers_.begin(); it != workers_.end();) {
        supervise(*it);
        it = it->in < 0 ? workers_.erase(it) : std::next(it);
      }
      if (progress && monotonic_seconds() - shown > 0.2) {
        shown = monotonic_seconds();
        progress(all_);
      }
    }
    all_.out_of_time = !all_.failed_at && all_.done < cases_;
    return std::move(all_);
  }

private:
  bool more() const {
    return (next_ < cases_ || !again_.empty()) && !all_.failed_at && monotonic_seconds() < deadline_;
  }

  void start() {
    worker w;
    if (!again_.empty()) {
      std::tie(w.at, w.end) = again_.back();
      again_.pop_back();
    } else {
      const auto jobs = static_cast<std::uint64_t>(who_.jobs);
      w.at = next_;
      w.end = next_ + std::min(handful, (cases_ - next_ + jobs - 1) / jobs);
      next_ = w.end;
    }
    std::vector<test_case> cases;
    for (std::uint64_t i = w.at; i < w.end; ++i) cases.push_back(make_(i));
    int ends[2];
    w.log = memfd_create("case", MFD_CLOEXEC);
    if (w.log < 0 || pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    std::fflush(nullptr);
    w.pid = fork();
    if (w.pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (w.pid == 0) {
      close(ends[0]);
      work(plan_, w.at, cases, who_, deadline_, ends[1], w.log);
    }
    close(ends[1]);
    w.in = ends[0];
    workers_.push_back(std::move(w));
  }

  void listen() {
    std::vector<pollfd> waiting;
    for (const worker& w : workers_) waiting.push_back({w.in, POLLIN, 0});
    poll(waiting.data(), waiting.size(), 100);
    std::size_t i = 0;
    for (worker& w : workers_) {
      if (!waiting[i++].revents) continue;
      std::array<char, 65536> buffer;
      const ssize_t n = ::read(w.in, buffer.data(), buffer.size());
      if (n > 0)
        w.unread.append(buffer.data(), static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        over(w);
      understand(w);
    }
  }

  void understand(worker& w) {
    record r;
    while (w.unread.size() >= sizeof r) {
      std::memcpy(&r, w.unread.data(), sizeof r);
      if (w.unread.size() < sizeof r + r.length) return;
      const std::string text = w.unread.substr(sizeof r, r.length);
      w.unread.erase(0, sizeof r + r.length);
      if (r.kind == record::begins) {
        w.busy = true;
        w.at = r.index;
        w.since = monotonic_seconds();
        w.failure.reset();
      } else if (r.kind == record::fails) {
        w.failure.emplace();
        w.failure->failed = true;
        w.failure->kind = text.c_str();
        w.failure->text = text.substr(w.failure->kind.size() + 1);
      } else {
        w.busy = false;
        if (w.failure) {
          failed(w);
        } else {
          ++all_.done;
          all_.digest += r.digest * (2 * r.index + 1);
        }
      }
    }
  }

  // Its end of the pipe is closed.
  void over(worker& w) {
    understand(w);
    int status = 0;
    while (waitpid(w.pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(w.in);
    w.in = -1;
    if (w.busy && !w.dropped) {
      const bool killed = WIFSIGNALED(status);
      if (!w.failure) {
        verdict& v = w.failure.emplace();
        v.failed = true;
        v.kind = w.late ? "time-out" : killed ? "signal" : "exit";
        if (w.late)
          v.text = "it took longer than " + std::to_string(static_cast<long>(who_.timeout)) + " s";
        else if (killed)
          v.text = std::string("killed by signal ") + std::to_string(WTERMSIG(status)) + " (" +
                   strsignal(WTERMSIG(status)) + ")";
        else
          v.text = "the process ended itself with code " + std::to_string(WEXITSTATUS(status));
      } else if (w.late) {
        w.failure->text += "\nand then it took longer than " + std::to_string(static_cast<long>(who_.timeout)) + " s";
      } else if (killed) {
        w.failure->text += std::string("\nand then it was killed by a signal: ") + strsignal(WTERMSIG(status));
      }
      failed(w);
    }
    close(w.log);
  }

  void failed(worker& w) {
    verdict v = std::move(*w.failure);
    v.log = read_log(w.log);
    if (v.kind == "exit") { // the first line of what it said is why
      const std::string why = v.log.substr(0, v.log.find('\n'));
      if (!why.empty()) v.text += ": " + why;
    }
    w.failure.reset();
    if (matters_ && !matters_(v)) {
      ++all_.done;
      if (w.at + 1 < w.end) again_.emplace_back(w.at + 1, w.end);
      return;
    }
    if (all_.failed_at && *all_.failed_at < w.at) return;
    all_.failed_at = w.at;
    all_.failure = std::move(v);
  }

  void supervise(worker& w) {
    if (w.in < 0) return;
    const double time = monotonic_seconds();
    if (w.busy && time - w.since > who_.timeout && !w.late) {
      w.late = true;
      kill(w.pid, SIGKILL);
    } else if (!w.dropped && (time > deadline_ + who_.timeout || (all_.failed_at && w.at > *all_.failed_at))) {
      w.dropped = true;
      kill(w.pid, SIGKILL);
    }
  }

  const plan& plan_;
  const std::uint64_t cases_;
  const std::function<test_case(std::uint64_t)>& make_;
  const crew& who_;
  const double deadline_;
  const std::function<bool(const verdict&)>& matters_;
  std::list<worker> workers_;
  std::uint64_t next_ = 0;                                     // the first that no worker was given
  std::vector<std::pair<std::uint64_t, std::uint64_t>> again_; // what came after a failure that does not matter
  tally all_;
};

} // namespace

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

tally run_cases(const plan& p, std::uint64_t n, const std::function<test_case(std::uint64_t)>& make, const crew& who,
                double deadline, const std::function<bool(const verdict&)>& matters,
                const std::function<void(const tally&)>& progress) {
  return foreman(p, n, make, who, deadline, matters).run(progress);
}

} // namespace tern::property
