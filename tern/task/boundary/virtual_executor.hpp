// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a scheduler asks of a simulation that it runs in, instead of running on threads.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tern/task/fiber_options.hpp>

namespace tern::sim {
class simulation;
}

namespace tern::detail {

struct runnable;
struct scheduler_core;
class stack_pool;

/// Runs schedulers in virtual time, all on one thread. sim/ implements it.
class virtual_executor {
public:
  virtual void attach(scheduler_core& core) = 0;
  virtual void detach(scheduler_core& core) noexcept = 0;
  /// `fiber_supply::give_up` for all schedulers whose runs are over.
  virtual void give_up_all() noexcept = 0;
  /// \throws error(invalid_state) while this runs already.
  virtual void expect_free() const = 0;
  /// Runs these, until nothing can happen any more.
  virtual void run(std::span<scheduler_core* const> cores) = 0;
  /// `x` can run: instead of a worker's queue.
  virtual void ready(scheduler_core& core, runnable* x) = 0;
  /// Whether another fiber should come first now, as the seed decides.
  virtual bool preempt() noexcept = 0;
  /// The scheduler's work source has something from now on.
  virtual void source_offers(scheduler_core& core) noexcept = 0;
  /// Its schedulers' common stacks of that size.
  virtual stack_pool& stacks(std::size_t bytes, stack_guard guard) = 0;
  virtual bool on_this_thread() const noexcept = 0;
  virtual std::uint64_t seed() const noexcept = 0;

  /// The clock of the worker that runs, or the time of the event that happens, in ns.
  std::int64_t now() const noexcept { return now_; }
  /// Where that can be read.
  const std::int64_t* clock() const noexcept { return &now_; }

protected:
  ~virtual_executor() = default;
  std::int64_t now_ = 0;
};

/// That of a simulation; sim/ defines it.
virtual_executor& executor_of(sim::simulation& s) noexcept;

} // namespace tern::detail
