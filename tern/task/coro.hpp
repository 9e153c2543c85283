// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Coroutines that await futures: a waiting one holds no stack, only its frame.
///
///     tern::coro<int> half(tern::future<int> f) { co_return co_await std::move(f) / 2; }
///     tern::coro<int> sum(tern::future<int> a, tern::future<int> b) {
///       co_return co_await half(std::move(a)) + co_await half(std::move(b));
///     }
///     tern::future<int> s = tern::spawn(sum(ask(1), ask(2))); // on the current scheduler
///     int now = tern::sync_wait(sum(ask(3), ask(4)));         // runs it here
///
/// Inside a `coro`, `co_await` takes
///  - a `coro<U>` (an rvalue): starts it and goes on with its result. However deep they are nested, the stack does not
///    grow, in no build;
///  - a `future<U>` (an rvalue) or a `shared_future<U>`: goes on when it is ready, at once if it is;
///  - `resume_on(scheduler)`: goes on in a fiber of that scheduler;
/// and nothing else. What they throw comes out of `co_await`.
///
/// Started by `spawn`, a coroutine always runs in a fiber of that scheduler, after an await perhaps
/// in another one than before: its body may call functions that block (but must not expect to find
/// `fiber_local`s again). Inside `sync_wait` it runs on the caller's context, fiber or foreign
/// thread, which waits whenever the coroutine does.
///
/// Nothing runs before it is awaited, spawned or waited for. A `coro` that is destroyed instead
/// destroys its frame.

#include <coroutine>
#include <exception>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

#include <tern/task/future.hpp>

namespace tern {

template <class T = void> class coro;

/// To be awaited: the coroutine goes on in a fiber of `where`, and after later awaits too. A caller
/// of `sync_wait`, which was running it, then only waits.
/// \pre as `future::then`.
struct resume_on {
  explicit resume_on(scheduler& s) noexcept : where(s) {}
  scheduler& where;
};

namespace detail {

/// What all coroutines that await each other share: where they run, and what is done when the
/// outermost one has ended.
class coro_root {
public:
  /// `conclude(root, ended)` ends it, once: with the coroutine's result, or because it cannot go
  /// on. `where`: null if it runs on a context that waits for it.
  coro_root(future_state_base& result, void (*conclude)(coro_root&, bool ended) noexcept, scheduler* where) noexcept
      : result_(result), conclude_(conclude), where_(where) {}
  coro_root(const coro_root&) = delete;
  coro_root& operator=(const coro_root&) = delete;

  /// Runs `h`, and what it passes control to, on this context, until it waits elsewhere or has
  /// ended. Afterwards the root may be gone.
  void drive(std::coroutine_handle<> h) noexcept;
  /// The running coroutine suspends and `h` goes on; null: the outermost one has ended.
  void pass(std::coroutine_handle<> h) noexcept {
    leg_->next = h;
    leg_->ended = !h;
  }
  /// Runs on a context that waits when it waits.
  bool blocks() const noexcept { return !where_; }
  /// Before it suspends to be resumed by `resume_later`.
  void leave_fiber() noexcept {
    result_.produced_by(0);
    causal_ = held_context(this_causal_context());
  }
  /// `h` goes on in a new fiber. If there can be none, as on a scheduler that ends, all is
  /// destroyed.
  void resume_later(std::coroutine_handle<> h) noexcept;
  void move_to(scheduler& where) noexcept { where_ = &where; }

private:
  class continued;
  /// Part of the way, on one context. Control passes through here, and not from one coroutine
  /// directly to the next: that would need tail calls, which not every build has.
  struct leg {
    std::coroutine_handle<> next;
    bool ended = false;
  };
  void set_leg(leg& l) noexcept;
  future_state_base& result_;
  void (*conclude_)(coro_root&, bool ended) noexcept;
  scheduler* where_;
  held_context causal_; // of the fiber that it has left
  leg* leg_ = nullptr;
};

/// Awaits a future. `Future` is a future<T>, or a shared_future<T>, of which it has a copy.
template <class Future> class future_awaiter final : ready_hook {
public:
  future_awaiter(Future&& f, coro_root& root) noexcept : ready_hook(fired), future_(std::move(f)), root_(root) {}
  bool await_ready() {
    if (!future_.valid()) throw_no_state("a future that was awaited");
    auto& state = future_access::state(future_);
    if (root_.blocks()) {
      state.wait();
      return true;
    }
    schedule_point();
    if (state.ready()) return true;
    state.hurry();
    return false;
  }
  /// Out of line: as soon as the hook is subscribed the coroutine may go on, on another thread, and
  /// compilers that inline this have been seen to use its frame after that.
  [[gnu::noinline]] void await_suspend(std::coroutine_handle<> h) noexcept {
    waiting_ = h;
    root_.leave_fiber();
    if (!future_access::state(future_).subscribe(*this)) root_.pass(h);
  }
  decltype(auto) await_resume() {
    if constexpr (is_future<Future>)
      return future_access::state(future_).take();
    else
      return future_access::state(future_).look();
  }

private:
  static void fired(ready_hook& h, ready_queue&) noexcept {
    auto& self = static_cast<future_awaiter&>(h);
    self.root_.resume_later(self.waiting_);
  }
  Future future_;
  coro_root& root_;
  std::coroutine_handle<> waiting_;
};

struct resume_on_awaiter {
  scheduler& where;
  coro_root& root;
  bool await_ready() const noexcept { return scheduler::current() == &where && scheduler::in_fiber(); }
  [[gnu::noinline]] void await_suspend(std::coroutine_handle<> h) noexcept {
    root.leave_fiber();
    root.move_to(where);
    root.resume_later(h);
  }
  void await_resume() const noexcept {}
};

template <class U> class coro_awaiter;

class coro_promise_base {
public:
  std::suspend_always initial_suspend() const noexcept { return {}; }
  auto final_suspend() const noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<>) const noexcept { self.root_->pass(self.awaits_this_); }
      void await_resume() const noexcept {}
      const coro_promise_base& self;
    };
    return awaiter{*this};
  }
  void unhandled_exception() noexcept { failed_ = std::current_exception(); }

  template <class U> auto await_transform(future<U>&& f) noexcept {
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the analyzer does not follow coroutines' frames
    return future_awaiter<future<U>>(std::move(f), *root_);
  }
  template <class U> auto await_transform(shared_future<U> f) noexcept {
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the same
    return future_awaiter<shared_future<U>>(std::move(f), *root_);
  }
  template <class U> auto await_transform(coro<U>&& c) { return coro_awaiter<U>(std::move(c), *root_); }
  resume_on_awaiter await_transform(resume_on r) noexcept { return {r.where, *root_}; }

  /// Before it is resumed for the first time. `awaits_this`: null if it is the outermost one.
  void enter(coro_root& root, std::coroutine_handle<> awaits_this) noexcept {
    root_ = &root;
    awaits_this_ = awaits_this;
  }

protected:
  void rethrow() {
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  }

private:
  coro_root* root_ = nullptr;
  std::coroutine_handle<> awaits_this_;
  std::exception_ptr failed_;
};

template <class T> class coro_promise final : public coro_promise_base {
public:
  coro<T> get_return_object() noexcept;
  template <class U>
  requires std::is_constructible_v<T, U>
  void return_value(U&& value) { value_.emplace(std::forward<U>(value)); }
  T take() {
    rethrow();
    return std::move(*value_);
  }

private:
  std::optional<T> value_;
};
template <class T> class coro_promise<T&> final : public coro_promise_base {
public:
  coro<T&> get_return_object() noexcept;
  void return_value(T& value) noexcept { value_ = std::addressof(value); }
  T& take() {
    rethrow();
    return *value_;
  }

private:
  T* value_ = nullptr;
};
template <> class coro_promise<void> final : public coro_promise_base {
public:
  coro<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() { rethrow(); }
};

struct coro_access;

} // namespace detail

/// A coroutine that has not begun, and its result to be. Move-only. The body's parameters live in
/// its frame; those taken by reference must outlive it, and so must the object of a lambda that
/// captures.
template <class T> class [[nodiscard]] coro {
public:
  using promise_type = detail::coro_promise<T>;
  using value_type = T;
  /// Not `valid`.
  coro() noexcept = default;
  coro(coro&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  coro& operator=(coro&& other) noexcept {
    coro gone(std::move(*this));
    handle_ = std::exchange(other.handle_, nullptr);
    return *this;
  }
  ~coro() {
    if (handle_) handle_.destroy();
  }
  bool valid() const noexcept { return static_cast<bool>(handle_); }
  /// As `sync_wait`.
  T get() &&;

private:
  friend struct detail::coro_access;
  friend promise_type;
  explicit coro(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

struct coro_access {
  template <class T> static auto handle(const coro<T>& c) noexcept { return c.handle_; }
};

template <class T> coro<T> coro_promise<T>::get_return_object() noexcept {
  return coro<T>(std::coroutine_handle<coro_promise>::from_promise(*this));
}
template <class T> coro<T&> coro_promise<T&>::get_return_object() noexcept {
  return coro<T&>(std::coroutine_handle<coro_promise>::from_promise(*this));
}
inline coro<void> coro_promise<void>::get_return_object() noexcept {
  return coro<void>(std::coroutine_handle<coro_promise>::from_promise(*this));
}

/// Awaits another coroutine, and owns it meanwhile.
template <class U> class coro_awaiter {
public:
  coro_awaiter(coro<U>&& c, coro_root& root) : inner_(std::move(c)), root_(root) {
    if (!inner_.valid()) throw_no_state("a coro that was awaited");
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept {
    const auto inner = coro_access::handle(inner_);
    inner.promise().enter(root_, h);
    root_.pass(inner);
  }
  U await_resume() { return coro_access::handle(inner_).promise().take(); }

private:
  coro<U> inner_;
  coro_root& root_;
};

/// An outermost coroutine and the state of its future.
template <class T> class coro_state final : public future_state<T>, public coro_root {
public:
  coro_state(coro<T>&& body, scheduler* where, const std::source_location& made) noexcept
      : future_state<T>(2, made), coro_root(*this, conclude, where), body_(std::move(body)) {
    coro_access::handle(body_).promise().enter(*this, nullptr);
  }
  /// In a fiber, which has a reference.
  static void perform(future_state_base& s) noexcept {
    s.add_reference(); // the coroutine's
    static_cast<coro_state&>(s).run();
  }
  /// The coroutine has a reference.
  void run() noexcept {
    began_ = true;
    this->drive(coro_access::handle(body_));
  }
  /// A fiber that waits for ever inside the body keeps its frame: that cannot be destroyed.
  void forgo() noexcept override {
    if (!began_) body_ = {};
  }

private:
  static void conclude(coro_root& r, bool ended) noexcept {
    auto& self = static_cast<coro_state&>(r);
    if (ended) self.settle([&]() -> T { return coro_access::handle(self.body_).promise().take(); });
    self.body_ = {}; // what the coroutine owned is released before the result is seen
    if (ended) {
      schedule_point();
      self.publish();
    } else {
      self.abandon();
    }
    self.release();
  }
  coro<T> body_;
  bool began_ = false;
};

} // namespace detail

/// Runs a coroutine in a new fiber of `where`.
/// \return its result. If the scheduler ends while the coroutine waits for a fiber, or before it
/// has begun, it is destroyed, and the result is error(broken_promise). Any thread.
/// \throws error(invalid_state) if it is not `valid`; else as scheduler::spawn.
/// \pre the scheduler is there when what it awaits is ready.
template <class T>
future<T> spawn(scheduler& where, coro<T> body, const fiber_options& options = {},
                std::source_location made = std::source_location::current()) {
  if (!body.valid()) detail::throw_no_state("tern::spawn");
  auto* state = new detail::coro_state<T>(std::move(body), &where, made);
  auto result = detail::future_access::make<T>(state);
  detail::begin(*state, state->perform, where, options);
  return result;
}
/// The same in a fiber of the current scheduler.
/// \throws also error(invalid_state) on a thread that is no worker.
template <class T>
future<T> spawn(coro<T> body, const fiber_options& options = {},
                std::source_location made = std::source_location::current()) {
  return spawn(detail::scheduler_for("tern::spawn", "give it a scheduler: spawn(scheduler, coroutine)", made),
               std::move(body), options, made);
}

/// Runs a coroutine on this context, and waits whenever it does: a fiber suspends, a foreign thread
/// sleeps.
/// \return what it returns.
/// \throws what it throws; error(invalid_state) if it is not `valid`.
template <class T> T sync_wait(coro<T> body, std::source_location made = std::source_location::current()) {
  if (!body.valid()) detail::throw_no_state("tern::sync_wait");
  auto* state = new detail::coro_state<T>(std::move(body), nullptr, made);
  const detail::state_ref<detail::future_state<T>> result(state);
  state->run();
  result->wait(); // it may have gone elsewhere by `resume_on`
  return result->take();
}

template <class T> T coro<T>::get() && { return sync_wait(std::move(*this)); }

} // namespace tern
