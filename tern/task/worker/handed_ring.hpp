// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What one worker hands to another, without a line that both write. Internal.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

/// Something of a layer above that one worker hands to another: `take` is called there, or by a
/// worker that stands in for it. It must not wait, and lives until then.
struct alignas(8) handed {
  using function = void (*)(handed&) noexcept;
  explicit handed(function f) noexcept : take(f) {}
  const function take;
};

/// From one worker to another, in order. One writes, one at a time reads (the lock). The writer
/// writes the slots' lines and reads `passed_` once a round; the reader writes `passed_` only. So a
/// message moves one line, which it may share with its neighbours. A slot says by two bits in which
/// round it was written: nothing has to be put back.
///
/// Source: rings of one producer and one consumer as in Lamport, "Proving the correctness of
/// multiprocess programs" (1977); what is in a slot says that it is there as in FastForward
/// (Giacomoni et al., PPoPP 2008).
class handed_ring {
public:
  static constexpr std::uint32_t capacity = 64;

  explicit handed_ring(handed_ring* behind) noexcept : next(behind) {}
  handed_ring(const handed_ring&) = delete;
  handed_ring& operator=(const handed_ring&) = delete;

  /// The writer. \return false: it is full.
  bool push(handed& x) noexcept {
    if (written_ - seen_ == capacity) {
      seen_ = passed_.load(std::memory_order_acquire);
      if (written_ - seen_ == capacity) return false;
    }
    const auto bits = reinterpret_cast<std::uintptr_t>(&x); // address: to be read back
    // release: what is handed, with all that its writer has done before.
    slots_[written_ % capacity].store(bits | round(written_), std::memory_order_release);
    ++written_;
    return true;
  }
  /// The writer: how many it has written. All of them have been taken if `has_passed` says so.
  std::uint32_t written() const noexcept { return written_; }
  /// Any thread: have the first `n` been taken, to the end of `take`?
  bool has_passed(std::uint32_t n) const noexcept {
    return static_cast<std::int32_t>(passed_.load(std::memory_order_acquire) - n) >= 0;
  }
  /// Any thread; a guess, but for the only reader: is there anything?
  bool any() const noexcept { return front(passed_.load(std::memory_order_relaxed)) != 0; }
  /// Any thread: takes all that is there. What was there before is taken when this returns, whoever
  /// does it. \return how many.
  template <class Take> unsigned take_all(Take&& take) {
    const std::lock_guard hold(lock_);
    std::uint32_t at = passed_.load(std::memory_order_relaxed);
    const std::uint32_t first = at;
    while (const std::uintptr_t x = front(at)) {
      if (const std::uintptr_t second = front(at + 1)) prefetch(second);
      take(*reinterpret_cast<handed*>(x));
      passed_.store(++at, std::memory_order_release); // it has been taken: see `has_passed`
    }
    return at - first;
  }

  handed_ring* const next; ///< of the same reader

private:
  static constexpr std::uintptr_t round_bits = 3;
  static std::uintptr_t round(std::uint32_t at) noexcept { return 1 + (at / capacity) % 2; }
  static void prefetch(std::uintptr_t x) noexcept {
    for (int line = 0; line < 3; ++line) __builtin_prefetch(reinterpret_cast<const char*>(x) + 64 * line);
  }
  // Those of the round before have the other bit, and those never written none.
  std::uintptr_t front(std::uint32_t at) const noexcept {
    const std::uintptr_t x = slots_[at % capacity].load(std::memory_order_acquire);
    return (x & round_bits) == round(at) ? x & ~round_bits : 0;
  }

  alignas(64) std::uint32_t written_ = 0, seen_ = 0; // the writer's
  alignas(64) std::atomic<std::uint32_t> passed_{0}; // the reader's
  spin_lock lock_;
  alignas(64) std::array<std::atomic<std::uintptr_t>, capacity> slots_{};
};

/// The rings that end at one worker, made when there is something for them. There are few: a worker
/// looks at all of them.
class handed_inbox {
public:
  static constexpr int most_rings = 8;

  handed_inbox() noexcept = default;
  ~handed_inbox() {
    for (handed_ring* r = first_.load(std::memory_order_relaxed); r;) {
      const std::unique_ptr<handed_ring> one(r);
      r = one->next;
    }
  }
  handed_inbox(const handed_inbox&) = delete;
  handed_inbox& operator=(const handed_inbox&) = delete;

  /// Another one, for a worker that has none. \return null: there are enough, or no memory is left.
  handed_ring* add() noexcept;
  /// As of a ring.
  bool any() const noexcept {
    for (const handed_ring* r = first_.load(std::memory_order_acquire); r; r = r->next)
      if (r->any()) return true;
    return false;
  }
  template <class Take> void take_all(Take&& take) {
    for (handed_ring* r = first_.load(std::memory_order_acquire); r; r = r->next)
      if (r->any()) r->take_all(take);
  }

private:
  std::atomic<handed_ring*> first_{nullptr};
  spin_lock lock_; // to add one
  int count_ = 0;
};

} // namespace tern::detail
