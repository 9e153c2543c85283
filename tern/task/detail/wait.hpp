// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What every blocking primitive of this layer is made of: a short lock around its state and a list of waiters.

#include <atomic>
#include <cstdint>

namespace tern::detail {

/// Tells the processor that this is a waiting loop.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Mutual exclusion for a few instructions, never held across a suspension by its holder's own code; a suspending fiber
/// hands it to the scheduler, which releases it once the fiber has left its stack (a std::mutex may not be unlocked by
/// another context than the one that locked it). Spins briefly, then yields the CPU: the holder may have been
/// preempted.
class spin_lock {
public:
  void lock() noexcept {
    // acquire: what the previous holder wrote is visible; pairs with the release in unlock.
    for (int tries = 0; flag_.exchange(true, std::memory_order_acquire); ++tries) back_off(tries);
  }
  void unlock() noexcept { flag_.store(false, std::memory_order_release); }

private:
  static void back_off(int tries) noexcept;
  std::atomic<bool> flag_{false};
};

struct fiber;

/// One waiting context: a fiber, which suspends, or a foreign thread, which sleeps. Lives on the waiter's stack.
class waiter {
public:
  waiter() noexcept;
  /// Waits until `wake`. `guard` is held by the caller and protects the list that this waiter was put into; it is
  /// released only after the context has been left, so that a waker cannot resume a stack that is still in use.
  void wait(spin_lock& guard) noexcept;
  /// The same without a lock, on a foreign thread only.
  void sleep() noexcept;
  /// Ends `wait`, exactly once. The waiter may be gone when this returns. Any thread; no lock needed.
  void wake() noexcept;

  waiter* next = nullptr; ///< for the list of whoever is waited for

private:
  fiber* fiber_;
  std::atomic<std::uint32_t> woken_{0}; // used by foreign threads only
};

/// First-in, first-out list of waiters; protected by its owner's lock.
class waiter_list {
public:
  bool empty() const noexcept { return !head_; }
  void push(waiter& w) noexcept {
    w.next = nullptr;
    (head_ ? tail_->next : head_) = &w;
    tail_ = &w;
  }
  waiter* pop() noexcept {
    waiter* w = head_;
    if (w) head_ = w->next;
    return w;
  }
  /// Empties the list and returns its chain.
  waiter* take() noexcept {
    waiter* w = head_;
    head_ = tail_ = nullptr;
    return w;
  }
  /// Wakes a chain from `take`. The next pointer is read first: a woken waiter may be gone.
  static void wake_all(waiter* w) noexcept {
    while (w) {
      waiter* next = w->next;
      w->wake();
      w = next;
    }
  }

private:
  waiter *head_ = nullptr, *tail_ = nullptr;
};

} // namespace tern::detail
