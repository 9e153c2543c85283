// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parts of arrays. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tern/mobile/layout/array_layout.hpp>

namespace tern::mobile::detail {

/// From `low` to before `high` in each dimension, every `step`th. Of a valid one low < high, step
/// >= 1, and high is the last index + 1.
struct array_box {
  std::array<std::int64_t, 3> low{0, 0, 0}, high{1, 1, 1}, step{1, 1, 1};

  /// All of the array.
  static array_box all_of(const array_layout& of) noexcept {
    array_box b;
    b.high = of.plan().size;
    return b;
  }
  bool is_all_of(const array_layout& of) const noexcept {
    return low == std::array<std::int64_t, 3>{} && high == of.plan().size &&
           step == std::array<std::int64_t, 3>{1, 1, 1};
  }
  std::int64_t count(std::size_t d) const noexcept { return (high[d] - low[d] - 1) / step[d] + 1; }
  std::int64_t count() const noexcept { return count(0) * count(1) * count(2); }
  bool contains(const std::array<std::int64_t, 3>& index, int dimensions) const noexcept {
    for (std::size_t d = 0; d < static_cast<std::size_t>(dimensions); ++d)
      if (index[d] < low[d] || index[d] >= high[d] || (index[d] - low[d]) % step[d] != 0) return false;
    return true;
  }
  /// Of the `n`th element in order, the linear index.
  std::int64_t linear(std::int64_t n, const array_layout& of) const noexcept {
    const auto dimensions = static_cast<std::size_t>(of.plan().dimensions);
    std::array<std::int64_t, 3> index{};
    for (std::size_t d = dimensions; d-- > 0;) {
      index[d] = low[d] + n % count(d) * step[d];
      n /= count(d);
    }
    std::int64_t at = 0;
    for (std::size_t d = 0; d < dimensions; ++d) at = at * of.plan().size[d] + index[d];
    return at;
  }
  /// The part of this box that these name, counted within it. \throws error(invalid_argument) for
  /// an empty one, one that goes outside, and steps below 1.
  array_box part(const array_layout& of, const std::array<std::int64_t, 3>& from, const std::array<std::int64_t, 3>& to,
                 const std::array<std::int64_t, 3>& by) const;
  /// \throws error(invalid_data) for one that is none of this array.
  void check(const array_layout& of) const;
};

} // namespace tern::mobile::detail

template <> inline constexpr bool tern::is_bitwise<tern::mobile::detail::array_box> = true;
