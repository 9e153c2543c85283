// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which ring a receiver looks at next. Like spsc_ring.hpp it may be used between processes.
/// Internal.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tern::net::detail {

/// Of one receiver. With few senders it looks at the rings of all whenever it wants to know. With
/// more, senders say in a bit that theirs is not empty.
class ring_poller {
public:
  using word = std::atomic<std::uint64_t>;
  static constexpr std::size_t few_senders = 8;
  /// Words of marks that a receiver needs. One level is enough: the words of 1,024 ranks are two
  /// lines.
  static constexpr std::size_t words_for(std::size_t senders) {
    return senders > few_senders ? (senders + 63) / 64 : 0;
  }

  /// \param marks `words_for(senders)` of them, 0 at first.
  void open(std::size_t senders, word* marks) noexcept {
    senders_ = senders;
    marks_ = marks;
    words_ = words_for(senders);
    current_ = 0;
    in_a_row_ = 0;
  }
  bool has_marks() const noexcept { return words_ != 0; }

  /// The sender's: there is something in its ring. It passes a full fence, so the receiver's sleep
  /// needs none of its own on this side.
  static void mark(word* marks, std::size_t sender) noexcept {
    // Dekker: we store the message and read the bit, the receiver clears the bit and looks for a
    // message. And the same for its sleep. The bit is set nearly always while we send much.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    word& w = marks[sender / 64];
    const std::uint64_t bit = std::uint64_t{1} << (sender % 64);
    if (!(w.load(std::memory_order_seq_cst) & bit)) w.fetch_or(bit, std::memory_order_seq_cst);
  }

  /// Calls `take(sender)` until one returns true, which is `current` then; \return whether one did.
  /// Stays with one sender for a while. `ready(sender)`: whether `take` would look at a message.
  template <class Take, class Ready> bool next(Take&& take, Ready&& ready) {
    const bool stays = in_a_row_ < most_in_a_row;
    if ((stays && take(current_)) || (words_ == 0 ? next_of_all(take, stays) : next_marked(take, ready))) {
      ++in_a_row_;
      return true;
    }
    return false;
  }
  std::size_t current() const noexcept { return current_; }

  /// Whether a sender is `ready`.
  template <class Ready> bool any(Ready&& ready) const {
    if (words_ == 0) {
      for (std::size_t i = 0; i < senders_; ++i)
        if (ready(i)) return true;
    }
    for (std::size_t w = 0; w < words_; ++w)
      for (std::uint64_t left = marks_[w].load(std::memory_order_seq_cst); left; left &= left - 1)
        if (ready(64 * w + static_cast<std::size_t>(std::countr_zero(left)))) return true;
    return false;
  }

private:
  static constexpr int few_rings = 4;      // empty ones whose bits are left set
  static constexpr int most_in_a_row = 32; // messages from one sender while others may have some

  template <class Take> bool take_from(std::size_t sender, Take&& take) {
    if (!take(sender)) return false;
    current_ = sender;
    in_a_row_ = 0;
    return true;
  }
  // The current one comes last, unless it has been asked just now.
  template <class Take> bool next_of_all(Take&& take, bool asked) {
    for (std::size_t i = current_ + 1; i < senders_; ++i)
      if (take_from(i, take)) return true;
    for (std::size_t i = 0; i < current_; ++i)
      if (take_from(i, take)) return true;
    return !asked && current_ < senders_ && take_from(current_, take);
  }
  // Among those whose bits are set, round robin. Bits of empty rings stay set while they are few,
  // so that the ranks that we talk with need not set them again each time.
  template <class Take, class Ready> bool next_marked(Take&& take, Ready&& ready) {
    for (;;) {
      int empty = 0;
      const std::size_t start = (current_ + 1) % senders_;
      for (std::size_t i = 0; i <= words_; ++i) { // the first word's lower part comes last
        const std::size_t w = (start / 64 + i) % words_;
        const std::uint64_t above = ~std::uint64_t{0} << (start % 64);
        const std::uint64_t part = i == 0 ? above : i == words_ ? ~above : ~std::uint64_t{0};
        // relaxed: reading a message there acquires it.
        for (std::uint64_t left = marks_[w].load(std::memory_order_relaxed) & part; left; left &= left - 1) {
          if (take_from(64 * w + static_cast<std::size_t>(std::countr_zero(left)), take)) return true;
          ++empty;
        }
      }
      if (empty <= few_rings || !clear_marks(ready)) return false;
    }
  }
  // Clears the bits of empty rings. Returns whether one of them was not empty after all.
  template <class Ready> bool clear_marks(Ready&& ready) {
    bool some = false;
    for (std::size_t w = 0; w < words_; ++w) {
      const std::uint64_t cleared = marks_[w].load(std::memory_order_relaxed);
      if (!cleared) continue;
      marks_[w].fetch_and(~cleared, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst); // see `mark`
      for (std::uint64_t left = cleared; left; left &= left - 1)
        if (ready(64 * w + static_cast<std::size_t>(std::countr_zero(left)))) {
          marks_[w].fetch_or(left & -left, std::memory_order_seq_cst);
          some = true;
        }
    }
    return some;
  }

  word* marks_ = nullptr;
  std::size_t senders_ = 0, words_ = 0, current_ = 0;
  int in_a_row_ = 0;
};

} // namespace tern::net::detail
