// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Futures whose waiting suspends the fiber, promises that any thread may keep, and `async`, which runs a function in a
/// fiber of its own.

#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/task/detail/wait.hpp>
#include <tern/task/scheduler.hpp>

namespace tern {

template <class T> class future;
template <class T> class promise;

namespace detail {

/// What a promise and its future share. `ready_` and the waiters are protected by `guard_`; value and exception are
/// written before `ready_` and read after it, so they need no lock of their own.
class future_state_base {
public:
  bool ready() const;
  void wait();
  void fail(std::exception_ptr e);
  bool claimed() const;

protected:
  void claim(); // \throws error(already_exists) if a value was set before
  void unclaim() noexcept;
  void publish(); // wakes all waiters
  void rethrow_if_failed() {
    if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
  }

private:
  mutable spin_lock guard_;
  bool claimed_ = false, ready_ = false;
  waiter_list waiters_;
  std::exception_ptr exception_;
};

template <class T> class future_state : public future_state_base {
public:
  template <class... U> void set(U&&... value) {
    claim();
    try {
      value_.emplace(std::forward<U>(value)...);
    } catch (...) {
      unclaim();
      throw;
    }
    publish();
  }
  T take() {
    wait();
    rethrow_if_failed();
    return std::move(*value_);
  }

private:
  std::optional<T> value_;
};

template <> class future_state<void> : public future_state_base {
public:
  void set() {
    claim();
    publish();
  }
  void take() {
    wait();
    rethrow_if_failed();
  }
};

[[noreturn]] void throw_no_state(const char* what);
std::exception_ptr broken_promise_error(const std::string& place);

} // namespace detail

/// The receiving end of one value. Move-only. One context at a time.
template <class T> class [[nodiscard]] future {
public:
  future() noexcept = default;
  bool valid() const noexcept { return state_ != nullptr; }
  /// \throws error(invalid_state) if not `valid()`; so do the functions below.
  bool ready() const { return state().ready(); }
  void wait() const { state().wait(); }
  /// Waits, then gives the value away or throws what the other side threw; afterwards not `valid()`.
  T get() {
    auto s = std::move(state_);
    if (!s) detail::throw_no_state("future::get");
    return s->take();
  }

private:
  friend class promise<T>;
  explicit future(std::shared_ptr<detail::future_state<T>> s) noexcept : state_(std::move(s)) {}
  detail::future_state<T>& state() const {
    if (!state_) detail::throw_no_state("future");
    return *state_;
  }
  std::shared_ptr<detail::future_state<T>> state_;
};

/// The giving end of one value. Move-only; any thread may keep it. Destroyed unkept, it gives its future
/// error(broken_promise), which names the place where the promise was made.
template <class T> class promise {
public:
  explicit promise(std::source_location made = std::source_location::current())
      : state_(std::make_shared<detail::future_state<T>>()), made_(made) {}
  promise(promise&&) noexcept = default;
  promise& operator=(promise&& other) noexcept {
    if (this != &other) {
      abandon();
      state_ = std::move(other.state_);
      future_taken_ = other.future_taken_;
      made_ = other.made_;
    }
    return *this;
  }
  ~promise() { abandon(); }

  /// \throws error(invalid_state) the second time.
  future<T> get_future() {
    if (!state_ || std::exchange(future_taken_, true)) detail::throw_no_state("promise::get_future");
    return future<T>(state_);
  }
  /// \throws error(already_exists) if a value or exception was set before.
  template <class... U>
  requires(std::is_void_v<T> ? sizeof...(U) == 0 : sizeof...(U) == 1) void set_value(U&&... value) {
    if (!state_) detail::throw_no_state("promise::set_value");
    const auto state = state_; // once it is set, the waiter may destroy this promise
    state->set(std::forward<U>(value)...);
  }
  void set_exception(std::exception_ptr e) {
    if (!state_) detail::throw_no_state("promise::set_exception");
    const auto state = state_;
    state->fail(std::move(e));
  }

private:
  void abandon() noexcept {
    if (state_ && !state_->claimed())
      state_->fail(detail::broken_promise_error(std::string(made_.file_name()) + ":" + std::to_string(made_.line())));
    state_.reset();
  }
  std::shared_ptr<detail::future_state<T>> state_;
  std::source_location made_;
  bool future_taken_ = false;
};

/// Calls `f()` and keeps `p` with its result or exception.
template <class T, class F> void fulfil(promise<T>& p, F&& f) noexcept {
  try {
    if constexpr (std::is_void_v<T>) {
      f();
      p.set_value();
    } else {
      p.set_value(f());
    }
  } catch (...) {
    p.set_exception(std::current_exception());
  }
}

/// Runs `f()` in a new fiber of the current scheduler. \return its result or exception.
/// \throws error(invalid_state) on a thread that is no worker.
template <class F, class R = std::invoke_result_t<std::decay_t<F>&>>
future<R> async(F&& f, std::source_location made = std::source_location::current()) {
  scheduler* s = scheduler::current();
  if (!s)
    throw error(errc::invalid_state, "tern::async was called on a thread that is not a worker",
                "call it from inside tern::run or scheduler::run", made);
  promise<R> p(made);
  auto result = p.get_future();
  s->spawn([p = std::move(p), f = std::forward<F>(f)]() mutable { fulfil(p, f); });
  return result;
}

} // namespace tern
