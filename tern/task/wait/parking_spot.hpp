// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How workers sleep and are woken: at least one is woken when there is work and no worker
/// looks for any, and no more than are needed.

#include <atomic>
#include <cstdint>

#include <tern/base/language/durations.hpp>

namespace tern::detail {

/// A full memory barrier in all running threads of this process, or, where the kernel has no
/// membarrier(2), in this one only. Costs microseconds, so that the other side of a store-load race
/// needs nothing but a compiler barrier.
class asymmetric_barrier {
public:
  /// \param wanted false: do without.
  /// \return whether there is one. Registers the process with the kernel.
  static bool available(bool wanted) noexcept;
  explicit asymmetric_barrier(bool usable) noexcept : usable_(usable) {}
  bool usable() const noexcept { return usable_; }
  void operator()() const noexcept;

private:
  bool usable_;
};

/// Where one worker sleeps.
///
///     awake --(the worker)--> parked --(any thread: unpark)--> unparked --(the worker)--> awake
///                               '------(the worker: cancel_park)-------------------> awake
///
/// Only a parked worker can be unparked, by one caller; so each unpark wakes one more worker.
class alignas(64) parking_spot {
public:
  /// The worker intends to sleep. It must look for work once more before it does.
  void prepare_park() noexcept { state_.store(parked, std::memory_order_seq_cst); }
  /// The worker found work after all.
  /// \return false if it has been unparked meanwhile, and so is counted as searching.
  bool cancel_park() noexcept {
    std::uint32_t expected = parked;
    const bool by_itself = state_.compare_exchange_strong(expected, awake, std::memory_order_acq_rel);
    if (!by_itself) state_.store(awake, std::memory_order_relaxed);
    return by_itself;
  }
  /// Sleeps until unparked, or for `at_most` if that is not 0. May return early.
  void park(std::chrono::microseconds at_most) noexcept;
  bool is_parked() const noexcept { return state_.load(std::memory_order_seq_cst) == parked; }
  /// \return whether the worker was parked and now will wake; `wake_thread` must follow if it
  /// sleeps here.
  bool unpark() noexcept {
    std::uint32_t expected = parked;
    return state_.load(std::memory_order_relaxed) == parked &&
           state_.compare_exchange_strong(expected, unparked, std::memory_order_acq_rel);
  }
  void wake_thread() noexcept;

private:
  static constexpr std::uint32_t awake = 0, parked = 1, unparked = 2;
  std::atomic<std::uint32_t> state_{awake}; // the futex
};

} // namespace tern::detail
