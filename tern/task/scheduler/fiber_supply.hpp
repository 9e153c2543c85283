// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where a scheduler's fibers come from and go to: their stacks, their numbers, their start
/// and end.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>

#include <tern/base/unique_function.hpp>
#include <tern/task/stack/stack_pool.hpp>
#include <tern/task/worker/worker.hpp>

namespace tern::detail {

/// A worker keeps some free stacks for itself; all others lie in a pool. In a simulation, whose
/// schedulers share a pool, each scheduler keeps a list of its own fibers.
class fiber_supply {
public:
  fiber_supply(scheduler_core& core, std::size_t stack_bytes, stack_guard guard);

  /// A fiber with its stack, and memory for a closure.
  /// \throws as tern::fiber's constructor.
  unstarted_fiber make(std::size_t bytes, std::size_t alignment, const fiber_options& options,
                       const std::source_location& made);
  /// It runs from now on.
  void launch(fiber* f, fiber_body body) noexcept;
  /// As `scheduler::spawn`.
  void spawn(unique_function<void()> body, const fiber_options& options, const std::source_location& made);
  /// `f` has left its stack for ever.
  void finished(fiber* f) noexcept;
  /// Its memory may be used for another.
  void recycle(fiber* f) noexcept;
  /// All free stacks that a worker keeps for itself, to the others.
  void give_stacks(worker& w) noexcept;
  /// A new fiber's number. Each worker counts by itself.
  /// \param w null: made by no worker of this scheduler.
  std::uint64_t new_id(worker* w) noexcept {
    return w ? w->serial++ * stride_ + static_cast<std::uint64_t>(w->index) + 1
             : serial_outside_.fetch_add(1, std::memory_order_relaxed) * stride_ + stride_;
  }
  std::size_t live() const noexcept;
  std::uint64_t started() const noexcept; ///< ever, without runners

  /// Will none of the fibers that have a stack of this class give it back by itself?
  /// \param tasklets_end runners that are at a tasklet will.
  bool no_stack_comes(std::uint8_t stack_class, bool tasklets_end);
  /// There was no memory for a stack: workers keep none from now on. Says so once.
  void report_scarce(const std::exception& why);

  /// Calls `f(fiber&)` for all that have begun or are about to and have not ended; other workers
  /// may go on meanwhile.
  template <class F> void each(F&& f) {
    if (keeps_list()) {
      for (fiber* x = simulated_; x; x = x->older)
        if (x->id.load(std::memory_order_relaxed) != 0) f(*x);
      return;
    }
    stacks.each([&](fiber& x) {
      if (x.home == &core_ && x.id.load(std::memory_order_relaxed) != 0) f(x);
    });
  }
  /// Those of them that are given up when the run is over: all but runners that have no tasklet.
  template <class F> void each_left(F&& f) {
    each([&](fiber& x) {
      if (x.joiner.load(std::memory_order_acquire) == fiber::done) return;
      if (!x.runner.load(std::memory_order_relaxed) || x.group.load(std::memory_order_relaxed)) f(x);
    });
  }
  /// As `each` for a caller that must not wait for ever, as the holder of the lock may have
  /// crashed.
  /// \return whether it was done.
  template <class F> bool each_within(std::chrono::milliseconds limit, F&& f) {
    if (keeps_list()) {
      each(f);
      return true;
    }
    return stacks.each_within(limit, [&](fiber& x) {
      if (x.home == &core_ && x.id.load(std::memory_order_relaxed) != 0) f(x);
    });
  }
  /// Fibers that still wait after the run are given up: what their closures own goes. Twice does no
  /// harm.
  void give_up() noexcept;
  /// All of a simulated scheduler's fibers go back to the common pool.
  void return_simulated() noexcept;

private:
  fiber* take_stack(worker* w, std::uint8_t stack_class);
  fiber* take_simulated(std::uint8_t stack_class);
  /// Is this the simulation's own thread, where the list of fibers stands still?
  bool keeps_list() const noexcept;
  /// \return the class of its stack.
  std::uint8_t check_options(const fiber_options& options, const std::source_location& made) const;

  scheduler_core& core_;
  const std::uint64_t stride_;                   // between two numbers that one worker gives
  const std::unique_ptr<stack_pool> own_stacks_; // none in a simulation, whose schedulers share their stacks

public:
  stack_pool& stacks;

private:
  fiber* simulated_ = nullptr; // the newest of this scheduler's fibers in a simulation
  std::atomic<std::uint64_t> started_outside_{0}, serial_outside_{0};
  std::atomic<bool> scarce_{false}; // it has been said
};

} // namespace tern::detail
