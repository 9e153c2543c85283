// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Half-open ranges of indices in one, two and three dimensions: what parallel loops run over
/// and hand out.

#include <tern/base/language/compiler.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tern {

/// [begin, end) of an integer type. Usable in a range-based for.
template <std::integral Index> class range {
public:
  class iterator {
  public:
    explicit constexpr iterator(Index i) noexcept : i_(i) {}
    constexpr Index operator*() const noexcept { return i_; }
    constexpr iterator& operator++() noexcept {
      ++i_;
      return *this;
    }
    constexpr bool operator==(const iterator&) const noexcept = default;

  private:
    Index i_;
  };

  constexpr range(Index first, Index last) noexcept : first_(first), last_(last) {}
  constexpr iterator begin() const noexcept { return iterator(first_); }
  constexpr iterator end() const noexcept { return iterator(last_); }
  constexpr Index first() const noexcept { return first_; }
  constexpr Index last() const noexcept { return last_; } ///< one past the last index
  constexpr std::size_t size() const noexcept {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(last_) - static_cast<std::uint64_t>(first_));
  }
  constexpr bool empty() const noexcept { return first_ == last_; }
  constexpr bool operator==(const range&) const noexcept = default;

private:
  Index first_, last_;
};

/// A box of indices; dimension 0 varies slowest, the last one fastest (C order).
template <std::integral Index, std::size_t Dimensions> struct box_range {
  std::array<range<Index>, Dimensions> dimension;
  constexpr const range<Index>& operator[](std::size_t d) const noexcept { return dimension[d]; }
  constexpr bool operator==(const box_range&) const noexcept = default;
};

/// `range2<int>{{y0, y1}, {x0, x1}}`
template <std::integral Index = std::int64_t> struct range2 : box_range<Index, 2> {
  constexpr range2(range<Index> slow, range<Index> fast) noexcept : box_range<Index, 2>{{slow, fast}} {}
};
/// `range3<int>{{z0, z1}, {y0, y1}, {x0, x1}}`
template <std::integral Index = std::int64_t> struct range3 : box_range<Index, 3> {
  constexpr range3(range<Index> slowest, range<Index> middle, range<Index> fastest) noexcept
      : box_range<Index, 3>{{slowest, middle, fastest}} {}
};

} // namespace tern
