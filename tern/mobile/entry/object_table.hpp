// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A hash table from object ids to what is known of them. Internal.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// Open addressing with linear probing in one array of 16 bytes a slot, at most seven eighths full:
/// a look-up that finds costs one cache miss, mostly. Erasing moves what follows back, so that
/// there are no tombstones. A slot has one bit for callers that need nothing else of the entry. It
/// may have a number of 62 bits instead of an entry.
///
/// An Entry belongs to the caller that inserted it; its address is divisible by four. `Apart`: of
/// ids of one rank, numbers that differ by two to this power follow each other here, and four of
/// those share a cache line.
///
/// Thread-safety: one thread at a time, but `looks_marked` and `prefetch`, which any thread may
/// call at any time.
/// A change makes `changes_` odd, changes slots, and makes it even again; a look is good if the
/// number was even and has not changed meanwhile (a sequence lock: Boehm, "Can seqlocks get along
/// with programming language memory models?", MSPC 2012). Arrays that were too small are kept for
/// late lookers, if there may be any: in all, as much as the one in use.
template <class Entry, unsigned Apart> class object_table {
public:
  ~object_table() = default;
  object_table() = default;
  object_table(const object_table&) = delete;
  object_table& operator=(const object_table&) = delete;

  /// From now on all calls come from one thread.
  void has_one_thread() noexcept { one_thread_ = true; }
  /// \return null also if a number stands there.
  Entry* find(object_id id) const noexcept {
    const slot* const s = slot_of(id);
    return s ? entry_of(*s) : nullptr;
  }
  /// \pre it is not there, and is not null
  void insert(object_id id, Entry* entry, bool marked) {
    if ((size_ + 1) * 8 > capacity() * 7) grow();
    const changing now(*this);
    const auto word = reinterpret_cast<std::uintptr_t>(entry); // address: kept beside the mark, and nothing else
    put(*slots_.load(std::memory_order_relaxed), id.bits, word | marked);
    ++size_;
  }
  /// \return whether it was there
  bool erase(object_id id) noexcept {
    slot* const there = slot_of(id);
    if (!there) return false;
    const changing now(*this);
    array& a = *slots_.load(std::memory_order_relaxed);
    std::size_t i = static_cast<std::size_t>(there - a.slots.get());
    // What stands behind, and would not be found past a hole here, fills it.
    for (std::size_t j = (i + 1) & a.mask; id_of(a.slots[j]) != 0; j = (j + 1) & a.mask)
      if (((j - a.place_of(id_of(a.slots[j]))) & a.mask) >= ((j - i) & a.mask))
        set(a.slots[std::exchange(i, j)], id_of(a.slots[j]), word_of(a.slots[j]));
    set(a.slots[i], 0, 0);
    --size_;
    return true;
  }
  /// \pre it is there
  void mark(object_id id, bool marked) noexcept {
    slot& s = *slot_of(id);
    s.word.store((word_of(s) & ~std::uintptr_t{1}) | marked, std::memory_order_relaxed); // one word: seen whole
  }
  /// The number that stands for an entry. \pre it is there; number < 2^62
  void put_number(object_id id, std::uint64_t number) noexcept {
    slot_of(id)->word.store(number << 2 | is_number, std::memory_order_relaxed); // one word: seen whole
  }
  /// An entry, not marked, for a number. \pre it is there
  void put_entry(object_id id, Entry* entry) noexcept {
    slot_of(id)->word.store(reinterpret_cast<std::uintptr_t>(entry), std::memory_order_relaxed); // address: as above
  }
  std::optional<std::uint64_t> number(object_id id) const noexcept {
    const slot* const s = slot_of(id);
    return s ? number_of(*s) : std::nullopt;
  }
  /// The same of slot `i`, with the id. \pre i < capacity()
  std::optional<std::pair<object_id, std::uint64_t>> number_at(std::size_t i) const noexcept {
    const slot& s = slots_.load(std::memory_order_relaxed)->slots[i];
    const auto n = number_of(s);
    if (!n) return {};
    return std::pair(object_id(id_of(s)), *n);
  }
  /// Brings the slot near, if it is where it belongs. Looks at nothing. Any thread.
  void prefetch(object_id id) const noexcept {
    // acquire: as in looks_marked
    if (const array* const a = slots_.load(std::memory_order_acquire))
      __builtin_prefetch(&a->slots[a->place_of(id.bits)]);
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept {
    const array* const a = slots_.load(std::memory_order_relaxed);
    return a ? a->mask + 1 : 0;
  }
  /// The entry in slot `i`, or null. \pre i < capacity()
  Entry* at(std::size_t i) const noexcept { return entry_of(slots_.load(std::memory_order_relaxed)->slots[i]); }

  /// Takes all out, with their ids.
  void clear() noexcept {
    array* const a = slots_.load(std::memory_order_relaxed);
    if (!a) return;
    const changing now(*this);
    for (std::size_t i = 0; i <= a->mask; ++i) set(a->slots[i], 0, 0);
    size_ = 0;
  }

  /// Takes the entry out of slot `i`; the slot's id stays. For the end, when nothing is looked up
  /// any more.
  void forget(std::size_t i) noexcept {
    slots_.load(std::memory_order_relaxed)->slots[i].word.store(0, std::memory_order_relaxed);
  }

  /// Is it there, and marked? Any thread. \return nothing if others change too much meanwhile: ask
  /// under the lock.
  std::optional<bool> looks_marked(object_id id) const noexcept {
    for (int tries = 0; tries < 4; ++tries) {
      // acquire: slots are read after it, and what they had when it was even
      const std::uint32_t before = changes_.load(std::memory_order_acquire);
      if (before & 1) continue;
      bool marked = false;
      // acquire: the array is read as it was made
      if (const array* const a = slots_.load(std::memory_order_acquire))
        if (const slot* const s = a->find(id.bits)) marked = word_of(*s) & 1;
      std::atomic_thread_fence(std::memory_order_acquire); // slots are read before it is looked at again
      if (changes_.load(std::memory_order_relaxed) == before) return marked;
    }
    return {};
  }

private:
  struct slot {
    std::atomic<std::uint64_t> id{0};    ///< 0: free
    std::atomic<std::uintptr_t> word{0}; ///< the entry, and in the lowest bit whether it is marked
  };
  static_assert(sizeof(slot) == 16);
  static std::uint64_t id_of(const slot& s) noexcept { return s.id.load(std::memory_order_relaxed); }
  static std::uintptr_t word_of(const slot& s) noexcept { return s.word.load(std::memory_order_relaxed); }
  static constexpr std::uintptr_t is_number = 2; // a bit of the word, which an entry's address has not
  static Entry* entry_of(const slot& s) noexcept {
    const std::uintptr_t word = word_of(s);
    return (word & is_number) ? nullptr : reinterpret_cast<Entry*>(word & ~std::uintptr_t{1});
  }
  static std::optional<std::uint64_t> number_of(const slot& s) noexcept {
    if ((word_of(s) & is_number) == 0) return {};
    return word_of(s) >> 2;
  }
  static void set(slot& s, std::uint64_t id, std::uintptr_t word) noexcept {
    s.id.store(id, std::memory_order_relaxed);
    s.word.store(word, std::memory_order_relaxed);
  }

  static constexpr unsigned line = 2; // four slots, as a power of two
  struct array {
    explicit array(std::size_t n)
        : mask(n - 1), shift(64 - std::countr_zero(n >> line)), slots(std::make_unique<slot[]>(n)) {}
    const std::size_t mask;
    const int shift;
    const std::unique_ptr<slot[]> slots;
    // Fibonacci hashing of what neighbours have in common: the highest bits of the product depend
    // on all.
    std::size_t place_of(std::uint64_t bits) const noexcept {
      const std::uint64_t row = (bits >> (Apart + line)) * 0x9e3779b97f4a7c15ull;
      return static_cast<std::size_t>(row >> shift) << line | ((bits >> Apart) & ((1u << line) - 1));
    }
    slot* find(std::uint64_t bits) const noexcept {
      std::size_t i = place_of(bits);
      for (std::size_t n = 0; n <= mask; ++n, i = (i + 1) & mask) { // bounded: a reader may see half of a change
        const std::uint64_t there = id_of(slots[i]);
        if (there == bits) return &slots[i];
        if (there == 0) break;
      }
      return nullptr;
    }
  };
  class changing {
  public:
    explicit changing(object_table& of) noexcept : changes_(of.changes_) {
      changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release); // it is odd before any slot changes
    }
    ~changing() { // release: slots have changed before it is even
      changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    changing(const changing&) = delete;
    changing& operator=(const changing&) = delete;

  private:
    std::atomic<std::uint32_t>& changes_;
  };

  slot* slot_of(object_id id) const noexcept {
    const array* const a = slots_.load(std::memory_order_relaxed);
    return a ? a->find(id.bits) : nullptr;
  }
  static void put(array& a, std::uint64_t id, std::uintptr_t word) noexcept {
    std::size_t i = a.place_of(id);
    while (id_of(a.slots[i]) != 0) i = (i + 1) & a.mask;
    set(a.slots[i], id, word);
  }
  void grow() {
    arrays_.push_back(std::make_unique<array>(capacity() ? 2 * capacity() : 8));
    array& now = *arrays_.back();
    if (const array* const old = slots_.load(std::memory_order_relaxed))
      for (std::size_t i = 0; i <= old->mask; ++i)
        if (id_of(old->slots[i]) != 0) put(now, id_of(old->slots[i]), word_of(old->slots[i]));
    slots_.store(&now, std::memory_order_release); // a thread that sees it sees what was put there
    if (one_thread_) arrays_.erase(arrays_.begin(), arrays_.end() - 1);
  }

  std::atomic<array*> slots_{nullptr}; ///< the last of `arrays_`
  std::atomic<std::uint32_t> changes_{0};
  std::size_t size_ = 0;
  bool one_thread_ = false;
  std::vector<std::unique_ptr<array>> arrays_;
};

} // namespace tern::mobile::detail
