// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A hierarchical timing wheel.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace tern::detail {

/// Something that is to happen at a moment. Not copyable; must be out of its wheel before it is
/// destroyed.
struct timer {
  std::int64_t deadline = 0; ///< ns
  timer *next = nullptr, *prev = nullptr;
  std::uint8_t level = 0, slot = 0;
  bool armed = false;
  bool calls = false; ///< it is a timed_function, else a waiter's limit
};

/// Timers by their deadline, in nanoseconds from any origin, >= 0. `add` and `remove` take constant
/// time, each timer moves down at most `levels` times before it fires. 64 slots for each of 11
/// levels of 6 bits cover all of 63 bits, so no deadline is too far away and nothing wraps.
///
/// After Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987; a level is the highest
/// group of six bits in which the deadline and the wheel's time differ. Not thread-safe.
///
/// Memory: a level takes its 1 KiB when a timer first stands in it, and keeps it. A simulated rank
/// that waits uses one level, and there may be 100,000 such ranks.
class timer_wheel {
public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  /// The wheel's time is `start`.
  explicit timer_wheel(std::int64_t start = 0) noexcept : now_(start) {}
  /// Takes the memory of all levels: from now on the wheel allocates nothing. Otherwise `add` and
  /// `advance` end the program if there is no memory for a level.
  void reserve();
  timer_wheel(const timer_wheel&) = delete;
  timer_wheel& operator=(const timer_wheel&) = delete;

  bool empty() const noexcept { return size_ == 0; }
  /// Bytes of the levels that it has memory for.
  std::size_t level_bytes() const noexcept;
  std::size_t size() const noexcept { return size_; }
  std::int64_t now() const noexcept { return now_; }
  /// Fires at the next `advance` if `t.deadline` has passed.
  /// \pre not armed.
  void add(timer& t) noexcept;
  /// Does nothing if it is not armed.
  void remove(timer& t) noexcept;
  /// A moment before which none fires and at which the wheel should be advanced: the earliest
  /// deadline, or the earlier start of the slot that it is in. `never` if there is none.
  std::int64_t next() const noexcept;
  /// The wheel's time becomes `time` (if later), and all timers with deadline <= `time` are taken
  /// out, in the order of their deadlines (those with the same in the order added).
  /// \return their chain, through `timer::next`; null if none.
  timer* advance(std::int64_t time) noexcept;

private:
  static constexpr int bits = 6, slots = 1 << bits, levels = 11;
  struct list {
    timer *head = nullptr, *tail = nullptr;
    void append(timer& t) noexcept;
    void append(list chain) noexcept;
  };
  using row = std::array<list, slots>;
  list& at(int level, int slot) noexcept;
  void put(timer& t) noexcept;
  list take(int level, int slot) noexcept;
  std::int64_t start(int level, int slot) const noexcept;
  list expire(list taken) noexcept;
  static list sorted(list chain) noexcept;

  std::int64_t now_;
  std::size_t size_ = 0;
  // All timers in the levels are later than now_.
  std::uint32_t used_levels_ = 0;            // a bit for each level that is not empty
  std::array<std::uint64_t, levels> used_{}; // a bit for each slot that is not empty
  std::array<std::unique_ptr<row>, levels> rows_;
  list past_; // deadlines that had passed when they were added; `level` of these timers is `levels`
};

} // namespace tern::detail
