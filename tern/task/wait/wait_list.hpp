// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What every blocking primitive of this layer is made of: a short lock around its state and
/// a list of waiters.
///
///     guard_.lock();
///     if (free_) { take it; guard_.unlock(); return; }
///     waiter self({wait_kind::semaphore, this});
///     waiters_.push(self);
///     self.wait(guard_);                       // or: self.wait(guard_, waiters_, limit)
///
/// and on the other side, under the guard, `waiter* w = waiters_.pop()`, then, outside it,
/// `w->wake()`. Whatever `pop` returns is woken by its caller alone: a timeout or a cancellation
/// can no longer win.

#include <tern/base/language/compiler.hpp>

#include <atomic>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>

#include <tern/base/language/durations.hpp>
#include <tern/task/fiber/ticks.hpp>
#include <tern/task/fiber/wait_reason.hpp>

namespace tern::detail {

/// Tells the processor that this is a waiting loop.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Mutual exclusion for a few instructions, never held across a suspension by its holder's own
/// code; a suspending fiber hands it to the scheduler, which releases it once the fiber has left
/// its stack (a std::mutex may not be unlocked by another context than the one that locked it).
/// Spins briefly, then yields the CPU: the holder may have been preempted.
class spin_lock {
public:
  void lock() noexcept {
    // acquire: what the previous holder wrote is visible; pairs with the release in unlock.
    for (int tries = 0; flag_.exchange(true, std::memory_order_acquire); ++tries) back_off(tries);
  }
  bool try_lock() noexcept { return !flag_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { flag_.store(false, std::memory_order_release); }

  /// What to do after `tries` vain looks at something that will not take long.
  static void back_off(int tries) noexcept;

private:
  std::atomic<bool> flag_{false};
};

struct fiber;
class waiter;

/// The running context: the fiber, or on a foreign thread something that is different for each
/// thread (and odd, which no fiber's address is). Never 0. Two contexts that are alive at the same
/// time have different ones.
std::uintptr_t this_context() noexcept;
/// "fiber 12 'solver'", "thread 4711" (the kernel's number, if it is the calling thread), "a
/// thread". Only for a context that cannot end meanwhile.
std::string describe_context(std::uintptr_t context);

/// When to stop waiting. Times are nanoseconds on `fiber_clock`.
struct wait_limit {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t deadline = never;
  const std::stop_token* stop = nullptr; ///< not owned
};
enum class wait_result : std::uint8_t { woken, timed_out, cancelled };

/// `d` from now, without overflow; `d` <= 0 is a moment that has passed.
std::int64_t deadline_after(std::chrono::nanoseconds d) noexcept;
/// Gives way now and then under the simulated executor, so that it can try what another order would
/// do; nothing otherwise. At the beginning of operations that others may want to come between.
/// \pre no spin_lock is held.
void schedule_point() noexcept;

/// The calling fiber is about to wait until `over(what)`: if it is on the worker that looks after
/// the events, and those are at hand that end the wait, it need not. No spin_lock is held.
void poll_briefly(bool (*over)(const void* what) noexcept, const void* what) noexcept;

/// One waiting context: a fiber, which suspends, or a foreign thread, which sleeps. Lives on the
/// waiter's stack.
class waiter {
public:
  explicit waiter(const wait_reason& why) noexcept;
  ~waiter();
  waiter(const waiter&) = delete;
  waiter& operator=(const waiter&) = delete;

  /// Waits until `wake`. `guard` is held by the caller and protects the list that this waiter was
  /// put into; it is released only after the context has been left, so that a waker cannot resume a
  /// stack that is still in use.
  void wait(spin_lock& guard) noexcept;
  /// The same with a lock of another kind, which `unlock(guard)` releases.
  void wait(void (*unlock)(void* guard), void* guard) noexcept;
  /// The same with limits. Afterwards this waiter is in no list, and `guard` is not held; the
  /// object that owns both must not be destroyed before. If the limit has been reached already it
  /// does not suspend.
  wait_result wait(spin_lock& guard, class waiter_list& list, const wait_limit& limit) noexcept;
  /// Without a lock, on a foreign thread only.
  void sleep() noexcept;
  /// Ends `wait`, exactly once, after `waiter_list::pop` or `take` (or without a list). The waiter
  /// may be gone when this returns. Any thread; no lock needed.
  void wake() noexcept;
  /// The same by a fiber that is likely to end or wait soon: the waiter goes on then, before others
  /// that can run.
  void wake_next() noexcept;

  /// The time limit of a waiter has been reached.
  /// \param t its timer, which has been taken out of its wheel.
  static void expire(struct timer& t) noexcept;

  waiter *next = nullptr, *prev = nullptr; ///< for the list of the object that is waited for
  std::uintptr_t data = 0;                 ///< for its maker: a mode, an address to put a value, …

private:
  friend class waiter_list;
  struct limits;
  static constexpr std::uint32_t waiting = 0, taken = 1, expired = 2, stopped = 3, awake = 4;

  /// Before it is taken out of its list to be woken.
  /// \return false if a limit was faster. Under the guard.
  bool claim() noexcept {
    if (!limits_) return true;
    std::uint32_t expected = waiting;
    return state_.compare_exchange_strong(expected, taken, std::memory_order_acq_rel);
  }
  bool gone() const noexcept { return limits_ && state_.load(std::memory_order_relaxed) != waiting; }
  void give_up(std::uint32_t how) noexcept; // a limit has been reached
  void sleep_until(std::int64_t deadline) noexcept;

  fiber* const fiber_; // null: a foreign thread
  limits* limits_ = nullptr;
  bool linked_ = false;
  std::atomic<std::uint32_t> state_{waiting}; // the futex of foreign threads
};

/// First-in, first-out list of waiters; protected by its owner's lock.
class waiter_list {
public:
  bool empty() const noexcept { return !head_; }
  void push(waiter& w) noexcept {
    w.next = nullptr;
    w.prev = tail_;
    (head_ ? tail_->next : head_) = &w;
    tail_ = &w;
    w.linked_ = true;
  }
  void push_front(waiter& w) noexcept {
    w.prev = nullptr;
    w.next = head_;
    (head_ ? head_->prev : tail_) = &w;
    head_ = &w;
    w.linked_ = true;
  }
  /// The longest waiter, which the caller must wake; null if none.
  waiter* pop() noexcept {
    return pop_if([](const waiter&) { return true; });
  }
  /// The same, if `fits(*longest waiter)`.
  template <class F> waiter* pop_if(F&& fits) noexcept {
    while (waiter* w = head_) {
      __builtin_prefetch(w, 1); // it will be written to, and usually lies in another worker's cache
      if (!w->gone() && !fits(static_cast<const waiter&>(*w))) return nullptr;
      const bool ours = w->claim();
      remove(*w); // if a limit was faster, it need not do so itself
      if (ours) return w;
    }
    return nullptr;
  }
  /// Empties the list and returns its chain, all of which the caller must wake.
  waiter* take() noexcept {
    waiter *first = nullptr, *last = nullptr;
    while (waiter* w = pop()) {
      w->next = nullptr;
      (last ? last->next : first) = w;
      last = w;
    }
    return first;
  }
  /// Wakes a chain from `take`. The next pointer is read first: a woken waiter may be gone.
  static void wake_all(waiter* w) noexcept {
    while (w) {
      waiter* next = w->next;
      w->wake();
      w = next;
    }
  }
  /// Takes out one that waits no more.
  void remove(waiter& w) noexcept {
    (w.prev ? w.prev->next : head_) = w.next;
    (w.next ? w.next->prev : tail_) = w.prev;
    w.linked_ = false;
  }

private:
  waiter *head_ = nullptr, *tail_ = nullptr;
};

} // namespace tern::detail
