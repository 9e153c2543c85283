// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A hash table from object ids to what is known of them. Internal.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// Open addressing with linear probing in one array of 16 bytes a slot, at most seven eighths full: a look-up that
/// finds costs one cache miss, mostly. Erasing moves what follows back, so that there are no tombstones. Not
/// thread-safe. An Entry belongs to whoever entered it.
template <class Entry> class object_table {
public:
  Entry* find(object_id id) const noexcept {
    if (size_ == 0) return nullptr;
    for (std::size_t i = place_of(id.bits);; i = (i + 1) & mask_) {
      if (slots_[i].id == id.bits) return slots_[i].entry;
      if (slots_[i].id == 0) return nullptr;
    }
  }
  /// \pre it is not there, and is not null
  void insert(object_id id, Entry* entry) {
    if ((size_ + 1) * 8 > capacity() * 7) grow();
    put({id.bits, entry});
    ++size_;
  }
  /// \return whether it was there
  bool erase(object_id id) noexcept {
    if (size_ == 0) return false;
    std::size_t i = place_of(id.bits);
    for (; slots_[i].id != id.bits; i = (i + 1) & mask_)
      if (slots_[i].id == 0) return false;
    // What stands behind, and would not be found past a hole here, fills it.
    for (std::size_t j = (i + 1) & mask_; slots_[j].id != 0; j = (j + 1) & mask_)
      if (((j - place_of(slots_[j].id)) & mask_) >= ((j - i) & mask_)) slots_[std::exchange(i, j)] = slots_[j];
    slots_[i] = {};
    --size_;
    return true;
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return slots_ ? mask_ + 1 : 0; }
  /// The entry in slot `i`, or null. \pre i < capacity()
  Entry* at(std::size_t i) const noexcept { return slots_[i].entry; }

private:
  struct slot {
    std::uint64_t id = 0; ///< 0: free
    Entry* entry = nullptr;
  };
  // Fibonacci hashing: numbers of one rank follow each other, and the highest bits of the product depend on all.
  std::size_t place_of(std::uint64_t bits) const noexcept {
    return static_cast<std::size_t>((bits * 0x9e3779b97f4a7c15ull) >> shift_);
  }
  void put(slot s) noexcept {
    std::size_t i = place_of(s.id);
    while (slots_[i].id != 0) i = (i + 1) & mask_;
    slots_[i] = s;
  }
  void grow() {
    const std::size_t before = capacity(), now = before ? 2 * before : 8;
    auto old = std::exchange(slots_, std::make_unique<slot[]>(now));
    mask_ = now - 1;
    shift_ = 64 - std::countr_zero(now);
    for (std::size_t i = 0; i < before; ++i)
      if (old[i].id != 0) put(old[i]);
  }

  std::unique_ptr<slot[]> slots_;
  std::size_t size_ = 0, mask_ = 0;
  int shift_ = 0;
};

} // namespace tern::mobile::detail
