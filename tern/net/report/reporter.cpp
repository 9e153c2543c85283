// SPDX-License-Identifier: Apache-2.0
/// \file
/// What writes reports, and when: the reporter's thread, the signals, the watchdog.
#include <tern/net/report/reporter.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <ucontext.h>
#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/base/log.hpp>
#include <tern/net/node.hpp>
#include <tern/net/report.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/report/fiber_report.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {

// The ranks -----------------------------------------------------------------------------------------------------------

struct entries {
  static inline std::mutex lock;
  static inline report_entry* first = nullptr;
  static report_entry*& next(report_entry& e) { return e.next_; }
  static report_entry*& previous(report_entry& e) { return e.previous_; }
  static node& who(report_entry& e) { return e.who_; }
};

report_entry::report_entry(node& n) noexcept : who_(n) {
  const std::lock_guard hold(entries::lock);
  next_ = entries::first;
  if (next_) next_->previous_ = this;
  entries::first = this;
}

report_entry::~report_entry() {
  const std::lock_guard hold(entries::lock);
  (previous_ ? previous_->next_ : entries::first) = next_;
  if (next_) next_->previous_ = previous_;
}

bool with_ranks(const std::function<void(const std::vector<node*>&)>& f) {
  const auto hold = try_for_a_while(entries::lock, std::chrono::milliseconds(500));
  if (!hold) return false;
  std::vector<node*> ranks;
  for (report_entry* e = entries::first; e; e = entries::next(*e)) ranks.push_back(&entries::who(*e));
  std::sort(ranks.begin(), ranks.end(), [](node* a, node* b) { return a->rank() < b->rank(); });
  f(ranks);
  return true;
}

namespace {

const option<std::string> report_option{
    "report", "", "where reports of hangs and crashes go, and that failures write one too; empty: tern-report-PID.txt"};
const option<bool> signal_option{"report-signal", true,
                                 "write a report, and go on, at the signal SIGUSR1 (SIGUSR2 where MPI uses that)"};
const option<bool> end_option{"end-signals", true, "end all ranks, with a message, at the signals SIGTERM and SIGINT"};

constexpr int end_signals[] = {SIGTERM, SIGINT};
constexpr int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int crash_limit_ms = 15000; // that a crash waits for its report
constexpr std::chrono::seconds request_limit{60};

// All that signal handlers touch.
struct {
  std::atomic<int> wake_fd{-1}, told_fd{-1}; // never closed: a handler may be about to use them
  std::atomic<int> process{0};               // the reporter's own: a forked child inherits all this, but no thread
  std::atomic<bool> asked{false};
  std::atomic<int> end{0};                // the signal that asks the job to end
  std::atomic<bool> end_by_parent{false}; // and whether our parent sent it; stored before
  std::atomic<int> asks{0};               // the signal that asks for a report, while there is one
  std::atomic<int> reporter{0};           // the thread's number while there is one
  std::atomic<int> crashed{0};            // the first thread that crashed
  std::atomic<bool> recorded{false};      // what follows is complete, and it has not begun to be told
  std::atomic<bool> crash_told{false};
  int number = 0, code = 0;
  void* address = nullptr;
  tern::detail::worker* worker = nullptr;
  tern::detail::stopped_at where;
  struct sigaction before[std::size(crash_signals)]; // what they did without us
} signals;

void ring(int fd) noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!write(fd, &one, sizeof one));
}
void drain(int fd) noexcept {
  std::uint64_t all = 0;
  static_cast<void>(!read(fd, &all, sizeof all));
}

bool inherited() noexcept { return signals.process.load(std::memory_order_relaxed) != static_cast<int>(getpid()); }

void asked_by_signal(int) {
  if (inherited()) return;
  const int saved = errno;
  signals.asked.store(true, std::memory_order_relaxed);
  ring(signals.wake_fd.load(std::memory_order_relaxed));
  errno = saved;
}

// The second one does what it always did: see SA_RESETHAND.
void ended_by_signal(int number, siginfo_t* info, void*) {
  const int saved = errno;
  if (inherited()) {
    signal(number, SIG_DFL);
    raise(number);
  } else {
    signals.end_by_parent.store(info->si_code <= 0 && info->si_pid == getppid(), std::memory_order_relaxed);
    signals.end.store(number, std::memory_order_release);
    ring(signals.wake_fd.load(std::memory_order_relaxed));
  }
  errno = saved;
}

// Does what the signal would have done without us.
void pass_on(int number, siginfo_t* info, void* context) {
  const auto which = static_cast<std::size_t>(std::find(std::begin(crash_signals), std::end(crash_signals), number) -
                                              std::begin(crash_signals));
  const struct sigaction& old = signals.before[which];
  const bool sent = info->si_code <= 0; // by kill or raise: nothing would fail again
  if ((old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction) {
    old.sa_sigaction(number, info, context);
  } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
    old.sa_handler(number);
  } else if (old.sa_handler == SIG_DFL || !sent) {
    signal(number, SIG_DFL);
    if (sent) raise(number); // comes when this handler returns
  }
}

[[maybe_unused]] void crashed(int number, siginfo_t* info, void* context) { // not under sanitizers
  const int reporter = inherited() ? 0 : signals.reporter.load(std::memory_order_acquire);
  const int me = static_cast<int>(gettid());
  int nobody = 0;
  if (reporter == me && signals.crashed.load(std::memory_order_relaxed) != 0 &&
      !signals.crash_told.load(std::memory_order_relaxed)) {
    ring(signals.told_fd.load(std::memory_order_relaxed)); // the report ends here; the first crash goes on
    for (;;) pause();
  }
  if (reporter != 0 && reporter != me) {
    if (signals.crashed.compare_exchange_strong(nobody, me, std::memory_order_acq_rel)) {
      signals.number = number;
      signals.code = info->si_code;
      signals.address = info->si_addr;
      signals.worker = tern::detail::this_worker();
      signals.where = tern::detail::where_stopped(context);
      signals.recorded.store(true, std::memory_order_release);
      ring(signals.wake_fd.load(std::memory_order_relaxed));
    }
    // Not drained: others that crash meanwhile wait for it too. What interrupts it makes the wait
    // shorter at worst.
    pollfd told{signals.told_fd.load(std::memory_order_relaxed), POLLIN, 0};
    for (int tries = 0; poll(&told, 1, crash_limit_ms) < 0 && errno == EINTR && tries < 100; ++tries) {
    }
  }
  pass_on(number, info, context);
}

void install_crash_handlers() {
#if !defined(TERN_ASAN) && !defined(TERN_TSAN) // they have their own, which say more
  struct sigaction mine {};
  mine.sa_sigaction = crashed;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&mine.sa_mask);
  for (std::size_t i = 0; i < std::size(crash_signals); ++i) sigaction(crash_signals[i], &mine, &signals.before[i]);
#endif
}

std::string thread_text(int thread, const tern::detail::worker* w) {
  std::string text = "thread " + std::to_string(thread);
  if (!w) return text;
  text += ", worker " + std::to_string(w->index) + " of '" + w->home->cfg.name + "'";
  if (const tern::detail::fiber* f = w->running) text += ", in fiber " + f->called();
  return text;
}

std::string crash_text() {
  char text[200];
  const bool has_address = signals.number != SIGABRT && signals.code > 0;
  std::snprintf(text, sizeof text, "%s (%s)", sigabbrev_np(signals.number), sigdescr_np(signals.number));
  std::string reason = std::string("SIG") + text;
  if (has_address) {
    std::snprintf(text, sizeof text, " at address %p", signals.address);
    reason += text;
  }
  return reason;
}

// The reporter --------------------------------------------------------------------------------------------------------

class reporter {
public:
  reporter(const options& opts, watches w)
      : failures(!opts[report_option].empty() ||
                 std::any_of(w.begin(), w.end(), [](const auto& one) { return one->wants_reports(); })),
        watches_(std::move(w)) {
    thread_ = std::thread([this] { live(); });
    here_.wait(); // a crash right afterwards finds the reporter
  }
  ~reporter() {
    over_.store(true, std::memory_order_release);
    ring(signals.wake_fd.load(std::memory_order_relaxed));
    thread_.join();
  }
  reporter(const reporter&) = delete;
  reporter& operator=(const reporter&) = delete;

  /// Any thread but the reporter's. \return the path; empty if there is none in time, or in a
  /// forked child.
  std::string write(report_cause cause) {
    if (inherited()) return {};
    const auto r = std::make_shared<request>();
    r->cause = std::move(cause);
    std::unique_lock hold(lock_);
    waiting_.push_back(r);
    ring(signals.wake_fd.load(std::memory_order_relaxed));
    done_.wait_for(hold, request_limit, [&] { return r->done; });
    return r->path;
  }
  bool is_here() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }
  void set_duty(duty* d) noexcept {
    {
      const std::lock_guard hold(duty_lock_);
      duty_ = d;
    }
    ring(signals.wake_fd.load(std::memory_order_relaxed)); // it may wait for longer than that wants
  }

  const bool failures; // write a report

private:
  struct request {
    report_cause cause;
    std::string path;
    bool done = false; // under the lock
  };

  void live() {
    sigset_t all;
    sigfillset(&all);
    for (const int s : crash_signals) sigdelset(&all, s);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pthread_setname_np(pthread_self(), "tern reporter");
    signals.reporter.store(static_cast<int>(gettid()), std::memory_order_release);
    here_.count_down();
    while (!over_.load(std::memory_order_acquire)) {
      wait();
      if (signals.recorded.exchange(false, std::memory_order_acquire)) tell_crash();
      if (signals.asked.exchange(false, std::memory_order_acquire)) {
        bool alone = true;
        const std::string path = compose_report({"a signal asked for it", {}, {}}, &alone);
        if (alone) say_where(path);
      }
      if (const int number = signals.end.exchange(0, std::memory_order_acquire)) end_job(number);
      serve();
      for (const auto& w : watches_) w->look_if_due();
      const std::lock_guard hold(duty_lock_);
      if (duty_) duty_->look();
    }
    signals.reporter.store(0, std::memory_order_release);
  }

  // On this thread, as the workers may be inside long bodies.
  void end_job(int number) {
    const std::string name = std::string("SIG") + sigabbrev_np(number) + " (" + sigdescr_np(number) + ")";
    const bool by_parent = signals.end_by_parent.load(std::memory_order_relaxed);
    for (const auto& w : watches_) std::fputs(w->before_end(number, by_parent).c_str(), stderr);
    with_ranks([&](const std::vector<node*>& ranks) {
      if (!ranks.empty()) ranks.front()->end_from_outside(name, 128 + number, by_parent);
    });
    raise_again(number); // there is no rank, or it is the launcher that ends them all
  }
  static void raise_again(int number) {
    std::signal(number, SIG_DFL);
    kill(getpid(), number);
  }

  // Until a report is asked for, or it is time to look.
  void wait() {
    double every = 0;
    const auto also = [&every](double seconds) {
      if (seconds > 0) every = every > 0 ? std::min(every, seconds) : seconds;
    };
    for (const auto& w : watches_) also(w->every());
    files_.clear();
    if (const std::lock_guard hold(duty_lock_); duty_) {
      also(duty_->every());
      duty_->files(files_);
    }
    waits_.assign(1, {signals.wake_fd.load(std::memory_order_relaxed), POLLIN, 0});
    for (const int fd : files_) waits_.push_back({fd, POLLIN, 0});
    if (poll(waits_.data(), waits_.size(), every > 0 ? static_cast<int>(1000 * every) : -1) > 0 &&
        waits_[0].revents != 0)
      drain(waits_[0].fd);
  }

  void tell_crash() {
    const int who = signals.crashed.load(std::memory_order_relaxed);
    say_where(compose_report({crash_text(), thread_text(who, signals.worker), signals.where, true,
                              signals.asks.load(std::memory_order_relaxed)}));
    // The process ends by that signal, unless a handler of the program's survives it; then the job
    // goes on.
    signals.crash_told.store(true, std::memory_order_relaxed);
    ring(signals.told_fd.load(std::memory_order_relaxed));
  }

  void serve() {
    for (;;) {
      std::shared_ptr<request> r;
      {
        const std::lock_guard hold(lock_);
        if (waiting_.empty()) return;
        r = waiting_.front();
        waiting_.pop_front();
      }
      std::string path = compose_report(r->cause);
      const std::lock_guard hold(lock_);
      r->path = std::move(path);
      r->done = true;
      done_.notify_all();
    }
  }

  const watches watches_;
  std::atomic<bool> over_{false};
  std::mutex lock_;
  std::condition_variable done_;
  std::deque<std::shared_ptr<request>> waiting_;
  std::mutex duty_lock_;
  duty* duty_ = nullptr; // under its lock
  std::vector<int> files_;
  std::vector<pollfd> waits_;

  std::latch here_{1};
  std::thread thread_; // last: it uses all the others
};

std::mutex session_lock; // for beginning and ending; the reporter's users hold it for reading only by being in a job
std::shared_ptr<reporter> session;

std::shared_ptr<reporter> current() {
  const std::lock_guard hold(session_lock);
  return session;
}

std::uint64_t own_job() {
  const std::time_t now = std::time(nullptr); // address: a name for people
  return static_cast<std::uint64_t>(now) << 22 | static_cast<std::uint64_t>(getpid());
}
std::atomic<std::uint64_t> job{0};
// No lock: its holder might have crashed. Names of earlier jobs stay: a thread may be about to read
// one.
std::deque<std::string> file_options;
std::atomic<const std::string*> file_option{nullptr};

} // namespace

std::uint64_t report_job() noexcept {
  std::uint64_t none = 0;
  if (job.load(std::memory_order_relaxed) == 0) job.compare_exchange_strong(none, own_job());
  return job.load(std::memory_order_relaxed);
}
void set_report_job(std::uint64_t j) noexcept { job.store(j, std::memory_order_relaxed); }

std::string report_file_option() {
  const std::string* name = file_option.load(std::memory_order_acquire);
  return name ? *name : std::string();
}

int report_signal() noexcept { return signals.asks.load(std::memory_order_relaxed); }

void say_where(const std::string& path, const std::string& why) noexcept {
  if (!path.empty()) std::fprintf(stderr, "tern: report in %s%s\n", path.c_str(), why.c_str());
}

namespace {

bool by_default(int number) {
  struct sigaction old {};
  return sigaction(number, nullptr, &old) == 0 && (old.sa_flags & SA_SIGINFO) == 0 && old.sa_handler == SIG_DFL;
}

void install_end_handlers() {
  for (const int number : end_signals) {
    if (!by_default(number)) continue; // it is the program's, or is ignored
    struct sigaction mine {};
    mine.sa_sigaction = ended_by_signal;
    mine.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    sigemptyset(&mine.sa_mask);
    sigaction(number, &mine, nullptr);
  }
}

void remove_end_handlers() {
  for (const int number : end_signals) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == ended_by_signal)
      std::signal(number, SIG_DFL);
  }
}

} // namespace

std::string watch::before_end(int, bool) { return {}; }

report_session::report_session(const options& opts, watches w) {
  const std::lock_guard hold(session_lock);
  if (session) return;
  if (signals.wake_fd.load() < 0 || inherited()) {
    signals.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    signals.told_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  if (signals.wake_fd < 0 || signals.told_fd < 0) { // no more files: the job goes on without reports
    log_warning(std::string("there will be no reports: ") + std::strerror(errno));
    return;
  }
  mine_ = true;
  set_report_job(own_job());
  file_option.store(&file_options.emplace_back(opts[report_option]), std::memory_order_release);
  signals.process = static_cast<int>(getpid());
  session = {new reporter(opts, std::move(w)), [](reporter* r) {
               if (!inherited()) delete r; // else there is no thread to join, and its locks stay as they were
             }};
  static bool installed = false; // once: handlers that came later pass on to ours, which must not pass on to them
  if (session->failures && !std::exchange(installed, true)) install_crash_handlers();
  if (opts[end_option]) install_end_handlers();
  if (!opts[signal_option]) return;
  for (const int number : {SIGUSR1, SIGUSR2}) {
    if (!by_default(number)) continue; // it is the program's, or the MPI's: MPICH uses the first
    struct sigaction mine {};
    mine.sa_handler = asked_by_signal;
    mine.sa_flags = SA_RESTART | SA_ONSTACK;
    sigemptyset(&mine.sa_mask);
    if (sigaction(number, &mine, nullptr) == 0) signals.asks.store(number, std::memory_order_relaxed);
    break;
  }
}

report_session::~report_session() {
  if (!mine_) return;
  remove_end_handlers();
  const int number = signals.asks.exchange(0, std::memory_order_relaxed);
  struct sigaction now {};
  if (number != 0 && sigaction(number, nullptr, &now) == 0 && now.sa_handler == asked_by_signal)
    std::signal(number, SIG_DFL);
  std::shared_ptr<reporter> ending;
  {
    const std::lock_guard hold(session_lock);
    ending.swap(session);
  }
} // joins the thread, unless a thread still waits for a report of it

namespace {

// Of several failures at once the first is told of. The others wait for it: their caller ends the
// process next.
struct {
  std::mutex lock;
  std::condition_variable changed;
  bool begun = false, told = false; // under the lock
} failure_report;

/// \return whether it is the caller's to tell; if not, it has been told now, unless that takes too
/// long.
bool tell_failure_first() {
  std::unique_lock hold(failure_report.lock);
  if (!std::exchange(failure_report.begun, true)) return true;
  failure_report.changed.wait_for(hold, request_limit, [] { return failure_report.told; });
  return false;
}

struct failure_told {
  ~failure_told() {
    const std::lock_guard hold(failure_report.lock);
    failure_report.told = true;
    failure_report.changed.notify_all();
  }
};

} // namespace

void report_failure(const std::string& what) noexcept {
  try {
    const auto r = current();
    if (!r || !r->failures || r->is_here() || inherited()) return;
    if (!tell_failure_first()) return;
    const failure_told at_the_end;
    ucontext_t context;
    report_cause cause{
        "the job ends: " + what, thread_text(static_cast<int>(gettid()), tern::detail::this_worker()), {}};
    if (getcontext(&context) == 0) cause.where = tern::detail::where_stopped(&context);
    cause.ask_others = signals.asks.load(std::memory_order_relaxed);
    const std::string path = r->write(std::move(cause));
    say_where(path);
  } catch (const std::exception&) { // the error itself matters more
  }
}

void report_failure_here(const std::string& what) noexcept {
  try {
    const auto r = current();
    if (!r || !r->failures) return;
    report_cause cause{"the job ends: " + what, {}, {}};
    cause.ask_others = signals.asks.load(std::memory_order_relaxed);
    bool alone = true; // else another process has said so
    const std::string path = compose_report(cause, &alone);
    if (alone) say_where(path);
  } catch (const std::exception&) { // the error itself matters more
  }
}

bool begin_duty(duty& d) {
  const auto r = current();
  if (r) r->set_duty(&d);
  return r != nullptr;
}
void end_duty() noexcept {
  if (const auto r = current()) r->set_duty(nullptr);
}

} // namespace tern::net

std::string tern::write_report(std::string_view reason) {
  net::report_cause cause{std::string(reason), {}, {}};
  cause.thread = net::thread_text(static_cast<int>(gettid()), detail::this_worker());
  ucontext_t context;
  if (getcontext(&context) == 0) cause.where = detail::where_stopped(&context);
  if (const auto r = net::current()) return r->write(std::move(cause));
  std::string path; // on a stack that is large enough for libdw
  std::thread([&] { path = net::compose_report(cause); }).join();
  return path;
}
