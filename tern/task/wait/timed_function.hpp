// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A function that is called at a moment, without a fiber that waits for it.

#include <cstdint>

#include <tern/task/wait/timer_wheel.hpp>

namespace tern::detail {

struct worker_head;

/// Called once at a moment of `fiber_clock`, on a worker of the scheduler whose worker has set it,
/// outside any fiber: there it must be short, and neither suspend nor throw. Must not be destroyed
/// while it is set, nor before a call that `cancel` came too late for is over.
class timed_function : public timer {
public:
  using function = void (*)(timed_function& self) noexcept;
  explicit timed_function(function f) noexcept : call_(f) { calls = true; }
  timed_function(const timed_function&) = delete;
  timed_function& operator=(const timed_function&) = delete;

  /// \pre on a worker's thread; not set. May be called before this returns.
  void set(std::int64_t deadline) noexcept;
  /// Any thread.
  /// \return it will not be called. False: it has been, is being or will be, or was never set.
  bool cancel() noexcept;

private:
  friend class timer_queue; // calls it
  const function call_;
  worker_head* where_ = nullptr; // the worker whose clock it uses
};

} // namespace tern::detail
