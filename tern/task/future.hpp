// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Futures whose waiting suspends the fiber, promises that any thread may keep, `async`,
/// which runs a function in a fiber of its own, and continuations. (Combining: when.hpp.
/// Coroutines: coro.hpp.)
///
///     tern::future<mesh> m = tern::async([] { return read_mesh(); }, {.name = "reader"});
///     tern::future<double> area = std::move(m).then([](mesh x) { return x.area(); }); // in a fiber
///     if (area.wait_for(5ms) == tern::future_status::timeout) busy();
///     use(area.get()); // rethrows what any of them threw
///
/// All of them work from fibers, which suspend, and from foreign threads, which sleep. What is done
/// before a promise is set is visible to each context that sees that its future is ready.

#include <cstdint>
#include <exception>
#include <optional>
#include <source_location>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/language/durations.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/future/future_state.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/wait/deadline.hpp>

namespace tern {

template <class T> class future;
template <class T> class shared_future;
template <class T> class promise;

/// What waiting for a limited time has found.
enum class future_status { ready, timeout };

namespace detail {

struct future_access; // for what is built on states

/// What `future` and `shared_future` have in common.
template <class T> class any_future {
  static_assert(!std::is_rvalue_reference_v<T>, "a future holds values and lvalue references");

public:
  using value_type = T;
  bool valid() const noexcept { return static_cast<bool>(state_); }
  /// Is there a value or an exception? Never waits.
  /// \throws error(invalid_state) if not `valid()`; so do the functions below.
  bool ready() const { return state("future::ready").ready(); }
  /// Waits until it is ready. The fiber of an `async` that could run on this worker does so next.
  /// \throws error(deadlock) in the fiber that is to make it ready.
  void wait() const { state("future::wait").wait(); }
  /// The same, until `stop` is set.
  /// \throws also error(cancelled) if it is set first.
  void wait(const std::stop_token& stop) const { state("future::wait").wait(stop); }
  /// Waits for at most `d`, of `fiber_clock`.
  template <class Rep, class Period> future_status wait_for(std::chrono::duration<Rep, Period> d) const {
    return wait_until_nanoseconds(detail::deadline_in(d));
  }
  /// Waits until a moment; that of another clock than `fiber_clock` is turned into a time from now.
  template <class Clock, class Duration> future_status wait_until(std::chrono::time_point<Clock, Duration> t) const {
    return wait_until_nanoseconds(detail::deadline_at(t));
  }

protected:
  friend struct future_access;
  any_future() noexcept = default;
  any_future(const any_future&) noexcept = default;
  any_future(any_future&&) noexcept = default;
  any_future& operator=(const any_future&) noexcept = default;
  any_future& operator=(any_future&&) noexcept = default;
  explicit any_future(state_ref<future_state<T>> s) noexcept : state_(std::move(s)) {}
  future_state<T>& state(const char* what) const {
    if (!state_) throw_no_state(what);
    return *state_;
  }
  state_ref<future_state<T>> state_;

private:
  future_status wait_until_nanoseconds(std::int64_t deadline) const {
    return state("future::wait").wait(wait_limit{deadline, nullptr}) == wait_result::woken ? future_status::ready
                                                                                           : future_status::timeout;
  }
};

template <class Future, class F>
auto then(const char* what, scheduler& where, Future&& input, F&& f, const std::source_location& made);
constexpr const char* give_scheduler = "give it one: then(scheduler, f)";

} // namespace detail

/// The receiving end of one value. Move-only. One context at a time uses it.
template <class T> class [[nodiscard]] future : public detail::any_future<T> {
public:
  /// Not `valid`.
  future() noexcept = default;
  future(future&&) noexcept = default;
  future& operator=(future&&) noexcept = default;

  /// Waits, then gives the value away or throws what the other side threw; afterwards not
  /// `valid()`.
  /// \throws as `wait`, and then it stays `valid()`.
  T get() {
    this->state("future::get").wait();
    return std::exchange(this->state_, {})->take();
  }
  /// The same, until `stop` is set.
  /// \throws also error(cancelled) if it is set first; the future stays `valid()`. A value that is
  /// there comes out even so.
  T get(const std::stop_token& stop) {
    this->state("future::get").wait(stop);
    return std::exchange(this->state_, {})->take();
  }
  /// One that can be copied, and looked at many times; this one is not `valid()` any more.
  shared_future<T> share() noexcept { return shared_future<T>(std::move(*this)); }

  /// Has `f` called with the value, in a new fiber of the current scheduler, once it is there: so
  /// `f` may block, and never runs inside `then` or inside the call that sets the promise.
  /// \return what `f` returns or throws; of an `f` that returns a future<U>, a future<U> that is
  /// ready when that one is. This future is not `valid()` any more.
  ///
  /// `f` takes a T (nothing for void; a reference for a T&), and is not called if there is an
  /// exception, which goes on to the result. If it cannot be called so, it takes a future<T>, which
  /// is ready, and sees exceptions itself. What it captured is destroyed before the result is
  /// ready. What moving a U does must not suspend.
  /// \throws error(invalid_state) on a thread that is no worker, and then the future stays
  /// `valid()`.
  /// \pre the scheduler is there when the promise is set. If it ends before `f` has begun, the
  /// result is error(broken_promise).
  template <class F> auto then(F&& f, std::source_location made = std::source_location::current()) {
    scheduler& here = detail::scheduler_for("future::then", detail::give_scheduler, made);
    return detail::then("future::then", here, std::move(*this), std::forward<F>(f), made);
  }
  /// The same in a fiber of `where`. Any thread.
  template <class F> auto then(scheduler& where, F&& f, std::source_location made = std::source_location::current()) {
    return detail::then("future::then", where, std::move(*this), std::forward<F>(f), made);
  }

private:
  friend class shared_future<T>;
  friend struct detail::future_access;
  explicit future(detail::state_ref<detail::future_state<T>> s) noexcept : detail::any_future<T>(std::move(s)) {}
};

/// The receiving end of one value, for many: each copy is used by one context at a time.
template <class T> class [[nodiscard]] shared_future : public detail::any_future<T> {
public:
  /// Not `valid`.
  shared_future() noexcept = default;
  shared_future(future<T>&& other) noexcept // NOLINT(google-explicit-constructor): converts as std::shared_future
      : detail::any_future<T>(std::move(other.state_)) {}

  /// Waits, then shows the value, which lives as long as any copy of this future, or throws what
  /// the other side threw.
  /// \return const T&; T& for a T&.
  /// \throws as `wait`.
  typename detail::kept<T>::view get() const {
    this->state("shared_future::get").wait();
    return this->state_->look();
  }
  /// The same, until `stop` is set.
  /// \throws also error(cancelled) if it is set first.
  typename detail::kept<T>::view get(const std::stop_token& stop) const {
    this->state("shared_future::get").wait(stop);
    return this->state_->look();
  }

  /// As `future::then`; `f` takes a const T&, or a shared_future<T>. This one stays `valid()`.
  template <class F> auto then(F&& f, std::source_location made = std::source_location::current()) const {
    scheduler& here = detail::scheduler_for("shared_future::then", detail::give_scheduler, made);
    return detail::then("shared_future::then", here, shared_future(*this), std::forward<F>(f), made);
  }
  template <class F>
  auto then(scheduler& where, F&& f, std::source_location made = std::source_location::current()) const {
    return detail::then("shared_future::then", where, shared_future(*this), std::forward<F>(f), made);
  }

private:
  friend struct detail::future_access;
};

namespace detail {

struct future_access {
  /// \pre valid.
  template <class T> static future_state<T>& state(const any_future<T>& f) noexcept { return *f.state_; }
  /// Of a state that counts one reference for it.
  template <class T> static future<T> make(future_state<T>* counted) noexcept {
    return future<T>(state_ref<future_state<T>>(counted));
  }
};

template <class X> inline constexpr bool is_future = false;
template <class T> inline constexpr bool is_future<future<T>> = true;
template <class X> inline constexpr bool is_any_future = is_future<X>;
template <class T> inline constexpr bool is_any_future<shared_future<T>> = true;

} // namespace detail

/// The giving end of one value. Move-only; any thread may keep it. Destroyed unkept, it gives its
/// future error(broken_promise), which names the place where the promise was made and the fiber
/// that destroyed it.
template <class T> class promise {
public:
  explicit promise(std::source_location made = std::source_location::current())
      : state_(new detail::future_state<T>(1, made)) {}
  promise(promise&&) noexcept = default;
  promise& operator=(promise&& other) noexcept {
    if (this != &other) {
      abandon();
      state_ = std::move(other.state_);
      future_taken_ = other.future_taken_;
    }
    return *this;
  }
  ~promise() { abandon(); }

  /// \throws error(invalid_state) the second time.
  future<T> get_future() {
    if (!state_ || std::exchange(future_taken_, true)) detail::throw_no_state("promise::get_future");
    state_->add_reference();
    return detail::future_access::make(state_.get());
  }
  /// Takes nothing for void, an lvalue for a T&.
  /// \throws error(already_exists) if a value or exception was set before; what constructing the T
  /// throws, and then the promise can still be set.
  template <class... U>
  requires(std::is_void_v<T> ? sizeof...(U) == 0 : sizeof...(U) == 1) void set_value(U&&... value) {
    held("promise::set_value")->set(std::forward<U>(value)...);
  }
  /// \throws error(already_exists) as `set_value`.
  void set_exception(std::exception_ptr e) { held("promise::set_exception")->set_exception(std::move(e)); }

private:
  /// A reference of our own: once it is set, the waiter may destroy this promise.
  detail::state_ref<detail::future_state<T>> held(const char* what) const {
    if (!state_) detail::throw_no_state(what);
    return state_;
  }
  void abandon() noexcept {
    if (state_) state_->abandon();
  }
  detail::state_ref<detail::future_state<T>> state_;
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

/// A future that is ready: of a T, if that is given (make_ready_future<int&>(x)), else of a copy of
/// `value`.
template <class T = void, class U, class R = std::conditional_t<std::is_void_v<T>, std::decay_t<U>, T>>
future<R> make_ready_future(U&& value, std::source_location made = std::source_location::current()) {
  auto result = detail::future_access::make(new detail::future_state<R>(1, made));
  auto& state = detail::future_access::state(result);
  state.store(std::forward<U>(value));
  state.publish();
  return result;
}
inline future<void> make_ready_future(std::source_location made = std::source_location::current()) {
  auto result = detail::future_access::make(new detail::future_state<void>(1, made));
  detail::future_access::state(result).store();
  detail::future_access::state(result).publish();
  return result;
}
/// A future that throws.
template <class T>
future<T> make_exceptional_future(std::exception_ptr e, std::source_location made = std::source_location::current()) {
  auto result = detail::future_access::make(new detail::future_state<T>(1, made));
  detail::future_access::state(result).store_exception(std::move(e));
  detail::future_access::state(result).publish();
  return result;
}
template <class T, class E>
requires(!std::is_same_v<std::remove_cvref_t<E>, std::exception_ptr>) future<T> make_exceptional_future(
    E&& e, std::source_location made = std::source_location::current()) {
  return make_exceptional_future<T>(std::make_exception_ptr(std::forward<E>(e)), made);
}

namespace detail {

/// What a future holds of what a function returns.
template <class R>
using result_of_call =
    std::conditional_t<std::is_lvalue_reference_v<R>, R, std::remove_cv_t<std::remove_reference_t<R>>>;

/// How a continuation of type F is called with an Input's value, or with the Input.
template <class F, class Input> struct continuation_call;
template <class F, class T> struct continuation_call<F, future<T>> {
  static constexpr bool with_value = std::is_invocable_v<F&, T>;
  static decltype(auto) call(F& f, future_state<T>& s) { return f(s.take()); }
};
template <class F, class T> struct continuation_call<F, shared_future<T>> {
  static constexpr bool with_value = std::is_invocable_v<F&, typename kept<T>::view>;
  static decltype(auto) call(F& f, future_state<T>& s) { return f(s.look()); }
};
template <class F> struct continuation_call<F, future<void>> {
  static constexpr bool with_value = std::is_invocable_v<F&>;
  static decltype(auto) call(F& f, future_state<void>& s) {
    s.take();
    return f();
  }
};
template <class F> struct continuation_call<F, shared_future<void>> {
  static constexpr bool with_value = std::is_invocable_v<F&>;
  static decltype(auto) call(F& f, future_state<void>& s) {
    s.look();
    return f();
  }
};
template <class F, class Input> decltype(auto) call_continuation(F& f, Input&& input) {
  using how = continuation_call<F, Input>;
  if constexpr (how::with_value) {
    return how::call(f, future_access::state(input));
  } else {
    static_assert(std::is_invocable_v<F&, Input>,
                  "a continuation takes the value (nothing, of a future<void>) or the future");
    return f(std::forward<Input>(input));
  }
}

template <class T> struct unwrapped { using type = T; };
template <class T> struct unwrapped<future<T>> { using type = T; };

/// What `f` makes of `input`, and all that is needed for it. `Returned` is a future if that is to
/// be waited for, too.
template <class Returned, class Input, class F>
class continuation final : public future_state<typename unwrapped<Returned>::type>, ready_hook {
  using value = typename unwrapped<Returned>::type;

public:
  template <class G>
  continuation(scheduler& where, Input&& input, G&& f, const std::source_location& made)
      : future_state<value>(2, made), ready_hook(input_ready), where_(where), // 2: the future and the fiber to come
        f_(std::in_place, std::forward<G>(f)), input_(std::move(input)) {}
  void start() noexcept {
    if (!future_access::state(input_).subscribe(*this)) go();
  }
  void forgo() noexcept override {
    f_.reset();
    input_ = {};
    causal_.reset();
  }

private:
  static void input_ready(ready_hook& h, ready_queue&) noexcept { static_cast<continuation&>(h).go(); }
  void go() noexcept {
    const causal_scope in(causal_.get()); // not that of the context that made the input ready
    try {
      begin(*this, perform, where_, {});
    } catch (...) { // has been abandoned; no context here is concerned
    }
  }
  static void perform(future_state_base& s) noexcept {
    auto& self = static_cast<continuation&>(s);
    const held_context on(std::move(self.causal_)); // until all is done; it may have been spawned from elsewhere
    const causal_scope in(on.get());
    if constexpr (is_future<Returned>) {
      try {
        self.inner_ = call_continuation(*self.f_, std::move(self.input_));
        if (!self.inner_.valid()) throw_no_state("a future that a continuation returned");
      } catch (...) {
        self.inner_ = make_exceptional_future<value>(std::current_exception(), s.made());
      }
    } else {
      self.settle([&]() -> decltype(auto) { return call_continuation(*self.f_, std::move(self.input_)); });
    }
    self.forgo(); // what the function owned is released before the result is seen
    schedule_point();
    if constexpr (is_future<Returned>) {
      self.produced_by(0);
      self.fire = inner_ready;
      self.add_reference(); // the hook's
      if (future_access::state(self.inner_).subscribe(self)) return;
      ready_queue more;
      inner_ready(self, more);
      more.run();
    } else {
      self.publish();
    }
  }
  static void inner_ready(ready_hook& h, ready_queue& more) noexcept {
    auto& self = static_cast<continuation&>(h);
    self.settle([&]() -> value { return future_access::state(self.inner_).take(); });
    self.inner_ = {};
    self.publish(more);
    self.release();
  }

  struct nothing {};
  scheduler& where_;
  held_context causal_{this_causal_context()};
  std::optional<F> f_;
  Input input_;
  [[no_unique_address]] std::conditional_t<is_future<Returned>, Returned, nothing> inner_;
};

template <class Future, class F>
auto then(const char* what, scheduler& where, Future&& input, F&& f, const std::source_location& made) {
  using callable = std::decay_t<F>;
  using input_type = std::remove_cvref_t<Future>;
  using returned = result_of_call<decltype(call_continuation(std::declval<callable&>(), std::declval<input_type>()))>;
  if (!input.valid()) throw_no_state(what);
  auto* state =
      new continuation<returned, input_type, callable>(where, std::forward<Future>(input), std::forward<F>(f), made);
  auto result = future_access::make<typename unwrapped<returned>::type>(state);
  state->start();
  return result;
}

} // namespace detail

/// Runs `f()` in a new fiber of `where`.
/// \return its result or exception. What `f` captured is destroyed before that can be seen. If the
/// scheduler ends before `f` has returned, the result is error(broken_promise). Any thread.
/// \throws as scheduler::spawn.
template <class F, class R = detail::result_of_call<std::invoke_result_t<std::decay_t<F>&>>>
future<R> async(scheduler& where, F&& f, const fiber_options& options = {},
                std::source_location made = std::source_location::current()) {
  using state_type = detail::async_state<R, std::decay_t<F>>;
  auto* state = new state_type(std::forward<F>(f), made);
  auto result = detail::future_access::make<R>(state);
  detail::begin(*state, state_type::perform, where, options);
  return result;
}
/// The same in a fiber of the current scheduler.
/// \throws also error(invalid_state) on a thread that is no worker.
template <class F, class R = detail::result_of_call<std::invoke_result_t<std::decay_t<F>&>>>
future<R> async(F&& f, const fiber_options& options = {}, std::source_location made = std::source_location::current()) {
  return async(
      detail::scheduler_for("tern::async", "call it from inside tern::run or scheduler::run, or give it one", made),
      std::forward<F>(f), options, made);
}

} // namespace tern
