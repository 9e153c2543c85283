// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Values that other ranks know by number.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace tern::net::detail {

/// Values by numbers that are never 0: `generation << 32 | index`. An index is used again with
/// another generation, so that a number which is out of date, or was made up, finds nothing. Values
/// stay where they are. Not thread-safe.
///
/// It takes memory in `grow` alone, which may be prepared without the lock that protects the rest:
///
///     while (table.full()) { auto capacity = table.capacity(); unlock; auto more = table.make(capacity); lock;
///     table.grow(capacity, more);
///     }
template <class T> class id_table {
  struct slot {
    T value{};
    std::uint32_t generation = 1;
    std::uint32_t next_free = none;
    bool used = false;
  };

public:
  using chunk = std::unique_ptr<slot[]>;

  std::size_t size() const noexcept { return size_; }
  std::uint32_t capacity() const noexcept { return capacity_; }
  bool full() const noexcept { return free_ == none && touched_ == capacity_; }

  /// What `grow` wants of one that has this `capacity`.
  static chunk make(std::uint32_t capacity) { return std::make_unique<slot[]>(capacity ? capacity : smallest); }
  /// Does nothing if another thread has been faster.
  void grow(std::uint32_t capacity, chunk& more) noexcept {
    if (capacity != capacity_) return;
    chunks_[place(capacity_).first] = std::move(more);
    capacity_ += capacity_ ? capacity_ : smallest;
  }

  /// \pre not full.
  std::pair<std::uint64_t, T&> take() noexcept {
    std::uint32_t index = free_;
    if (index != none)
      free_ = at(index).next_free;
    else
      index = touched_++;
    slot& s = at(index);
    s.used = true;
    ++size_;
    return {std::uint64_t{s.generation} << 32 | index, s.value};
  }
  /// Null if the number is of nothing that is there.
  T* find(std::uint64_t number) noexcept {
    const auto index = static_cast<std::uint32_t>(number);
    if (index >= touched_) return nullptr;
    slot& s = at(index);
    return s.used && s.generation == number >> 32 ? &s.value : nullptr;
  }
  /// \pre `number` is of a value, which has been emptied.
  void free(std::uint64_t number) noexcept {
    const auto index = static_cast<std::uint32_t>(number);
    slot& s = at(index);
    s.used = false;
    if (++s.generation == 0) s.generation = 1; // 0 stands for no number
    s.next_free = free_;
    free_ = index;
    --size_;
  }
  /// `f(number, value)` for all, by index.
  template <class F> void for_each(F&& f) {
    for (std::uint32_t i = 0; i < touched_; ++i)
      if (slot& s = at(i); s.used) f(std::uint64_t{s.generation} << 32 | i, s.value);
  }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0}, smallest = 64;

  // The first chunk has `smallest` slots, each later one as many as all before it.
  static std::pair<std::size_t, std::size_t> place(std::uint32_t index) noexcept {
    const auto number = static_cast<std::size_t>(std::bit_width(index / smallest));
    return {number, number ? index - (std::size_t{smallest} << (number - 1)) : index};
  }
  slot& at(std::uint32_t index) noexcept {
    const auto [number, offset] = place(index);
    return chunks_[number][offset];
  }

  std::array<chunk, 27> chunks_{};
  std::uint32_t capacity_ = 0, touched_ = 0, free_ = none;
  std::size_t size_ = 0;
};

} // namespace tern::net::detail
