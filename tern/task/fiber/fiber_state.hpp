// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The fiber itself. Internal: users see `fiber`, `scheduler`, `async` and `this_fiber`.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <source_location>
#include <string>
#include <utility>

#include <tern/base/unique_function.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/fiber/context_switch.hpp>
#include <tern/task/fiber/fiber_closure.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/fiber/wait_reason.hpp>

namespace tern::detail {

struct scheduler_core;
struct group_state;
struct worker;
class run_queue;
struct local_table;

/// The C++ runtime's per-thread record of exceptions being handled (Itanium C++ ABI 2.2.2). It
/// belongs to the stack, not to the thread: a fiber that suspends inside a catch block must find it
/// again, on whatever thread it goes on.
struct alignas(16) exception_state { // copied at once
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

/// A stack that can be left and entered: a fiber's, or a worker's own.
struct stack_context {
  switch_point at;
  exception_state exceptions;
  int error_number = 0; // errno
  std::byte* low = nullptr;
  std::size_t size = 0;
  causal_context* causal = nullptr; // that it runs in; that of a worker's own stack is always null
  void* tsan_fiber = nullptr;       // the thread sanitizer's context, one for each stack
  void* fake_stack = nullptr;       // the address sanitizer's
};

/// Something that stands in a worker's queue: a fiber, or one that has no stack yet.
struct runnable {
  runnable *next = nullptr, *prev = nullptr;
  std::atomic<run_queue*> queued{nullptr}; // the private queue it is in; changes under that queue's exclusion
  std::uint8_t level = 1;                  // its priority
  std::uint8_t kind = 1;                   // of the queue that it stands in
  bool is_fiber = true;
  std::int16_t worker = -1; // that alone may run it; -1: any
};

/// A body that waits for its first turn before it gets a stack: many may wait so, few have begun at
/// once.
struct pending_fiber : runnable {
  pending_fiber() noexcept { is_fiber = false; }
  unique_function<void()> body;
  held_context causal;
  std::string name;
  std::size_t stack_bytes = 0;
  std::source_location made;
};

enum class guard_kind : std::uint8_t { region, page, canary };

/// Why leaving a fiber needs a look: bits of `fiber::leave_flags`, none of them mostly.
struct leave_flags {
  static constexpr std::uint8_t canary = 1;   ///< its guard is one
  static constexpr std::uint8_t traced = 2;   ///< the trace is told when it is entered and left
  static constexpr std::uint8_t begun = 4;    ///< and has been told that it began,
  static constexpr std::uint8_t inside = 8;   ///< that it runs,
  static constexpr std::uint8_t batch = 16;   ///< that it is at a batch of tasklets
  static constexpr std::uint8_t timed = 32;   ///< a run_timer counts how long it runs
  static constexpr std::uint8_t watched = 64; ///< a leave_watch notes whether it is left
  static constexpr std::uint8_t hooked = 128; ///< it has leave_hooks
};

/// What is called each time a fiber is left, by waiting or yielding, on the stack that is left and
/// before the worker goes on. Must not wait. For code that has something that others need
/// meanwhile.
struct leave_hook {
  void (*left)(leave_hook& self) noexcept;
  leave_hook* outer = nullptr; // what the same fiber began before
};

/// Lies at the upper end of its stack, so that a fiber which does little touches one page.
struct alignas(64) fiber : runnable, stack_context {
  static constexpr std::uintptr_t alone = 0, detached = 1, done = 2, thread_bit = 4;
  /// What joins it: a fiber's address, or that of a foreign thread's waiter with `thread_bit`; or
  /// one of those above.
  std::atomic<std::uintptr_t> joiner{alone};
  // address: says who it is and is never ordered; for wait_reason::owner
  const std::atomic<std::uintptr_t> me{reinterpret_cast<std::uintptr_t>(this)};
  fiber_body body = nullptr;
  void* closure = nullptr;
  scheduler_core* home = nullptr;
  void* frame = nullptr;      // what a layer above has begun on this stack and not ended, see work_frame
  const void* task = nullptr; // of a layer above, which says so: the one whose function runs on this stack
  // In a runner, which runs tasklets: the group of those that it runs; else null. Written by the
  // code that runs on this stack. relaxed: others only ask whether there is one, for dumps and when
  // stacks are scarce.
  std::atomic<group_state*> group{nullptr};
  local_table* locals = nullptr;
  std::exception_ptr failed;
  fiber *older = nullptr, *newer = nullptr; // in a simulation: of the same scheduler
  std::atomic<std::uint64_t> id{0};         // 0: not in use
  std::atomic<bool> runner{false};          // never ends; not while it is on an errand
  bool heap_closure = false;
  guard_kind guard = guard_kind::region;
  std::uint8_t stack_class = 0;
  // For dumps and deadlocks; written on this stack, read by any thread.
  std::atomic<wait_kind> waits{wait_kind::none};
  std::uint8_t leave_flags = 0; // by the worker that runs it
  leave_hook* hooks = nullptr;  // the last one first; as leave_flags
  // One more than the worker on which it has handed something to another that may not have been
  // taken (activations::hand); 0: none. Written by the code that runs on this stack.
  std::uint16_t handed_by = 0;
  std::uint32_t trace_name = 0; // its name's number in the trace; 0: not looked up
  std::atomic<const void*> waits_for{nullptr};
  std::atomic<const std::atomic<std::uintptr_t>*> waits_on{nullptr};
  std::atomic<std::int64_t> waits_since{0};
  std::int64_t ran = 0, runs_since = 0; // ticks, if it is timed
  std::source_location made;
  char name[48] = {};

  std::byte* top() const noexcept { return low + size; } ///< of what the body may use
  std::string called() const;                            ///< "12 'name'", "12"
};

inline constexpr std::size_t canary_bytes = 64;
/// Ends the program if `f` has written over the lower end of its stack. For guard_kind::canary.
void check_canary(const fiber& f) noexcept;
[[noreturn]] void overflowed(const fiber& f) noexcept;

/// Notices whether the calling fiber is left while this exists, by waiting or yielding: for code
/// that must not. One at a time; on another stack than a fiber's it sees nothing.
class leave_watch {
public:
  leave_watch() noexcept;
  ~leave_watch();
  leave_watch(const leave_watch&) = delete;
  leave_watch& operator=(const leave_watch&) = delete;
  bool left() const noexcept { return of_ && (of_->leave_flags & leave_flags::watched) == 0; }

private:
  fiber* const of_;
};

/// For the calling fiber, until it is removed: the last one that was added first. \pre it is a
/// fiber.
void add_leave_hook(leave_hook& h) noexcept;
void remove_leave_hook(leave_hook& h) noexcept;

/// Makes `f` call `f->body(f->closure)` when it is entered first, on the stack below `top`.
void prepare(fiber& f, std::byte* top) noexcept;
/// Worker to fiber; returns when the worker's own stack is entered again, perhaps by another fiber.
void enter(worker& w, fiber& f) noexcept;
/// Leaves the running fiber's stack, for another fiber that can run or the worker's own.
/// `after(fiber, argument)` runs once it has been left: publishing "ready", "unlocked" or
/// "finished" earlier would let another worker enter a stack that is still in use. Returns when the
/// fiber is entered again, perhaps on another worker.
void leave(void (*after)(fiber*, void*), void* argument) noexcept;
/// The same, for `to` (which is in no queue) or, if null, always for the worker's own stack.
void leave_to(fiber* to, void (*after)(fiber*, void*), void* argument) noexcept;

} // namespace tern::detail
