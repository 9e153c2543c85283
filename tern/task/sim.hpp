// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The simulated executor: the same scheduler, fibers and tasklets on one OS thread, with
/// virtual workers and clocks, in an order chosen by a seed. A protocol that is wrong in one order
/// out of thousands is found by trying thousands of seeds, and the seed that fails shows it again,
/// as often as needed.
///
///     tern::sim::simulation world({.seed = 7});
///     tern::scheduler s({.workers = 4, .simulation = &world});
///     s.run([] {
///       auto f = tern::async([] { tern::sim::charge(2e-3); }); // 2 ms of work, in no time
///       f.get();
///     });
///     std::printf("%.3f s, trace %016lx\n", world.seconds(), world.trace_hash());
///
/// Each virtual worker has a clock. What a fiber does takes no virtual time but what it `charge`s
/// and a little for each time that it runs; sleeping and timeouts go by these clocks. A fiber goes
/// on no earlier than it was made ready. Which of the fibers that can run goes first, on which
/// worker, whether a worker takes a tasklet of its own or another's, all that the seed decides. The
/// order never depends on addresses or on real time.
///
/// What would make a run depend on more than its seed must not happen inside: other threads that
/// wake fibers, reading real clocks, blocking system calls. The last are noticed afterwards and
/// reported with the fiber's name (`simulation::surprises`); announce those that are meant with
/// `outside_world`.

#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <tern/base/unique_function.hpp>

namespace tern {
class scheduler;
}

namespace tern::sim {

namespace detail {
class simulated_executor;
}

struct settings {
  std::uint64_t seed = 1;
  /// How often an operation of a primitive (locking, sending, setting a promise, …) lets others
  /// come first.
  double preempt = 0.125;
  /// Virtual time that each run of a fiber takes besides what it charges; so that waiting by asking
  /// comes to an end.
  double step_seconds = 100e-9;
  /// Notice system calls that block.
  bool watch_blocking = true;
};

/// A world with its own time. One scheduler at a time, or several together; used by one thread.
class simulation {
public:
  /// A scheduler of this simulation, and its main function.
  struct member {
    scheduler* who = nullptr;
    unique_function<void()> main;
  };

  explicit simulation(settings = {});
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  /// Runs several schedulers at once, as scheduler::run would run each, until nothing can happen
  /// any more in any of them.
  /// \return for each what scheduler::run would have thrown: error(deadlock) if its main still
  /// waits; null if it is well.
  /// \throws error(invalid_argument) for one that is not in this simulation, error(invalid_state)
  /// if one runs already.
  std::vector<std::exception_ptr> run(std::span<member> all,
                                      std::source_location made = std::source_location::current());

  std::uint64_t seed() const noexcept;
  /// The latest of the workers' clocks.
  double seconds() const noexcept;
  /// Of everything that happened, in its order: what ran, where, when. Equal for equal programs and
  /// seeds, in another process too.
  std::uint64_t trace_hash() const noexcept;
  /// How many things happened.
  std::uint64_t events() const noexcept;
  /// What happened that the seed does not decide, a line each; also logged as warnings. At most 100
  /// are kept.
  const std::vector<std::string>& surprises() const noexcept;
  /// A random number from the seed, for programs that must be replayable too.
  std::uint64_t random() noexcept;

  detail::simulated_executor& inside() noexcept { return *executor_; } ///< for the rest of this layer

private:
  std::unique_ptr<detail::simulated_executor> executor_;
};

/// Is the calling thread inside a simulation?
bool active() noexcept;
/// Work of so many seconds: advances the clock of the virtual worker that runs the caller, then
/// lets workers run whose clocks are behind. Nothing outside a simulation, so programs may keep it.
/// \throws error(invalid_argument) for a negative or infinite time.
void charge(double seconds);

/// While one exists on the running fiber's worker, blocking system calls are no surprise. Must not
/// be kept across anything that suspends. Nothing outside a simulation.
class outside_world {
public:
  outside_world() noexcept;
  ~outside_world();
  outside_world(const outside_world&) = delete;
  outside_world& operator=(const outside_world&) = delete;
};

} // namespace tern::sim
