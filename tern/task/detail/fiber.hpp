// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The fiber itself and the switch between a worker's own stack and a fiber's. Internal: users see `scheduler`, `async`
/// and `this_fiber`.

#include <cxxabi.h>
#include <string>

#include <boost/context/detail/fcontext.hpp>

#include <tern/base/unique_function.hpp>
#include <tern/task/detail/stack_pool.hpp>

namespace tern::detail {

struct scheduler_core;

/// The C++ runtime's per-thread record of exceptions being handled (Itanium C++ ABI 2.2.2). It belongs to the stack,
/// not to the thread: a fiber that suspends inside a catch block must find it again, on whatever thread it goes on.
struct exception_state {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

struct fiber {
  boost::context::detail::fcontext_t context = nullptr;
  stack memory;
  unique_function<void()> body;
  std::string name;
  exception_state exceptions;
  void* fake_stack = nullptr;               // address sanitizer
  fiber* next = nullptr;                    // in a run queue
  fiber *newer = nullptr, *older = nullptr; // in the scheduler's list of live fibers
  scheduler_core* home = nullptr;
};

/// A worker thread's own side of the switch.
struct worker {
  scheduler_core* home = nullptr;
  int index = 0;
  fiber* running = nullptr;
  boost::context::detail::fcontext_t context = nullptr; // of the worker's stack while a fiber runs
  // What the fiber that has just left its stack asked to be done: publishing "ready", "unlocked" or "finished" earlier
  // would let another worker enter a stack that is still in use.
  void (*after)(fiber*, void*) = nullptr;
  void* after_argument = nullptr;
  void* tsan_fiber = nullptr;
  void* fake_stack = nullptr;
  const void* stack_low = nullptr;
  std::size_t stack_size = 0;
};

/// The worker that the calling thread is, or null. Never inlined: compilers keep a thread_local's address in a
/// register, which is wrong after a switch has changed the thread.
[[gnu::noinline]] worker* this_worker() noexcept;
[[gnu::noinline]] void set_this_worker(worker* w) noexcept;

/// Gives `f` its stack and entry point. \throws error(out_of_memory).
void prepare(fiber& f, stack_pool& pool);
/// Worker to fiber; returns when the fiber suspends or ends, after what it asked for has been done.
void enter(worker& w, fiber& f) noexcept;
/// Fiber to worker; `after(fiber, argument)` runs on the worker's stack once this stack has been left. Returns when the
/// fiber is entered again, perhaps on another worker.
void leave(void (*after)(fiber*, void*), void* argument) noexcept;

} // namespace tern::detail
