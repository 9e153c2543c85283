// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A spin lock for what one thread nearly always uses alone. Internal.

#include <atomic>

#include <tern/task/wait/parking_spot.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

/// As `spin_lock`, until `own` says that one thread only will call `lock`; from then on that costs
/// no locked instruction, of which a small message could otherwise wait for three. Others, as
/// reports, come in by `outside`.
///
/// Contract: mutual exclusion, and what one holder wrote is visible to the next. The owner sets
/// `busy_`, then reads `want_`; a visitor sets `want_`, has all threads pass a barrier
/// (membarrier), then reads `busy_`. So one of the two sees the other (Dekker; the owner's half of
/// the fence is the barrier that the other runs on it), and gives way: the owner until the other
/// has left, the other for good.
class owner_lock {
public:
  /// \pre no thread has it or asks for it.
  /// \param by has an effect on all threads; else this changes nothing.
  void own(const asymmetric_barrier& by) noexcept { owned_ = by.usable() && !checked; }
  void lock() noexcept {
    for (int tries = 0;; ++tries) {
      if (owned_) {
        busy_.store(true, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst); // the store stays before the load
        // acquire: what a visitor read was read before this writes
        if (!want_.load(std::memory_order_acquire)) [[likely]]
          return;
        busy_.store(false, std::memory_order_release);
      } else if (!busy_.exchange(true, std::memory_order_acquire)) {
        return; // acquire: pairs with the release in `unlock`
      }
      spin_lock::back_off(tries);
    }
  }
  // release: the next one sees all that this one has written
  void unlock() noexcept { busy_.store(false, std::memory_order_release); }

  /// For any thread: does not wait.
  class visitor {
  public:
    explicit visitor(owner_lock& l) noexcept : lock_(l) {}
    bool try_lock() noexcept {
      if (!lock_.owned_) return !lock_.busy_.exchange(true, std::memory_order_acquire);
      if (lock_.want_.exchange(true, std::memory_order_acquire)) return false;
      asymmetric_barrier{true}();
      // acquire: pairs with the release of the owner's `unlock`
      if (!lock_.busy_.load(std::memory_order_acquire)) return true;
      lock_.want_.store(false, std::memory_order_release); // what the visitor before has read goes on with it
      return false;
    }
    void unlock() noexcept { (lock_.owned_ ? lock_.want_ : lock_.busy_).store(false, std::memory_order_release); }
    void lock() noexcept {
      for (int tries = 0; !try_lock(); ++tries) spin_lock::back_off(tries);
    }

  private:
    owner_lock& lock_;
  };

private:
// The thread sanitizer does not know such barriers.
#if defined(__SANITIZE_THREAD__)
  static constexpr bool checked = true;
#elif defined(__has_feature)
  static constexpr bool checked = __has_feature(thread_sanitizer);
#else
  static constexpr bool checked = false;
#endif
  bool owned_ = false;
  std::atomic<bool> busy_{false}, want_{false};
};

} // namespace tern::detail
