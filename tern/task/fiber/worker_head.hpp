// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a thread knows at once of the worker that it is: the running fiber, its stack, and the
/// contexts in which it runs. Inlined into user code. Internal to Tern's layers.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tern::detail {

struct fiber;
class causal_context;

/// Written by one thread; read by others that accept an old value.
template <class T> class relaxed {
public:
  relaxed(T x) noexcept : value_(x) {} // NOLINT(google-explicit-constructor): stands for a T
  relaxed& operator=(T x) noexcept {
    value_.store(x, std::memory_order_relaxed);
    return *this;
  }
  operator T() const noexcept { return value_.load(std::memory_order_relaxed); } // NOLINT(google-explicit-constructor)
  T operator->() const noexcept { return *this; }

private:
  std::atomic<T> value_;
};

/// The beginning of a worker, and all that there is of `no_worker`.
struct worker_head {
  void* context = nullptr;          ///< scheduler::settings::context
  causal_context* causal = nullptr; ///< the running fiber's, or that of what is done outside any fiber
  std::uintptr_t stack_low = 0;     ///< of the running fiber
  std::size_t stack_size = 0;       ///< 0: no fiber runs
  relaxed<fiber*> running = nullptr;
  std::int64_t last_tick = 0;                  ///< `ticks()` when the worker last looked for work
  const std::int64_t* virtual_clock = nullptr; ///< of the simulation, in nanoseconds; null: real time

  /// Is the object on that stack?
  // address: inside or outside is the same wherever the stack lies
  bool on_stack(const void* p) const noexcept { return reinterpret_cast<std::uintptr_t>(p) - stack_low < stack_size; }
};

} // namespace tern::detail

/// The worker that a thread is, or `no_worker`. Read by `this_worker_head` only. Initial-exec: two
/// instructions, also from another library.
extern "C" __attribute__((tls_model("initial-exec"))) thread_local tern::detail::worker_head* tern_this_worker;

namespace tern::detail {

extern worker_head no_worker; ///< of foreign threads: runs no fiber, so no object is on its stack

#if defined(__x86_64__) && defined(__ELF__) && defined(__LP64__)
#define TERN_THIS_WORKER_IN_HEADER
/// The calling thread's. Assembly, because compilers keep a thread_local's address in a register,
/// which is wrong after a switch has changed the thread. The clobber keeps it from moving across
/// calls.
inline worker_head* this_worker_head() noexcept {
  worker_head* w;
  asm volatile("movq tern_this_worker@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(w) : : "memory");
  return w;
}
#else
/// The same, never inlined.
[[gnu::noinline]] worker_head* this_worker_head() noexcept;
#endif

/// The fiber that the calling thread runs; null if none.
inline fiber* running_fiber() noexcept { return this_worker_head()->running; }

} // namespace tern::detail
