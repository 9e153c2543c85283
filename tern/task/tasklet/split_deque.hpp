// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The split deque: where a worker keeps the tasklets that it has spawned and that other
/// workers may steal.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tern::detail {

struct tasklet;

/// A double-ended queue with a private and a public part. Its owner pushes and pops at the bottom,
/// last in first out, without a fence and without a read-modify-write; any number of thieves take
/// from the top, oldest first, up to half of the public part with one compare-and-swap.
///
///        top        split        bottom
///     ----|---public---|---private---|----
///         thieves ->                 <- owner
///
/// Contract
/// - One owner at a time calls `push`, `pop`, `unpop`, `publish`; any thread calls the rest.
/// - What is pushed is popped or stolen exactly once.
/// - Private tasklets are not lost to thieves for longer than they want to wait: one that finds
///   nothing public sets `want`, and the owner answers at its next push or pop by publishing half
///   of its private part. An owner inside a long body does not come by: then the thief calls
///   `force`, which moves the split itself.
///
/// How it is right. `word_` packs top, split, `want` and a tag; each change is a compare-and-swap,
/// and the tag differs after each change by the owner or by `force`, so a thief whose copied slots
/// the owner has meanwhile taken back and filled anew fails (top and split alone may have come back
/// to the same values). The owner takes slots at or above the split without any agreement *as long
/// as it sees `want` unset*; once it sees it set, each pop changes the word first. So between the
/// thief's setting of `want` and the owner's noticing it there is one dangerous window, the
/// classical one of store (bottom) and load (word) on both sides (Dekker), which `force` closes
/// with an asymmetric barrier between its load of the word and its load of the bottom: after the
/// barrier an owner that had not seen `want` has made its bottom visible, and one that will see it
/// must change the word, at which `force` fails. Without such a barrier (see `asymmetric_barrier`),
/// `want` stays set for ever: the owner then goes through the word each time, which costs a
/// compare-and-swap for each push and pop, and nothing else changes.
///
/// The private part without fences is that of Dijk, van de Pol: Lace (2014) and of Acar,
/// Charguéraud, Rainey: Scheduling parallel programs by work stealing with private deques (2013);
/// the tag, `force` and the packed word are ours. Model: tests/models/deque.pml.
class split_deque {
public:
  static constexpr unsigned capacity = 1024;      ///< a power of two, at most 2^15
  static constexpr unsigned high_watermark = 256; ///< from here on `push` asks for leave_flags: the spawner should
                                                  /// < pause. So many tasklets of 64 bytes still
                                                  /// fit a level-1 cache.
  static constexpr unsigned low_watermark = 64;   ///< down from here a paused spawner goes on
  static constexpr unsigned most_stolen = 64;     ///< by one steal
  static constexpr unsigned hard_limit =
      capacity - 2 * most_stolen; ///< `push` is not allowed beyond; the rest is slack

  /// It takes the memory of its slots after the first push; without memory that ends the program.
  /// Until then only one thread may use it.
  /// \param fenceless whether an asymmetric barrier exists.
  explicit split_deque(bool fenceless) noexcept : keep_want_(fenceless ? 0 : want_bit) {}
  ~split_deque();
  split_deque(const split_deque&) = delete;
  split_deque& operator=(const split_deque&) = delete;
  /// Takes it now.
  /// \throws std::bad_alloc.
  void reserve();
  /// The same; without memory that ends the program.
  void take_memory() noexcept { reserve(); }

  // The owner ---------------------------------------------------------------------------------------------------------

  /// \return true if the owner should give leave_flags: call `publish`, and pause if `size() >=
  /// high_watermark`. If it is `wanted`, `publish` or `take_memory` comes before the next push.
  /// \pre size() <= hard_limit, or no other thread has pushed since.
  bool push(tasklet* t) noexcept {
    const std::uint16_t b = bottom_.load(std::memory_order_relaxed);
    slot(b).store(t, std::memory_order_relaxed); // a thief that copies a stale slot fails at the word
    // release: a thread that reads this bottom (force) sees the slot and the tasklet.
    bottom_.store(static_cast<std::uint16_t>(b + 1), std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst); // the other half of force's barrier: store before load
    const std::uint64_t v = word_.load(std::memory_order_relaxed);
    return (v & want_bit) != 0 || static_cast<std::uint16_t>(b + 1 - top(v)) >= high_watermark;
  }

  /// The newest tasklet, or null.
  /// \return false in `sure` if the caller must go through `pop_slow`.
  tasklet* pop_fast(bool& sure) noexcept {
    const auto b = static_cast<std::uint16_t>(bottom_.load(std::memory_order_relaxed) - 1);
    bottom_.store(b, std::memory_order_release); // as in push: force reads it
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::uint64_t v = word_.load(std::memory_order_relaxed);
    sure = static_cast<std::int16_t>(b - split(v)) >= 0 && (v & want_bit) == 0;
    return sure ? slot(b).load(std::memory_order_relaxed) : nullptr;
  }
  /// After `pop_fast` was not sure. `hungry`: some worker is looking for work or asleep;
  /// `published` tells whether thieves got something, and must then be told.
  tasklet* pop_slow(bool hungry, bool& published) noexcept;
  /// Undoes the last pop.
  /// \return as push.
  bool unpop(tasklet* t) noexcept { return push(t); }
  /// Gives thieves half of the private part, at least one.
  /// \return whether there was anything to give.
  bool publish() noexcept;
  /// Has a thief asked for more?
  bool wanted() const noexcept { return (word_.load(std::memory_order_relaxed) & want_bit) != 0; }
  /// Exact for the owner, a guess for others.
  unsigned size() const noexcept {
    return static_cast<std::uint16_t>(bottom_.load(std::memory_order_relaxed) -
                                      top(word_.load(std::memory_order_relaxed)));
  }

  // Any thread
  // -----------------------------------------------------------------------------------------------------------

  /// Takes up to half of the public part, at most `most_stolen`, into `out`, oldest first.
  /// \return how many; 0 if there was nothing (the owner is then asked for more) or another thief
  /// was faster.
  unsigned steal(tasklet** out) noexcept;
  /// Asks the owner to publish at its next push or pop, if nothing is public.
  void ask() noexcept;
  /// Is there something to steal, now?
  bool has_public() const noexcept {
    const std::uint64_t v = word_.load(std::memory_order_acquire);
    return top(v) != split(v);
  }
  /// Is there something only the owner can see? A guess unless a barrier came before.
  bool has_private() const noexcept {
    const std::uint64_t v = word_.load(std::memory_order_acquire);
    return static_cast<std::int16_t>(bottom_.load(std::memory_order_acquire) - split(v)) > 0;
  }
  /// First half of publishing in the owner's stead: `want` set, and the word as it is then. Then
  /// the barrier, then `force`.
  /// \return 0 if there is no need: something is public.
  std::uint64_t prepare_force() noexcept;
  /// Second half: if the owner has not touched the word since, publishes half of what is private.
  bool force(std::uint64_t prepared) noexcept;

private:
  static constexpr std::uint16_t mask = capacity - 1;
  static constexpr std::uint64_t want_bit = std::uint64_t{1} << 63; // the sign: cheap to test
  static constexpr std::uint64_t tag_one = std::uint64_t{1} << 32; // 31 bits: 2^31 changes while one thief stands still
  static constexpr std::uint64_t tag_mask = ~(tag_one - 1) & ~want_bit;

  static std::uint16_t top(std::uint64_t v) noexcept { return static_cast<std::uint16_t>(v); }
  static std::uint16_t split(std::uint64_t v) noexcept { return static_cast<std::uint16_t>(v >> 16); }
  static std::uint64_t pack(std::uint16_t top, std::uint16_t split, bool want, std::uint64_t tag) noexcept {
    return top | (std::uint64_t{split} << 16) | (want ? want_bit : 0) | (tag & tag_mask);
  }

  // What thieves read at rest is apart from what the owner writes all the time.
  const std::uint64_t keep_want_; // want_bit: it is never cleared
  // `capacity` of them. A simulation has up to 100,000 workers that never have a tasklet, so at
  // first there is one, for the first push. `want` is set until then, so `publish` takes the
  // memory, and `push` need not ask.
  tasklet** slots_ = &first_slot_;
  tasklet* first_slot_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> word_{want_bit};
  alignas(64) std::atomic<std::uint16_t> bottom_{0};
  std::atomic_ref<tasklet*> slot(unsigned i) noexcept { return std::atomic_ref<tasklet*>(slots_[i & mask]); }
};

} // namespace tern::detail
