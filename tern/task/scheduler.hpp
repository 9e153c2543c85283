// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The node scheduler: N workers (OS threads) that run fibers (user-level threads). A fiber that waits (for a lock, a
/// future, a message) gives its worker to another fiber, so waiting never holds a core.
///
///     tern::scheduler s({.workers = 2});
///     s.run([] {
///       auto half = tern::async([] { return 21; });
///       std::printf("%d\n", 2 * half.get());
///     });

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/unique_function.hpp>

namespace tern {

/// Something outside the scheduler that produces work and must be polled by worker 0, e.g. a network.
class work_source {
public:
  virtual ~work_source() = default;
  /// Makes progress; may spawn fibers. Called by worker 0 only, outside any fiber; must not block. \return true if
  /// there was an event.
  virtual bool poll() = 0;
  /// Worker 0 has nothing to do: sleep until `wake`, an event, or the time is over. A `wake` since the last `wait`
  /// returned makes it return at once.
  virtual void wait(std::chrono::microseconds at_most) = 0;
  /// Ends a present or the next `wait`. Any thread.
  virtual void wake() noexcept = 0;
};

/// Runs fibers on a fixed number of workers until its main fiber and all that it started are done.
class scheduler {
public:
  struct settings {
    int workers = 1;                                   ///< >= 1; worker 0 is the thread that calls `run`
    std::size_t stack_bytes = std::size_t{256} * 1024; ///< of each fiber; rounded up to whole pages, at least 16 KiB
    std::chrono::microseconds spin{0};                 ///< how long an idle worker looks for work before it sleeps
    std::string name = "tern";                         ///< threads are called "NAME wI"
    std::vector<std::vector<int>> cpus;                ///< for each worker the CPUs it is bound to; empty: not bound
    void* context = nullptr;       ///< what `context()` returns; the layers above hang their state here
    work_source* source = nullptr; ///< polled by worker 0; must outlive the scheduler
  };

  /// Starts nothing yet. \throws error(invalid_argument) for workers < 1.
  explicit scheduler(settings);
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Runs `main` as a fiber; the calling thread becomes worker 0. Returns when `main` has returned and no fiber can run
  /// any more. Fibers that are still suspended then wait for something that cannot come: they are counted in the result
  /// and named in the log, and their stacks are given up without unwinding. May be called once.
  /// An exception out of `main` is rethrown here after the other fibers have ended.
  std::size_t run(unique_function<void()> main);

  /// Adds a fiber. Any thread, also before `run`. An exception out of `body` ends the program (std::terminate): give
  /// results and errors to a promise, or use `async`.
  void spawn(unique_function<void()> body, std::string name = {});

  int workers() const noexcept;
  void* context() const noexcept;
  /// Fibers that have been spawned and have not finished.
  std::size_t live_fibers() const noexcept;
  /// The scheduler whose worker the calling thread is; null on foreign threads.
  static scheduler* current() noexcept;
  /// The calling thread's number among the workers of `current()`; -1 on foreign threads.
  static int current_worker() noexcept;
  /// True inside a fiber: where waiting suspends. False on foreign threads and inside `work_source::poll`.
  static bool in_fiber() noexcept;

  struct impl;

private:
  std::unique_ptr<impl> impl_;
};

namespace this_fiber {
/// Lets the other ready fibers run first. From a foreign thread: yields to the operating system.
void yield();
/// The name given at `spawn`; empty if none, or on a foreign thread.
std::string name();
} // namespace this_fiber

} // namespace tern
