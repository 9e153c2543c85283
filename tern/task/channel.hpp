// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A bounded queue between fibers and threads.
///
///     tern::channel<job> jobs(64);
///     tern::fiber worker([&] { for (job& j : jobs) j.run(); }); // until it is closed and empty
///     jobs.push(job{…});
///     jobs.close();

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <tern/base/language/durations.hpp>
#include <tern/task/wait/deadline.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern {

namespace detail {
[[noreturn]] void throw_channel_closed();
[[noreturn]] void throw_no_capacity();
} // namespace detail

/// Any number of contexts push and pop; what comes first goes first, and the longest waiter is
/// served first: a value goes straight to a waiting receiver. Any thread, inside fibers (which
/// suspend) and out (which sleep). \tparam T movable. It is moved and destroyed under a short lock,
/// so these must not wait. If a move throws, the call to which the value belongs throws that
/// exception and has no effect. All other values stay where they are.
template <class T> class channel {
  static_assert(std::is_object_v<T> && std::is_move_constructible_v<T>, "a channel carries movable objects");
  template <class U> static constexpr bool makes_value = std::is_constructible_v<T, U>;

public:
  using value_type = T;

  /// \throws error(invalid_argument) for capacity 0; std::bad_alloc.
  explicit channel(std::size_t capacity)
      : capacity_(capacity ? capacity : (detail::throw_no_capacity(), 0)), slots_(new slot[capacity]) {}
  /// Destroys what is left in it.
  ~channel() {
    if (!senders_.empty() || !receivers_.empty()) detail::report_destroyed("channel", "a context waits at it");
    while (size_ > 0) drop_first();
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  /// Adds a value; while the channel is full, a fiber suspends and a foreign thread sleeps.
  /// \throws error(invalid_state) if it is closed, or is closed while the caller waits; so do the
  /// functions below. An argument of type `T&&` is moved from only if it has been added.
  template <class U = T>
  requires makes_value<U>
  void push(U&& value) {
    with(std::forward<U>(value), [this](T& v) { return send(v, nullptr); });
  }
  /// The same until `stop` is set.
  /// \return whether it has been added; so do those below.
  template <class U = T>
  requires makes_value<U>
  bool push(U&& value, const std::stop_token& stop) {
    const detail::wait_limit limit{detail::wait_limit::never, &stop};
    return with(std::forward<U>(value), [&](T& v) { return send(v, &limit); });
  }
  template <class Rep, class Period, class U = T>
  requires makes_value<U>
  bool push_for(U&& value, const std::chrono::duration<Rep, Period>& d, const std::stop_token& stop = {}) {
    return push_till(std::forward<U>(value), detail::deadline_in(d), stop);
  }
  template <class Clock, class Duration, class U = T>
  requires makes_value<U>
  bool push_until(U&& value, const std::chrono::time_point<Clock, Duration>& t, const std::stop_token& stop = {}) {
    return push_till(std::forward<U>(value), detail::deadline_at(t), stop);
  }
  /// Never waits.
  template <class U = T>
  requires makes_value<U>
  bool try_push(U&& value) {
    return with(std::forward<U>(value), [this](T& v) { return send(v, &at_once); });
  }

  /// Takes the first value; while there is none, a fiber suspends and a foreign thread sleeps.
  /// \return nothing if the channel is closed and empty.
  std::optional<T> pop() { return receive(nullptr); }
  /// The same until `stop` is set: then nothing, too; so do those below when their time is over.
  std::optional<T> pop(const std::stop_token& stop) {
    const detail::wait_limit limit{detail::wait_limit::never, &stop};
    return receive(&limit);
  }
  template <class Rep, class Period>
  std::optional<T> pop_for(const std::chrono::duration<Rep, Period>& d, const std::stop_token& stop = {}) {
    const detail::wait_limit limit{detail::deadline_in(d), &stop};
    return receive(&limit);
  }
  template <class Clock, class Duration>
  std::optional<T> pop_until(const std::chrono::time_point<Clock, Duration>& t, const std::stop_token& stop = {}) {
    const detail::wait_limit limit{detail::deadline_at(t), &stop};
    return receive(&limit);
  }
  /// Never waits.
  /// \return nothing if there is none at present.
  std::optional<T> try_pop() { return receive(&at_once); }

  /// Nothing can be added any more; what is in it can still be taken. Contexts that wait to add get
  /// their error, and those that wait for a value nothing. Does nothing the second time.
  void close() noexcept {
    detail::schedule_point();
    std::unique_lock hold(guard_);
    closed_ = true;
    detail::waiter* senders = senders_.take();
    detail::waiter* receivers = receivers_.take();
    hold.unlock();
    detail::waiter_list::wake_all(senders);
    detail::waiter_list::wake_all(receivers);
  }
  bool closed() const noexcept {
    std::lock_guard hold(guard_);
    return closed_;
  }
  /// How many values are in it; of a moment that has passed when it returns.
  std::size_t size() const noexcept {
    std::lock_guard hold(guard_);
    return size_;
  }
  std::size_t capacity() const noexcept { return capacity_; }

  /// Takes one value after the other, until the channel is closed and empty. Several may do so at
  /// once, each with its own iterator; a value lives until its iterator goes on.
  class iterator {
  public:
    using iterator_concept = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = T;
    T& operator*() const noexcept { return *value_; }
    T* operator->() const noexcept { return &*value_; }
    iterator& operator++() {
      value_.reset();
      if (auto next = from_->pop()) value_.emplace(std::move(*next));
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return !i.value_; }

  private:
    friend class channel;
    explicit iterator(channel& from) : from_(&from), value_(from.pop()) {}
    channel* from_;
    mutable std::optional<T> value_;
  };
  iterator begin() { return iterator(*this); }
  std::default_sentinel_t end() const noexcept { return {}; }

private:
  union slot { // memory for a value
    slot() noexcept {}
    ~slot() {}
    T value;
  };
  /// What a waiter's `data` points to.
  struct sender {
    T& value;
    bool sent = false; ///< if neither, the channel was closed
    std::exception_ptr failed = {};
  };
  struct receiver {
    std::optional<T>& value;
    bool again = false; ///< the value that was meant for it could not be moved
  };
  static constexpr detail::wait_limit at_once{std::numeric_limits<std::int64_t>::min()};

  template <class U, class F> static bool with(U&& value, F&& send) {
    if constexpr (std::is_same_v<U, T>) {
      return send(value);
    } else {
      T made(std::forward<U>(value));
      return send(made);
    }
  }
  template <class U> bool push_till(U&& value, std::int64_t deadline, const std::stop_token& stop) {
    const detail::wait_limit limit{deadline, &stop};
    return with(std::forward<U>(value), [&](T& v) { return send(v, &limit); });
  }

  std::size_t after(std::size_t i) const noexcept { return i + 1 == capacity_ ? 0 : i + 1; }
  void append(T& value) {
    ::new (static_cast<void*>(&slots_[end_].value)) T(std::move(value));
    end_ = after(end_);
    ++size_;
  }
  void drop_first() noexcept {
    slots_[first_].value.~T();
    first_ = after(first_);
    --size_;
  }

  bool send(T& value, const detail::wait_limit* limit) {
    detail::schedule_point();
    std::unique_lock hold(guard_);
    if (closed_) {
      hold.unlock();
      detail::throw_channel_closed();
    }
    if (detail::waiter* w = receivers_.pop()) {
      hold.unlock(); // the receiver is the caller's now
      give(value, *w);
      return true;
    }
    if (size_ < capacity_) {
      append(value);
      return true;
    }
    if (limit == &at_once) return false;
    sender self{value};
    if (!wait(hold, senders_, &self, false, limit)) return false;
    if (self.failed) std::rethrow_exception(self.failed);
    if (!self.sent) detail::throw_channel_closed();
    return true;
  }

  static void give(T& value, detail::waiter& w) {
    receiver& to = *reinterpret_cast<receiver*>(w.data);
    try {
      to.value.emplace(std::move(value));
    } catch (...) {
      to.again = true;
      w.wake();
      throw;
    }
    w.wake();
  }

  std::optional<T> receive(const detail::wait_limit* limit) {
    detail::schedule_point();
    std::optional<T> value;
    for (receiver self{value};;) {
      std::unique_lock hold(guard_);
      if (size_ > 0) {
        value.emplace(std::move(slots_[first_].value));
        drop_first();
        detail::waiter* chain = let_in();
        hold.unlock();
        detail::waiter_list::wake_all(chain);
        return value;
      }
      if (closed_ || limit == &at_once) return value;
      const bool returns = std::exchange(self.again, false);
      if (!wait(hold, receivers_, &self, returns, limit) || !self.again) return value;
    }
  }

  /// Under the guard: moves the values of waiting senders in as long as there is room.
  /// \return those to be woken.
  detail::waiter* let_in() noexcept {
    detail::waiter* chain = nullptr;
    while (size_ < capacity_) {
      detail::waiter* w = senders_.pop();
      if (!w) break;
      sender& from = *reinterpret_cast<sender*>(w->data);
      try {
        append(from.value);
        from.sent = true;
      } catch (...) {
        from.failed = std::current_exception(); // is thrown where the value came from
      }
      w->next = chain;
      chain = w;
    }
    return chain;
  }

  /// \return whether it was woken. `hold` is released either way.
  bool wait(std::unique_lock<detail::spin_lock>& hold, detail::waiter_list& list, void* data, bool first,
            const detail::wait_limit* limit) noexcept {
    detail::waiter self({detail::wait_kind::channel, this});
    self.data = reinterpret_cast<std::uintptr_t>(data); // address: kept, to put the value there
    first ? list.push_front(self) : list.push(self);
    detail::spin_lock& guard = *hold.release();
    if (limit) return self.wait(guard, list, *limit) == detail::wait_result::woken;
    self.wait(guard);
    return true;
  }

  mutable detail::spin_lock guard_;
  bool closed_ = false;
  std::size_t size_ = 0, first_ = 0, end_ = 0;
  const std::size_t capacity_;
  const std::unique_ptr<slot[]> slots_;
  detail::waiter_list senders_;   // only while it is full
  detail::waiter_list receivers_; // only while it is empty
};

} // namespace tern
