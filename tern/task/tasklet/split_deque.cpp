// SPDX-License-Identifier: Apache-2.0
#include <tern/task/tasklet/split_deque.hpp>

#include <cstdlib>
#include <new>

namespace tern::detail {

split_deque::~split_deque() {
  if (slots_ != &first_slot_) std::free(slots_);
}

void split_deque::reserve() {
  if (slots_ != &first_slot_) return;
  auto* const slots =
      static_cast<tasklet**>(std::aligned_alloc(64, capacity * sizeof(tasklet*))); // cache lines of its own
  if (!slots) throw std::bad_alloc();
  slots[0] = first_slot_;
  slots_ = slots;
  word_.store(keep_want_, std::memory_order_relaxed); // no other thread uses it yet
}

// Orders of the changes of `word_`: release, so that a thief that reads the word sees the slots and
// tasklets below the split; acquire, so that the owner that takes something back sees that no thief
// holds it.

bool split_deque::publish() noexcept {
  const std::uint16_t b = bottom_.load(std::memory_order_relaxed);
  if (slots_ == &first_slot_) [[unlikely]] {
    if (b == 0) return false;
    take_memory();
    if (keep_want_ == 0) return false; // no thief had asked
  }
  std::uint64_t v = word_.load(std::memory_order_relaxed);
  for (;;) {
    const int own = static_cast<std::int16_t>(b - split(v));
    if (own <= 0) return false;
    const auto higher = static_cast<std::uint16_t>(split(v) + (own + 1) / 2);
    if (word_.compare_exchange_weak(v, pack(top(v), higher, keep_want_ != 0, v + tag_one), std::memory_order_acq_rel,
                                    std::memory_order_relaxed))
      return true;
  }
}

tasklet* split_deque::pop_slow(bool hungry, bool& published) noexcept {
  published = false;
  const std::uint16_t b = bottom_.load(std::memory_order_relaxed); // already lowered
  std::uint64_t v = word_.load(std::memory_order_acquire);
  for (;;) {
    const int own = static_cast<std::int16_t>(b + 1 - split(v)); // with the one we are after
    const int open = static_cast<std::uint16_t>(split(v) - top(v));
    std::uint64_t next;
    bool gives = false;
    if (own > 0) {
      if ((v & want_bit) == 0)
        return slot(b).load(std::memory_order_relaxed); // it was cleared since: by force, or by a thief that failed
      // A thief wants work: half of the rest is for thieves. Even if there is no rest the word must
      // change before we take ours, or `force` could publish it at the same time.
      const int give = own / 2; // of own - 1, rounded up
      gives = give > 0;
      next = pack(top(v), static_cast<std::uint16_t>(split(v) + give), keep_want_ != 0 || (!gives && open == 0),
                  v + tag_one);
    } else if (open == 0) {
      bottom_.store(static_cast<std::uint16_t>(b + 1), std::memory_order_release);
      return nullptr;
    } else { // take back the newer half of what is public
      const auto lower = static_cast<std::uint16_t>(top(v) + open / 2);
      const bool want = (v & want_bit) != 0 || (hungry && lower == top(v));
      next = pack(top(v), lower, want, v + tag_one);
    }
    tasklet* const t = slot(b).load(std::memory_order_relaxed);
    if (word_.compare_exchange_weak(v, next, std::memory_order_acq_rel, std::memory_order_acquire)) {
      published = gives;
      return t;
    }
  }
}

unsigned split_deque::steal(tasklet** out) noexcept {
  std::uint64_t v = word_.load(std::memory_order_acquire);
  for (int tries = 0; tries < 4; ++tries) {
    const unsigned open = static_cast<std::uint16_t>(split(v) - top(v));
    if (open == 0) {
      if ((v & want_bit) == 0) word_.fetch_or(want_bit, std::memory_order_acq_rel);
      return 0;
    }
    unsigned n = (open + 1) / 2;
    if (n > most_stolen) n = most_stolen;
    for (unsigned i = 0; i < n; ++i) out[i] = slot(top(v) + i).load(std::memory_order_relaxed);
    const bool want = (v & want_bit) != 0 || n == open;
    if (word_.compare_exchange_strong(v, pack(static_cast<std::uint16_t>(top(v) + n), split(v), want, v),
                                      std::memory_order_acq_rel, std::memory_order_acquire))
      return n;
  }
  return 0;
}

void split_deque::ask() noexcept {
  const std::uint64_t v = word_.load(std::memory_order_acquire);
  if (top(v) == split(v) && (v & want_bit) == 0) word_.fetch_or(want_bit, std::memory_order_acq_rel);
}

std::uint64_t split_deque::prepare_force() noexcept {
  std::uint64_t v = word_.load(std::memory_order_acquire);
  if (top(v) != split(v)) return 0;
  if ((v & want_bit) == 0) v = word_.fetch_or(want_bit, std::memory_order_acq_rel) | want_bit;
  return top(v) == split(v) ? v : 0; // never 0: want is set
}

bool split_deque::force(std::uint64_t v) noexcept {
  const int hidden = static_cast<std::int16_t>(bottom_.load(std::memory_order_acquire) - split(v));
  if (hidden <= 0) return false;
  const auto higher = static_cast<std::uint16_t>(split(v) + (hidden + 1) / 2);
  return word_.compare_exchange_strong(v, pack(top(v), higher, keep_want_ != 0, v + tag_one), std::memory_order_acq_rel,
                                       std::memory_order_relaxed);
}

} // namespace tern::detail
