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
struct group_state;
struct worker;

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
  // A runner, which runs tasklets: the group whose tasklets it is at; null while it has none.
  group_state* group = nullptr;
};

/// Gives `f` its stack and entry point. \throws error(out_of_memory).
void prepare(fiber& f, stack_pool& pool);
/// Worker to fiber; returns when the fiber suspends or ends, after what it asked for has been done.
void enter(worker& w, fiber& f) noexcept;
/// Fiber to worker; `after(fiber, argument)` runs on the worker's stack once this stack has been left. Returns when the
/// fiber is entered again, perhaps on another worker.
void leave(void (*after)(fiber*, void*), void* argument) noexcept;

} // namespace tern::detail
