// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a closure becomes a fiber: what the templates of fiber.hpp and scheduler.hpp need.

#include <tern/base/language/compiler.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

#include <tern/task/fiber_options.hpp>

namespace tern {

namespace detail {

struct fiber;
struct scheduler_core;

/// A fiber that has its stack and nothing to do yet, and the memory for its closure.
struct unstarted_fiber {
  fiber* self = nullptr;
  void* closure = nullptr;
};

/// Calls the closure, if `self` is not null, keeps what it throws there, and destroys it.
using fiber_body = void (*)(void* closure, fiber* self) noexcept;
/// The exception that is being handled is what `f` ended with.
void keep_failure(fiber& f) noexcept;

/// A new fiber of the current scheduler.
/// \throws as tern::fiber's constructor.
unstarted_fiber make_fiber(std::size_t bytes, std::size_t alignment, const fiber_options& options,
                           const std::source_location& made);
/// Undoes `make_fiber`.
void discard_fiber(unstarted_fiber s) noexcept;
/// It runs from now on.
void launch(fiber* f, fiber_body body) noexcept;

template <class F> void run_body(void* closure, fiber* self) noexcept {
  F* f = static_cast<F*>(closure);
  if (self) {
    try {
      (*f)();
    } catch (...) {
      detail::keep_failure(*self);
    }
  }
  f->~F();
}

/// Makes and starts a fiber that calls `f()`.
template <class F> fiber* start_fiber(F&& f, const fiber_options& options, const std::source_location& made) {
  using closure = std::decay_t<F>;
  const unstarted_fiber s = detail::make_fiber(sizeof(closure), alignof(closure), options, made);
  if constexpr (std::is_nothrow_constructible_v<closure, F>) {
    ::new (s.closure) closure(std::forward<F>(f));
  } else {
    try {
      ::new (s.closure) closure(std::forward<F>(f));
    } catch (...) {
      detail::discard_fiber(s);
      throw;
    }
  }
  detail::launch(s.self, run_body<closure>);
  return s.self;
}

/// It will not be joined.
void detach_fiber(fiber* f) noexcept;

/// Is it wise to give a new fiber its stack now, or do too many wait for their first turn here?
bool may_take_stack() noexcept;
/// The caller is about to wait for `f`: if it stands on this worker's queue, it goes on in the
/// caller's place, without waiting for its turn. A hint; `f` may have ended.
/// \param home its scheduler.
void start_now(fiber* f, const scheduler_core* home) noexcept;
/// Of the worker that the calling thread is; null if none.
const scheduler_core* this_scheduler() noexcept;

void pause_before_look(unsigned round);

std::size_t new_local_key() noexcept;
struct local_slot {
  void* value = nullptr;
  void (*destroy)(void*) noexcept = nullptr;
  std::uint64_t made = 0; ///< when, for destroying in the opposite order
  void set(void* v, void (*d)(void*) noexcept) noexcept;
};
/// The calling fiber's or foreign thread's.
local_slot& local(std::size_t key);

} // namespace detail
} // namespace tern
