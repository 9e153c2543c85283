// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Stacks for fibers, each with its fiber at its upper end: cut from large mappings, guarded
/// below, reused last in first out so that the next fiber finds warm memory.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/fiber_options.hpp>

namespace tern::detail {

/// Thread-safe. A fiber's memory stays readable as long as the pool lives.
class stack_pool {
public:
  static constexpr std::size_t guard_bytes = std::size_t{64} * 1024; // a frame of less cannot jump over it
  static constexpr std::size_t least_bytes = std::size_t{16} * 1024;
  static constexpr std::size_t most_bytes = std::size_t{1} << 36;

  /// \param home of its fibers; null: the taker sets it.
  stack_pool(scheduler_core* home, std::size_t stack_bytes, stack_guard guard);
  ~stack_pool();
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  /// A fiber with a stack of that class.
  /// \throws error(out_of_memory) that says how many stacks there are and which limit was met.
  fiber* take(std::uint8_t stack_class = 0);
  /// \param chain of fibers of one class, through `next`.
  void give(fiber* chain) noexcept;
  /// Class 0 has the pool's own size.
  /// \throws error(invalid_argument).
  std::uint8_t class_of(std::size_t stack_bytes) const;

  /// Calls `f(fiber&)` for all that have ever been taken. Others may be taken and given meanwhile.
  template <class F> void each(F&& f) {
    std::lock_guard hold(lock_);
    for (const auto& m : mappings_)
      for (std::size_t i = 0; i < m.carved; ++i) f(*m.fiber_at(i));
  }
  /// The same, unless the lock cannot be had within `limit`.
  /// \return whether it was done.
  template <class F> bool each_within(std::chrono::milliseconds limit, F&& f) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!lock_.try_lock()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::lock_guard hold(lock_, std::adopt_lock);
    for (const auto& m : mappings_)
      for (std::size_t i = 0; i < m.carved; ++i) f(*m.fiber_at(i));
    return true;
  }
  /// For a pool that one thread alone takes from and gives to: stacks of class 0, without the lock.
  fiber* take_here() {
    if (!spare_) return take(0);
    fiber* f = spare_;
    spare_ = static_cast<fiber*>(f->next);
    return f;
  }
  void give_here(fiber* f) noexcept {
    f->next = spare_;
    spare_ = f;
  }
  std::size_t made() const noexcept { return made_.load(std::memory_order_relaxed); }
  std::size_t usable_bytes() const noexcept { return classes_[0].usable; }
  /// The largest part of a stack that was ever touched, in bytes, rounded up to pages. Looks at all
  /// of them.
  std::size_t deepest();
  stack_guard guard() const noexcept { return guard_; }

private:
  struct size_class {
    std::size_t usable = 0; // bytes above the guard, with the fiber
    fiber* free = nullptr;
    std::size_t mapping = 0; // that is being carved, + 1
    std::size_t slots = 4;   // of the next mapping
  };
  struct mapping {
    std::byte* base;
    std::size_t slot, slots, carved;
    std::uint8_t stack_class;
    fiber* fiber_at(std::size_t i) const noexcept;
  };
  fiber* carve(std::uint8_t stack_class);
  void map(std::uint8_t stack_class);
  guard_kind protect(std::byte* low);

  scheduler_core* const home_;
  const std::size_t page_;
  stack_guard guard_;
  const bool traced_; // fibers are told to the trace
  std::mutex lock_;
  std::array<size_class, 40> classes_;
  std::vector<mapping> mappings_;
  std::atomic<std::size_t> made_{0};
  fiber* spare_ = nullptr;  // see take_here
  std::size_t guarded_ = 0; // by mprotect
};

/// What `stack_guard::automatic` means here.
stack_guard best_guard();

} // namespace tern::detail
