// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a promise and its futures share, and what continuations and coroutines are hung on:
/// one allocation that counts its references itself. Looking whether it is ready, and setting it
/// while none waits, take no lock.
///
/// Value and exception are written before the state is ready and read after it, so they need no
/// lock of their own.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <tern/task/fiber/fiber_closure.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

class ready_queue;

/// Is told that a state has become ready, on the context that made it so. Belongs to its
/// subscriber, which keeps a reference to the state until the hook has fired or is unsubscribed.
struct ready_hook {
  /// Short; must neither suspend nor throw. What it makes ready itself, it publishes with `more`,
  /// so that long chains do not nest. The hook may be gone afterwards.
  using function = void (*)(ready_hook& self, ready_queue& more) noexcept;
  explicit ready_hook(function f) noexcept : fire(f) {}
  ready_hook(const ready_hook&) = delete;
  ready_hook& operator=(const ready_hook&) = delete;

  function fire;
  ready_hook* next = nullptr;
  ready_hook** link = nullptr; ///< what points at this one; null if it was never subscribed
};

/// Hooks that have to be fired.
class ready_queue {
public:
  /// Takes a chain, last one first.
  void push_reversed(ready_hook* chain) noexcept;
  /// Fires all, and those that come meanwhile.
  void run() noexcept;

private:
  ready_hook* head_ = nullptr;
  ready_hook** end_ = &head_;
};

class future_state_base {
public:
  /// `made`: where, for messages.
  future_state_base(std::uint32_t references, const std::source_location& made) noexcept
      : references_(references), made_(made) {}
  future_state_base(const future_state_base&) = delete;
  future_state_base& operator=(const future_state_base&) = delete;
  virtual ~future_state_base() {
    if (exception_) [[unlikely]]
      dropped();
  }

  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // acquire: what others did with it is over before it is destroyed. The last one need not write
    // the count.
    if (references_.load(std::memory_order_acquire) == 1 || references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

  bool ready() const noexcept { return stage_.load(std::memory_order_acquire) & is_ready; }
  bool claimed() const noexcept { return stage_.load(std::memory_order_acquire) & is_claimed; }
  const std::source_location& made() const noexcept { return made_; }

  /// \throws error(deadlock) in the fiber that is to make it ready.
  void wait() {
    schedule_point();
    if (!ready()) wait_in_list(nullptr);
  }
  /// Says `woken` whenever it is ready.
  wait_result wait(const wait_limit& limit) {
    schedule_point();
    return ready() ? wait_result::woken : wait_in_list(&limit);
  }
  /// \throws error(cancelled) if `stop` is set before it is ready.
  void wait(const std::stop_token& stop);
  /// Before the caller suspends: if the fiber that is to make it ready stands on this worker's
  /// queue, it goes next.
  /// \throws error(deadlock) as `wait`.
  void hurry() const;
  /// From now on `before_wait` is asked before a context waits without a limit.
  void ask_before_waits() noexcept { stage_.fetch_or(is_guarded, std::memory_order_relaxed); }

  /// \return false if it is ready already: then `h` will not fire.
  bool subscribe(ready_hook& h) noexcept;
  /// \return false if `h` is not subscribed, has fired, or is about to.
  bool unsubscribe(ready_hook& h) noexcept;

  /// The right to set it.
  /// \throws error(already_exists) if that has been taken.
  void claim() {
    if (stage_.fetch_or(is_claimed, std::memory_order_relaxed) & is_claimed) throw_claimed();
  }
  void unclaim() noexcept { stage_.fetch_and(~is_claimed, std::memory_order_relaxed); }
  /// \pre this caller alone may set it, and does not publish it before the exception is there.
  void store_exception(std::exception_ptr e) noexcept { exception_ = std::move(e); }
  /// It is ready: wakes all waiters, calls hooks. The caller has a reference.
  void publish() noexcept {
    if (!mark_ready()) return;
    ready_queue more;
    announce(more);
    more.run();
  }
  /// The same inside a hook.
  void publish(ready_queue& more) noexcept {
    if (mark_ready()) announce(more);
  }
  /// Its producer cannot set it any more: gives it error(broken_promise), unless it is set.
  void abandon() noexcept;

  /// The function that was to make it ready will not return: destroys what that owns, if it has
  /// any.
  virtual void forgo() noexcept {}

  /// Which fiber is going to make it ready; 0 if none is known. It must be set to 0 before that
  /// fiber ends without having published.
  void produced_by(std::uintptr_t context) noexcept {
    producers_home_.store(this_scheduler(), std::memory_order_relaxed);
    producer_.store(context, std::memory_order_release);
  }

protected:
  void rethrow_once() {
    if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
  }
  void rethrow() const {
    if (!exception_) return;
    stage_.fetch_or(is_seen, std::memory_order_relaxed);
    std::rethrow_exception(exception_);
  }

private:
  static constexpr std::uint32_t is_claimed = 1, is_ready = 2, is_watched = 4, is_guarded = 8, is_seen = 16;

  /// Throws if the caller must not wait; see `ask_before_waits`.
  virtual void before_wait() const {}
  /// It goes with an exception that may not have been retrieved.
  void dropped() noexcept;

  /// \return waiters or hooks must be told.
  bool mark_ready() noexcept {
    producer_.store(0, std::memory_order_relaxed);
    // release: value and exception; acquire: what has been put into the lists before it was marked
    // as watched.
    return stage_.fetch_or(is_claimed | is_ready, std::memory_order_acq_rel) & is_watched;
  }
  void announce(ready_queue& more) noexcept;
  wait_result wait_in_list(const wait_limit* limit);
  [[noreturn]] void throw_claimed() const;

  std::atomic<std::uint32_t> references_;
  mutable std::atomic<std::uint32_t> stage_{0};
  spin_lock guard_; // of the lists. They change only before it is ready, but for taking all out.
  waiter_list waiters_;
  ready_hook* hooks_ = nullptr; // last one first
  std::atomic<std::uintptr_t> producer_{0};
  std::atomic<const scheduler_core*> producers_home_{nullptr}; // only compared: it may be gone
  std::exception_ptr exception_;
  std::source_location made_;
};

/// How a T is kept, and what many readers get of it.
template <class T> struct kept {
  using type = T;
  using view = const T&;
};
template <class T> struct kept<T&> {
  using type = T*;
  using view = T&;
};
template <> struct kept<void> {
  using type = std::nullptr_t;
  using view = void;
};

template <class T> class future_state : public future_state_base {
public:
  using future_state_base::future_state_base;

  /// \pre as `store_exception`.
  /// \throws what constructing a T throws.
  template <class... U> void store(U&&... value) {
    if constexpr (std::is_reference_v<T>)
      value_.emplace(std::addressof(value)...);
    else if constexpr (std::is_void_v<T>)
      value_.emplace();
    else
      value_.emplace(std::forward<U>(value)...);
  }
  /// Makes it ready with a value.
  /// \pre the caller has a reference.
  /// \throws as `claim` and `store`; after the latter it can still be set.
  template <class... U> void set(U&&... value) {
    schedule_point();
    this->claim();
    if constexpr (std::is_nothrow_constructible_v<typename kept<T>::type, U...> || std::is_reference_v<T>) {
      store(std::forward<U>(value)...);
    } else {
      try {
        store(std::forward<U>(value)...);
      } catch (...) {
        this->unclaim();
        throw;
      }
    }
    this->publish();
  }
  /// The same with an exception.
  /// \throws as `claim`.
  void set_exception(std::exception_ptr e) {
    schedule_point();
    this->claim();
    this->store_exception(std::move(e));
    this->publish();
  }
  /// Stores what `f()` returns or throws.
  template <class F> void settle(F&& f) noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        f();
        store();
      } else {
        store(f());
      }
    } catch (...) {
      store_exception(std::current_exception());
    }
  }
  /// Gives the value away, or throws the exception.
  /// \pre ready, and not taken before.
  T take() {
    rethrow_once();
    if constexpr (std::is_reference_v<T>)
      return **value_;
    else if constexpr (!std::is_void_v<T>)
      return std::move(*value_);
  }
  /// The same for many readers.
  typename kept<T>::view look() const {
    rethrow();
    if constexpr (std::is_reference_v<T>)
      return **value_;
    else if constexpr (!std::is_void_v<T>)
      return *value_;
  }
  /// What `store` has put there.
  typename kept<T>::type& kept_value() noexcept { return *value_; }

private:
  std::optional<typename kept<T>::type> value_;
};

/// A counted reference to a state, or none.
template <class S> class state_ref {
public:
  state_ref() noexcept = default;
  /// Takes over one that has been counted.
  explicit state_ref(S* counted) noexcept : state_(counted) {}
  state_ref(const state_ref& other) noexcept : state_(other.state_) {
    if (state_) state_->add_reference();
  }
  state_ref(state_ref&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  state_ref& operator=(state_ref other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~state_ref() {
    if (state_) state_->release();
  }
  explicit operator bool() const noexcept { return state_ != nullptr; }
  S* get() const noexcept { return state_; }
  S* operator->() const noexcept { return state_; }
  S& operator*() const noexcept { return *state_; }

private:
  S* state_ = nullptr;
};

/// Makes a fiber of `where` that calls `perform(state)`, which has to publish it or see to that.
/// Takes over one reference, also if it throws: then, and if the fiber never comes to its end, the
/// state is abandoned.
/// \throws as scheduler::spawn.
void begin(future_state_base& state, void (*perform)(future_state_base&) noexcept, scheduler& where,
           const fiber_options& options);

/// The current scheduler.
/// \throws error(invalid_state) on a thread that is no worker: `what` was called there, and `hint`
/// says what to do instead.
scheduler& scheduler_for(const char* what, const char* hint, const std::source_location& made);
[[noreturn]] void throw_no_state(const char* what);

/// A function's result and the function, which a fiber calls.
template <class R, class F> class async_state final : public future_state<R> {
public:
  template <class G>
  async_state(G&& f, const std::source_location& made)
      : future_state<R>(2, made), f_(std::in_place, std::forward<G>(f)) {} // the future and the fiber
  static void perform(future_state_base& s) noexcept {
    auto& self = static_cast<async_state&>(s);
    self.settle(*self.f_);
    self.f_.reset(); // what the function owned is released before the result is seen
    schedule_point();
    self.publish();
  }
  void forgo() noexcept override { f_.reset(); }

private:
  std::optional<F> f_;
};

} // namespace tern::detail
