// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The scheduler's inside. scheduler.cpp has its life and its fibers, worker.cpp what a worker does all day.

#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

#include <tern/task/fiber/stack_pool.hpp>
#include <tern/task/scheduler/worker.hpp>
#include <tern/task/sync.hpp>

namespace tern::sim::detail {
class engine;
struct lane;
} // namespace tern::sim::detail

namespace tern::detail {

/// What came from outside: from foreign threads, and from worker threads that are in no fiber. Thread-safe.
class outside_queue {
public:
  void push(runnable* f) noexcept {
    std::lock_guard hold(lock_);
    fibers_.push(f);
    add(1);
  }
  /// No memory for the list's own growth ends the program.
  void push(tasklet* t) noexcept {
    std::lock_guard hold(lock_);
    tasklets_.push_back(t);
    add(1);
  }
  bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  /// A fiber, or else up to `most` tasklets. \return how many tasklets.
  unsigned take(runnable*& f, tasklet** out, unsigned most) noexcept;

private:
  void add(int n) noexcept { count_.store(count_.load(std::memory_order_relaxed) + n, std::memory_order_release); }
  spin_lock lock_;
  std::atomic<int> count_{0};
  runnable_queue fibers_;
  std::deque<tasklet*> tasklets_;
};

/// What a layer above keeps for a scheduler; made when it is first needed.
class scheduler_extension {
public:
  virtual ~scheduler_extension() = default;
  /// The scheduler is about to be destroyed; the extension destroys itself, now or later.
  virtual void ends() noexcept = 0;
  /// What dumps and reports say of it: who waits there for what, in lines that begin with two blanks, each with its
  /// end; empty if nobody waits. Any thread, while the scheduler works or stands still for ever: it waits no longer
  /// than `limit` for a lock, and says so where it could not have one.
  virtual std::string describe(std::chrono::milliseconds limit) = 0;
  /// How many operations are under way that no worker works on, such as kernels and copies at devices: while there are
  /// some, a scheduler whose fibers all wait is not stuck. Any thread; it takes no lock.
  virtual int at_work() const noexcept = 0;
};

/// Exceptions in futures that nobody has looked at before they were dropped. Any thread.
class dropped_failures {
public:
  static constexpr std::size_t most_kept = 3; ///< texts
  void note(std::string text) {
    const std::lock_guard hold(lock_);
    ++count_;
    if (first_.size() < most_kept) first_.push_back(std::move(text));
  }
  /// A sentence with the first of them; empty if there were none.
  std::string text();

private:
  spin_lock lock_;
  std::uint64_t count_ = 0;
  std::vector<std::string> first_;
};

struct scheduler_core {
  /// While a thread that is no worker of this scheduler hands it something.
  class visit {
  public:
    explicit visit(scheduler_core& c) noexcept : core_(c) { core_.visitors.fetch_add(1, std::memory_order_relaxed); }
    // release: pairs with the acquire of the destructor that waits.
    ~visit() { core_.visitors.fetch_sub(1, std::memory_order_release); }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

  private:
    scheduler_core& core_;
  };

  /// While a thread that is no worker of this scheduler does what may make anything ready: the run does not end
  /// meanwhile, unless it has already. \pre the core lives as long.
  class hold_open {
  public:
    explicit hold_open(scheduler_core& c) noexcept;
    ~hold_open();
    hold_open(const hold_open&) = delete;
    hold_open& operator=(const hold_open&) = delete;
    bool too_late() const noexcept { return late_; }

  private:
    scheduler_core& core_;
    bool late_;
  };

  /// While the calling fiber waits for a thread of Tern's that works for it: its scheduler has no end and no rest
  /// meanwhile.
  class awaits_thread {
  public:
    awaits_thread() noexcept : core_(*this_worker()->home) {
      core_.working_outside.fetch_add(1, std::memory_order_seq_cst);
    }
    ~awaits_thread() { core_.working_outside.fetch_sub(1, std::memory_order_seq_cst); }
    awaits_thread(const awaits_thread&) = delete;
    awaits_thread& operator=(const awaits_thread&) = delete;

  private:
    scheduler_core& core_;
  };

  explicit scheduler_core(scheduler::settings s);
  ~scheduler_core();

  // Fibers ------------------------------------------------------------------------------------------------------------
  void spawn(unique_function<void()> body, const fiber_options& options, const std::source_location& made);
  /// A fiber with its stack, and memory for a closure.
  seed sow(std::size_t bytes, std::size_t alignment, const fiber_options& options, const std::source_location& made);
  void launch(fiber* f, fiber_body body) noexcept;
  /// It can run (again). Any thread.
  void ready(runnable* x) noexcept {
    worker* w = this_worker();
    if (!w || w->home != this || x->worker >= 0 || engine) [[unlikely]] {
      ready_elsewhere(x);
      return;
    }
    w->box.push(x->level, x);
    if (w->box.wanted()) [[unlikely]]
      answer(*w);
  }
  void ready_elsewhere(runnable* x) noexcept;
  void ready_bound(runnable* x, const worker* by) noexcept;
  /// A running fiber gives way: behind everything that is ready. On the worker that ran it.
  void yielded(fiber* f) noexcept;
  /// It has left its stack for ever.
  void finished(fiber* f) noexcept;
  /// Its memory may be used for another.
  void recycle(fiber* f) noexcept;
  std::size_t run(unique_function<void()> main, const std::source_location& made);
  /// The first half of `run`: its main fiber is there; the last is `conclude`.
  void begin_run(unique_function<void()> main, const std::source_location& made);
  std::size_t live_fibers() const noexcept;

  // Time (wait_list.cpp)
  // -------------------------------------------------------------------------------------------------
  std::int64_t now() const noexcept;
  /// Fires what is due on one worker's clock. \return whether there was anything.
  bool ring(worker& whose, std::int64_t time) noexcept;
  bool ring_all() noexcept;
  /// The earliest moment at which a timer must be looked at.
  std::int64_t next_alarm() const noexcept;
  /// The calling worker has set a timer for `deadline`: those that sleep must not oversleep.
  void alarm_set(std::int64_t deadline) noexcept;

  // A worker's day (worker.cpp) ---------------------------------------------------------------------------------------
  void work(worker& w);
  /// Does one thing. \return false if there was nothing to do.
  bool step(worker& w);
  bool take_turn(worker& w);
  bool poll(worker& w);
  /// Does this worker look after the events?
  bool has_events(const worker& w) const noexcept { return w.index == 0 && cfg.events && !cfg.poll_apart; }
  /// Looks after them and nothing else, until the run is over.
  void poll_apart();
  void rest_of_poller();
  bool take_outside(worker& w);
  bool resume_spawner(worker& w);
  bool steal(worker& w);
  bool steal_from(worker& w, worker& victim);
  bool steal_fiber(worker& w, unsigned kinds);
  bool steal_yielded(worker& w);
  bool has_stranded_yielded(worker& w, const worker& other) const noexcept;
  bool force_some(worker& w);
  void run_fiber(worker& w, runnable* x);
  /// Gives a body that waited its fiber. \return null if there is no stack for it just now.
  fiber* begin(worker& w, pending_fiber* p);
  /// Will none of the fibers that have a stack of this class give it back by itself?
  /// \param tasklets_end runners that are at a tasklet will.
  bool no_stack_comes(std::uint8_t stack_class, bool tasklets_end);
  void stacks_are_scarce(const std::exception& why);
  /// The next of these kinds that is this worker's to run.
  runnable* own_fiber(worker& w, unsigned kinds) noexcept;
  /// Others want what this worker has.
  void answer(worker& w) noexcept;
  bool force_fibers(worker& w) noexcept;
  /// A moment's rest for one that searches.
  /// \return whether there was an event.
  bool linger(worker& w, unsigned call, int looks);
  void run_tasklet(worker& w, tasklet* t);
  static constexpr const char* runner_name = "tasklets";
  [[noreturn]] void run_for_others(); // a runner's body
  void run_handed(worker* w, tasklet* t);
  /// What the events want done in a fiber. \return false if there is no stack for it.
  bool run_errands(worker& w);
  /// Of a fiber. Each worker counts by itself. \param w null: made by no worker of this scheduler.
  std::uint64_t new_id(worker* w) noexcept {
    const auto strands = static_cast<std::uint64_t>(cfg.workers) + 1;
    return w ? w->serial++ * strands + static_cast<std::uint64_t>(w->index) + 1
             : serial_outside.fetch_add(1, std::memory_order_relaxed) * strands + strands;
  }
  void keep_loot(worker& w, unsigned n);
  /// Sleeps if there is really nothing. \return false if the run is over.
  bool park(worker& w);
  /// \param perhaps there may be something that cannot be told yet.
  bool anything_to_do(worker& w, bool& perhaps);
  bool all_asleep() const noexcept;
  /// Ends the run if main has ended and nothing can run any more. \return whether it did.
  bool end_if_done() noexcept;
  /// Whether no worker has anything that could run. \pre they cannot do anything meanwhile.
  bool nothing_ready() const noexcept;
  /// Whether nothing in here can ever run again, unless somebody from outside brings something: an event, a foreign
  /// thread. False once the main fiber has ended. \pre the caller holds `freeze`, and reads what it wants to know of
  /// the outside before it lets go.
  bool stands_still() const noexcept;
  // Rest (quiescence.cpp)
  // ---------------------------------------------------------------------------------------------------
  void rest(bool of_timers);
  /// The calling worker lies down: tells those who wait for rest if there is some. \return whether it told anybody.
  bool tell_of_rest() noexcept;
  /// \param timers_set there are some. \return whom the caller must wake. \pre nothing runs or is ready.
  waiter* who_waits_for_rest(bool timers_set) noexcept;
  void found_work(worker& w) noexcept;
  /// There is work that others may take: wakes somebody if nobody looks for any. Any thread.
  void notify() noexcept;
  void wake_one() noexcept;
  bool wake(worker& w) noexcept;
  void wake_all() noexcept;
  void observe(const worker& w, worker_event e, std::uint64_t n = 0) const noexcept {
    if (watched) [[unlikely]]
      tell(w, e, n);
  }
  /// The observer, and the trace (tracing.cpp).
  void tell(const worker& w, worker_event e, std::uint64_t n) const noexcept;

  /// Calls `f(fiber&)` for all that have begun or are about to and have not ended; other workers may go on meanwhile.
  template <class F> void each_fiber(F&& f) {
    if (keeps_list()) {
      for (fiber* x = simulated; x; x = x->older)
        if (x->id.load(std::memory_order_relaxed) != 0) f(*x);
      return;
    }
    stacks.each([&](fiber& x) {
      if (x.home == this && x.id.load(std::memory_order_relaxed) != 0) f(x);
    });
  }
  /// Those of them that are given up when the run is over: all but runners that have no tasklet.
  template <class F> void each_left(F&& f) {
    each_fiber([&](fiber& x) {
      if (x.joiner.load(std::memory_order_acquire) == fiber::done) return;
      if (!x.runner.load(std::memory_order_relaxed) || x.group.load(std::memory_order_relaxed)) f(x);
    });
  }
  /// As `each_fiber` for one who must not wait for ever, as whoever holds the lock may have crashed. \return whether it
  /// was done.
  template <class F> bool each_fiber_within(std::chrono::milliseconds limit, F&& f) {
    if (keeps_list()) {
      each_fiber(f);
      return true;
    }
    return stacks.each_within(limit, [&](fiber& x) {
      if (x.home == this && x.id.load(std::memory_order_relaxed) != 0) f(x);
    });
  }
  std::size_t report_stuck();
  std::size_t conclude();
  /// Fibers that still wait after the run are given up: what their closures own goes. Twice does no harm.
  void give_up() noexcept;
  fiber* take_stack(worker* w, std::uint8_t stack_class);
  fiber* take_simulated(std::uint8_t stack_class);
  /// Is this the simulation's own thread, where the list of fibers stands still?
  bool keeps_list() const noexcept;
  /// \return the class of its stack.
  std::uint8_t checked(const fiber_options& options, const std::source_location& made) const;
  /// Looks for fibers that wait for each other in a circle. \return what to say of them; empty if there are none. Only
  /// while no fiber runs.
  std::string find_deadlock();
  double waited_seconds(const fiber& f) const noexcept;
  /// Of a moment of `ticks`. Any thread.
  double seconds_since(std::int64_t moment) const noexcept;
  /// The calling worker sleeps: if all do, looks for a deadlock, and ends the run if there is one.
  void look_for_deadlock() noexcept;
  /// How often fibers have been entered by the workers themselves.
  std::uint64_t entered() const noexcept;
  fiber* new_runner();
  fiber* idle_runner(worker& w) noexcept;
  /// That, or a new one. \return null if there is no stack for it just now.
  fiber* any_runner(worker& w);
  void share_runner(fiber* f) noexcept;
  void plan_victims();
  void start_thread(worker& w);

  scheduler* owner = nullptr;
  scheduler::settings cfg;
  std::string main_is;            // what the main fiber is called in reports; empty: where it was made
  std::source_location main_made; // of the main fiber
  const bool watched;             // by an observer, or recorded
  const asymmetric_barrier barrier;
  sim::detail::engine* engine = nullptr;        // of the simulation that this runs in
  sim::detail::lane* lane = nullptr;            // this scheduler in it
  const std::unique_ptr<stack_pool> own_stacks; // none in a simulation, whose schedulers share their stacks
  stack_pool& stacks;
  fiber* simulated = nullptr; // the newest of this scheduler's fibers in a simulation
  std::vector<std::unique_ptr<worker>> workers;
  std::chrono::nanoseconds spin;         // how long to look for work before sleeping
  std::atomic<int> poller_thread{0};     // the kernel's number of the one that polls apart; 0: none
  std::atomic<bool> poller_rests{false}; // it sleeps, and polls only after it has passed `freeze`
  int poll_in = 0;                       // worker 0's: turns until the next look at the events

  // Both change with sequential consistency: see `notify` and `park`.
  alignas(64) std::atomic<int> searching{0}; // awake and without work; includes those that have been roused
  std::atomic<int> asleep{0};                // drowsy, or roused and not yet up
  // Changes when `notify` finds somebody searching: who searches watches it, and leaves others' queues alone meanwhile.
  alignas(64) std::atomic<unsigned> calls{0};
  alignas(64) outside_queue outside;
  // Tasklets for contexts that are no worker, under the lock; made when there is one, and never runs.
  std::unique_ptr<worker> outside_pool;
  spin_lock outside_pool_lock;

  // Foreign threads that are in here. What they make ready may end the run before they have left.
  std::atomic<int> visitors{0};

  // Fibers that wait for a foreign thread which works for this scheduler, and such threads that hold it open: there is
  // no end and no rest before they are done.
  std::atomic<int> working_outside{0};

  std::atomic<bool> stopping{false}; // main has ended
  std::atomic<bool> over{false};     // and nothing can run any more

  std::atomic<std::int64_t> sleeps_until{wait_limit::never}; // the earliest time that a sleeping worker looks again
  std::atomic<int> timers{0};                                // set and not yet fired or removed; a guess
  std::atomic<std::uint64_t> born_outside{0}, died_outside{0};
  std::atomic<std::uint64_t> serial_outside{0};

  spin_lock registry; // protects what follows
  std::atomic<scheduler_extension*> hetero{nullptr};
  mutex hetero_lock; // while it is made
  bool started = false;
  bool concluded = false;          // and its run is over
  fiber* shared_runners = nullptr; // idle ones that no worker keeps, through fiber::next
  bool short_of_stacks = false;    // it has been said
  std::atomic<bool> has_shared_runners{false};
  std::exception_ptr main_failed;

  std::atomic<int> awaits_rest{0}; // fibers; what follows is theirs
  spin_lock rest_guard;
  waiter_list for_fibers, for_timers; // that wait for others' rest only, and also for no timers to be set

  // Whoever has slept passes through it before it runs anything: so while one holds it and all are counted as asleep,
  // no fiber runs.
  spin_lock freeze;
  dropped_failures dropped;
  void (*tell_dropped)(void* context, const std::string& text) noexcept = nullptr; // at once, if somebody wants to know
  std::atomic<std::uint64_t> looked_at{0}; // `entered` when a deadlock was last looked for
  std::string deadlock;                    // why the run was ended; under `freeze`, then read after it
};

inline bool worker::nothing_else() const noexcept { return !fair && !polls && deque.size() == 0; }

} // namespace tern::detail
