// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The node scheduler: N workers (OS threads) that run fibers (user-level threads) and
/// tasklets (task_group.hpp). A fiber that waits (for a lock, a future, a message) gives its worker
/// to another fiber, so waiting never holds a core. A worker without work takes some from another,
/// and sleeps when there is none.
///
///     tern::scheduler s({.workers = 2});
///     s.run([] {
///       auto half = tern::async([] { return 21; });
///       std::printf("%d\n", 2 * half.get());
///     });

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include <tern/base/language/durations.hpp>
#include <tern/base/unique_function.hpp>
#include <tern/task/fiber_options.hpp>

namespace tern {

class options;
namespace detail {
struct scheduler_core;
}
namespace sim {
class simulation;
}

/// Something outside that has events and must be polled by worker 0, e.g. a network.
class event_source {
public:
  enum class polled {
    nothing,
    something,   ///< there was an event
    needs_fiber, ///< there is one that must be handled in a fiber
  };
  virtual ~event_source() = default;
  /// Makes progress; may spawn fibers. Called by worker 0 only, outside any fiber, or by the thread
  /// that polls apart; must not block.
  virtual polled poll() = 0;
  /// Called by worker 0 after `poll` has returned `needs_fiber`, in a pooled fiber that is kept for
  /// it. Work that does not wait costs no fiber of its own. If it waits, worker 0 continues to poll
  /// without this fiber; see detail::polling_fiber. Without memory for a stack it is not called,
  /// and `poll` is called again.
  virtual void run_in_fiber() {}
  /// Called by worker 0 in a fiber that is about to wait. Handles, for a moment at most and until
  /// `over(what)` is true, events that need no fiber of their own. A quick answer then costs no
  /// switch out of the fiber and back. Must not wait, nor keep worker 0 from other work. Never
  /// called while `run_in_fiber` has not returned.
  virtual void poll_briefly(bool (*)(const void* what) noexcept, const void*) noexcept {}
  /// The polling thread has nothing to do: sleeps until `wake`, an event, or the time is over. A
  /// `wake` since the last `wait` returned makes it return at once.
  virtual void wait(std::chrono::microseconds at_most) = 0;
  /// Ends a present or the next `wait`. Any thread.
  virtual void wake() noexcept = 0;
};

/// Where workers that have nothing left ask for more before they steal from each other: load
/// balancing plugs in here.
class work_source {
public:
  virtual ~work_source() = default;
  /// May spawn fibers or tasklets; must not block. Called outside any fiber, by several workers at
  /// once. A thread that makes `produce` succeed later must call `scheduler::notify`, or sleeping
  /// workers will not ask.
  /// \return true if it spawned anything.
  virtual bool produce(int worker) = 0;
  /// Might `produce` succeed now? Asked by a worker that is about to sleep, and by the search for
  /// quiescence. Any thread.
  virtual bool has_work() const noexcept = 0;
};

/// What an observer is told; `n` as said.
enum class worker_event : std::uint8_t {
  fiber_begin,    ///< a fiber is entered, for the first time or again
  fiber_end,      ///< it suspended or ended
  tasklets_begin, ///< tasklets are about to run outside a fiber of their spawner's
  tasklets_end,   ///< `n`: how many were run
  steal,          ///< `n`: how many tasklets
  park,           ///< the worker goes to sleep
  wake,           ///< and is awake again
};

/// For traces and counters: told by each worker, on its thread, what it does. Must be quick, not
/// block, not throw.
class scheduler_observer {
public:
  virtual ~scheduler_observer() = default;
  virtual void event(int worker, worker_event what, std::uint64_t n) noexcept = 0;
};

/// How often the rarer things have happened, over all workers.
struct scheduler_counters {
  std::uint64_t steals = 0; ///< successful ones, each of one or more tasklets
  std::uint64_t stolen = 0; ///< tasklets that were stolen
  std::uint64_t forced = 0; ///< times that tasklets had to be taken out of the hands of a worker in a long body
  std::uint64_t parks = 0;  ///< times that a worker went to sleep
  std::uint64_t wakes = 0;  ///< times that a worker woke another
  std::uint64_t pauses = 0; ///< times that a spawner of very many tasklets was suspended
  std::uint64_t fibers = 0; ///< that were started, without those that run tasklets
};

/// The stacks of a scheduler.
struct stack_report {
  std::size_t made = 0;          ///< stacks, which is the most fibers that were alive at once, or a few more
  std::size_t bytes = 0;         ///< of each of the usual size
  std::size_t deepest_bytes = 0; ///< the most that was ever used of one, in whole pages
  stack_guard guard = stack_guard::automatic;
};

/// Runs fibers on a fixed number of workers until its main fiber and all that it started are done.
class scheduler {
public:
  struct settings {
    int workers = 1;                                   ///< >= 1; worker 0 is the thread that calls `run`
    std::size_t stack_bytes = std::size_t{256} * 1024; ///< of each fiber; rounded up to whole pages, at least 16 KiB
    /// How long an idle worker looks for work before it sleeps; negative: 50 µs, or not at all if
    /// there are more workers than CPUs for them.
    std::chrono::microseconds spin{-1};
    std::string name = "tern";          ///< threads are called "NAME wI"
    std::vector<std::vector<int>> cpus; ///< for each worker the CPUs it is bound to; empty: not bound
    void* context = nullptr;            ///< what `context()` returns; the layers above hang their state here
    event_source* events = nullptr;     ///< polled by worker 0; must outlive the scheduler
    /// The thread that calls `run` polls the events and does nothing else; every worker gets a
    /// thread of its own. So events are dealt with while all workers are busy. Nothing is then done
    /// `run_in_fiber`. In a simulation worker 0 does so, and nothing else but what is bound to it:
    /// one worker less for all the rest.
    bool poll_apart = false;
    /// Worker 0 polls after each thing that took longer than 5 µs. False: also then only after
    /// every eighth, which suffices if no other worker and no other process waits for what it does
    /// with them.
    bool others_wait_for_events = true;
    work_source* source = nullptr;          ///< asked by workers without work; must outlive the scheduler
    scheduler_observer* observer = nullptr; ///< told what workers do; must outlive the scheduler
    /// Use membarrier(2) where the kernel has it. Without it spawning a tasklet costs a few
    /// nanoseconds more.
    bool membarrier = true;
    stack_guard guard = stack_guard::automatic; ///< for tests and old kernels
    /// Run in this simulation instead of on threads (sim.hpp); must outlive the scheduler.
    sim::simulation* simulation = nullptr;
    /// Of the layers above; must outlive the scheduler. Null: every option at its default.
    const options* opts = nullptr;
    /// Schedulers that share this machine, this one counted in: ranks, say. Of the layers above,
    /// which divide by it what each would else take for itself.
    int sharers = 1;
    int trace_rank = 0; ///< under which its workers stand in a trace that is being recorded when it is made
  };

  /// Starts nothing yet.
  /// \throws error(invalid_argument) for workers < 1.
  explicit scheduler(settings);
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Runs `main` as a fiber; the calling thread becomes worker 0, unless it polls apart. Returns
  /// when `main` has returned and no fiber can run any more. Fibers that are still suspended then
  /// wait for something that cannot come: they are counted in the result and named in the log, and
  /// their stacks are given up without unwinding. May be called once. An exception out of `main` is
  /// rethrown here after the other fibers have ended.
  /// \throws error(deadlock) if fibers wait for each other in a circle and so can never go on; it
  /// names them. error(deadlock) in a simulation too when `main` waits and nothing can run.
  std::size_t run(unique_function<void()> main, std::source_location made = std::source_location::current());

  /// Adds a fiber that is not joined. Any thread, also before `run`. It gets its stack when it
  /// begins, so thousands may wait for that. An exception out of `body` ends the program
  /// (std::terminate) with a message that names the fiber: give results and errors to a promise, or
  /// use `async` or `fiber`.
  void spawn(unique_function<void()> body, const fiber_options& options = {},
             std::source_location made = std::source_location::current());

  /// Waits for quiescence, in a fiber of this scheduler: returns at a moment when all its other
  /// fibers and tasklets wait and none is ready. Fibers that wait for quiescence do not wait for
  /// each other. An event or a foreign thread may end the quiescence at any moment. A fiber that
  /// yields again and again prevents it.
  /// \param timers Requires also that no fiber waits for a moment in time: none sleeps or waits
  /// with a time limit.
  /// \throws error(invalid_state) elsewhere.
  void quiesce(bool timers = false);

  /// A `work_source` has got work: wakes a worker if none is looking for any. Any thread.
  void notify() noexcept;

  int workers() const noexcept;
  /// As they stand; exact once `run` has returned. Any thread.
  scheduler_counters counters() const noexcept;
  void* context() const noexcept;
  /// Fibers that have been spawned and have not finished. Any thread.
  std::size_t live_fibers() const noexcept;
  /// Looks at every stack: takes a microsecond for each. Any thread.
  stack_report stacks() const;
  /// The scheduler whose worker the calling thread is; null on foreign threads.
  static scheduler* current() noexcept;
  /// The calling thread's number among the workers of `current()`; -1 on foreign threads.
  static int current_worker() noexcept;
  /// True inside a fiber: where waiting suspends. False on foreign threads and inside
  /// `event_source::poll`.
  static bool in_fiber() noexcept;

  detail::scheduler_core& inside() noexcept { return *core_; } ///< for the rest of this layer

private:
  std::unique_ptr<detail::scheduler_core> core_;
};

} // namespace tern
