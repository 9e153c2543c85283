// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fibers: user-level threads that a scheduler's workers run. A fiber that waits gives its
/// worker to another one, so waiting never holds a core; any number may wait at once, each for the
/// price of its stack.
///
///     tern::fiber solver([] { solve(); }, {.name = "solver"});
///     tern::this_fiber::sleep_for(5ms); // the worker does something else meanwhile
///     solver.join();                    // rethrows what solve threw
///
/// What belongs to a fiber, and follows it from worker to worker: its stack, exceptions in flight,
/// the rounding mode and exception masks of floating-point arithmetic (not its sticky flags),
/// `fiber_local`s. What does not: `thread_local` variables and `errno`. Compilers keep their
/// addresses across calls, so a function that reads `errno` after it may have been suspended may
/// read another thread's; use a pinned fiber, or read it before.

#include <tern/base/language/compiler.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <source_location>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tern/base/language/durations.hpp>
#include <tern/task/fiber/context_switch_inline.hpp>
#include <tern/task/fiber/fiber_closure.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/wait/deadline.hpp>

namespace tern {

/// The time that fibers sleep and time out by: steady, in nanoseconds; virtual under the simulated
/// executor. Any thread (on one that is no worker it is std::chrono::steady_clock).
struct fiber_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<fiber_clock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;
};

/// A fiber that can be waited for. Move-only. As std::jthread: a body that takes a std::stop_token
/// first gets one that `request_stop` sets; the destructor asks a fiber that still runs to stop,
/// and joins it (what it threw is then logged). One context at a time uses a handle.
class fiber {
public:
  fiber() noexcept = default;
  /// Starts a fiber of the current scheduler that calls `f()` or `f(std::stop_token)`. It runs on
  /// any worker at any time; fibers of one priority begin in the order made, more or less.
  /// \throws error(invalid_state) on a thread that is no worker (use scheduler::spawn),
  /// error(invalid_argument) for options that cannot be, error(out_of_memory) if there is no stack;
  /// what copying `f` throws.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, fiber>) explicit fiber(
      F&& f, const fiber_options& options = {}, std::source_location made = std::source_location::current()) {
    if constexpr (std::is_invocable_v<std::decay_t<F>&, std::stop_token>) {
      std::stop_source source;
      self_ = detail::start_fiber(
          [f = std::forward<F>(f), token = source.get_token()]() mutable { f(std::move(token)); }, options, made);
      stop_ = std::move(source);
    } else {
      static_assert(std::is_invocable_v<std::decay_t<F>&>, "a fiber's body is called with nothing or a stop_token");
      self_ = detail::start_fiber(std::forward<F>(f), options, made);
    }
  }
  fiber(fiber&& other) noexcept : self_(std::exchange(other.self_, nullptr)), stop_(std::move(other.stop_)) {}
  fiber& operator=(fiber&& other) noexcept {
    if (this != &other) {
      end();
      self_ = std::exchange(other.self_, nullptr);
      stop_ = std::move(other.stop_);
    }
    return *this;
  }
  ~fiber() { end(); }

  /// Made, and neither joined nor detached.
  bool joinable() const noexcept { return self_ != nullptr; }
  /// Waits for its end; rethrows what its body threw. A fiber that has not begun and stands on this
  /// worker begins at once. A foreign thread sleeps.
  /// \throws error(invalid_state) if not `joinable`, error(deadlock) if it is the calling fiber
  /// itself.
  void join();
  /// Detaches it: no context will wait for it. If its body throws, the program ends
  /// (std::terminate) with a message that names it.
  /// \throws error(invalid_state) if not `joinable`.
  void detach();
  /// A number that no other fiber of its scheduler has had; 0 if not `joinable`.
  std::uint64_t id() const noexcept;
  /// Sets the stop_token that the body was given.
  /// \return whether it had not been set; false if the body takes none.
  bool request_stop() noexcept { return stop_.request_stop(); }
  std::stop_token get_stop_token() const noexcept { return stop_.get_token(); }

private:
  void end() noexcept;
  detail::fiber* self_ = nullptr;
  std::stop_source stop_{std::nostopstate};
};

namespace this_fiber {
/// Lets whatever else can run on this worker run first. From a foreign thread: yields to the
/// operating system.
inline void yield() {
  [[maybe_unused]] const detail::pending_switch p = detail::begin_yield();
#ifdef TERN_INLINE_SWITCH
  if (p.save) {
    detail::swap_stack(p.save, p.go);
    detail::end_yield();
  }
#endif
}
/// The name given when it was made, or since; empty if none, or on a foreign thread.
std::string name();
/// Names the calling fiber anew, for messages, reports and debuggers; 47 bytes are kept. Nothing
/// on a foreign thread.
void set_name(std::string_view name) noexcept;
/// The calling fiber's `fiber::id`; 0 on a foreign thread.
std::uint64_t id() noexcept;

/// Suspends for at least `d`; a foreign thread sleeps.
void sleep_for(std::chrono::nanoseconds d);
/// The same until a moment of `fiber_clock`.
void sleep_until(fiber_clock::time_point t);
/// The same until `stop` is set, if that is earlier.
/// \return false if it was.
bool sleep_for(std::chrono::nanoseconds d, const std::stop_token& stop);
// Times in other units, without overflow. Moments of another clock are turned into a time from now.
template <class Rep, class Period> void sleep_for(const std::chrono::duration<Rep, Period>& d) {
  sleep_for(detail::in_nanoseconds(d));
}
template <class Rep, class Period>
bool sleep_for(const std::chrono::duration<Rep, Period>& d, const std::stop_token& stop) {
  return sleep_for(detail::in_nanoseconds(d), stop);
}
template <class Clock, class Duration> void sleep_until(const std::chrono::time_point<Clock, Duration>& t) {
  sleep_until(fiber_clock::time_point(fiber_clock::duration(detail::deadline_at(t))));
}
} // namespace this_fiber

/// Waits until `ready()` is true, for conditions that are not announced: it is asked again each
/// time that other fibers have run, and at least every millisecond, on this fiber. A primitive that
/// is notified (condition_variable, future) is cheaper. On a foreign thread too. What `ready`
/// throws comes out.
template <class Predicate> void wait_until(Predicate&& ready) {
  for (unsigned round = 0; !ready(); ++round) detail::pause_before_look(round);
}
/// The same for at most `d`.
/// \return the last `ready()`.
template <class Predicate, class Rep, class Period>
bool wait_until(Predicate&& ready, const std::chrono::duration<Rep, Period>& d) {
  const auto most = detail::in_nanoseconds(d);
  const auto begin = fiber_clock::now();
  for (unsigned round = 0; !ready(); ++round) {
    if (fiber_clock::now() - begin >= most) return false;
    detail::pause_before_look(round);
  }
  return true;
}

/// A variable of which each fiber has its own, as `thread_local` gives each thread its own; foreign
/// threads have one each, too. Made by `init` at its first use in a fiber, destroyed when the fiber
/// ends, last made first. Make it static, or let it outlive the fibers that use it. Any thread.
template <class T> class fiber_local {
public:
  explicit fiber_local(T (*init)() = [] { return T(); }) : init_(init), key_(detail::new_local_key()) {}
  fiber_local(const fiber_local&) = delete;
  fiber_local& operator=(const fiber_local&) = delete;
  T& operator*() const {
    detail::local_slot& s = detail::local(key_);
    if (!s.value) s.set(new T(init_()), [](void* p) noexcept { delete static_cast<T*>(p); });
    return *static_cast<T*>(s.value);
  }
  T* operator->() const { return &**this; }

private:
  T (*init_)();
  std::size_t key_;
};

/// Every fiber of every scheduler of this process: number, name, state, what it waits for, which
/// fiber has that, since when, and where it was made. Any thread; also when all is stuck. While
/// others run it shows several moments.
std::string dump_fibers();

} // namespace tern
