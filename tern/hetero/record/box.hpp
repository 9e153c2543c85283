// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Boxes of elements: what of an object is meant. Internal.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tern::hetero::detail {

/// The elements from `low` up to but not including `high`, in three dimensions of which the last
/// runs fastest in memory; an object of fewer has 1 in the first ones. Empty ones do not occur.
struct box {
  std::array<std::int32_t, 3> low{0, 0, 0}, high{1, 1, 1};

  /// Number by number: a library's comparison of so few bytes takes three times as long.
  friend bool operator==(const box& a, const box& b) noexcept {
    return a.low[0] == b.low[0] && a.low[1] == b.low[1] && a.low[2] == b.low[2] && a.high[0] == b.high[0] &&
           a.high[1] == b.high[1] && a.high[2] == b.high[2];
  }
  std::int64_t extent(std::size_t d) const noexcept { return std::int64_t{high[d]} - low[d]; }
  std::int64_t size() const noexcept { return extent(0) * extent(1) * extent(2); }
  bool contains(const box& b) const noexcept {
    for (std::size_t d = 0; d < 3; ++d)
      if (b.low[d] < low[d] || b.high[d] > high[d]) return false;
    return true;
  }
  bool meets(const box& b) const noexcept {
    for (std::size_t d = 0; d < 3; ++d)
      if (b.low[d] >= high[d] || b.high[d] <= low[d]) return false;
    return true;
  }
  /// \pre they meet.
  box common(const box& b) const noexcept {
    box c;
    for (std::size_t d = 0; d < 3; ++d) {
      c.low[d] = std::max(low[d], b.low[d]);
      c.high[d] = std::min(high[d], b.high[d]);
    }
    return c;
  }
  /// Calls `f` for each box of what is left of this one without `b`, six at most. \pre they meet.
  template <class F> void without(const box& b, F&& f) const {
    box rest = *this;
    for (std::size_t d = 0; d < 3; ++d) {
      if (rest.low[d] < b.low[d]) {
        box piece = rest;
        piece.high[d] = rest.low[d] = b.low[d];
        f(piece);
      }
      if (rest.high[d] > b.high[d]) {
        box piece = rest;
        piece.low[d] = rest.high[d] = b.high[d];
        f(piece);
      }
    }
  }
};

/// Where the elements of a box lie: row after row, slice after slice, so many bytes apart.
struct layout {
  std::size_t element = 1, pitch = 1, slice = 1;
  /// Of `of`, packed.
  static layout packed(const box& of, std::size_t element) noexcept {
    const std::size_t row = static_cast<std::size_t>(of.extent(2)) * element;
    return {element, row, row * static_cast<std::size_t>(of.extent(1))};
  }
  /// From the first byte of `of` to that of `part`.
  std::size_t offset(const box& of, const box& part) const noexcept {
    return static_cast<std::size_t>(part.low[0] - of.low[0]) * slice +
           static_cast<std::size_t>(part.low[1] - of.low[1]) * pitch +
           static_cast<std::size_t>(part.low[2] - of.low[2]) * element;
  }
};

/// Copies the elements of `part`, whose first one is at `from` in memory that is laid out as `f`,
/// to where it is to be at `to`, as `t`. \pre elements of the same size.
inline void copy_part(const box& part, const std::byte* from, const layout& f, std::byte* to,
                      const layout& t) noexcept {
  const auto slices = static_cast<std::size_t>(part.extent(0)), rows = static_cast<std::size_t>(part.extent(1)),
             row = static_cast<std::size_t>(part.extent(2)) * f.element;
  const auto dense = [&](const layout& l) {
    return (rows == 1 || l.pitch == row) && (slices == 1 || l.slice == row * rows);
  };
  if (dense(f) && dense(t)) {
    if (const std::size_t bytes = row * rows * slices; bytes != 0)
      std::memcpy(to, from, bytes); // else: perhaps no memory
    return;
  }
  for (std::size_t z = 0; z < slices; ++z)
    for (std::size_t y = 0; y < rows; ++y)
      std::memcpy(to + z * t.slice + y * t.pitch, from + z * f.slice + y * f.pitch, row);
}

} // namespace tern::hetero::detail
