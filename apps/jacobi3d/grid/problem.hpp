// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is computed, and how results are compared: cells, what they hold at first, what is around
/// them, and the sum over all their bits. Whole numbers only, so that all programs on all machines
/// begin with the same bits; the benchmark's rivals include this file.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace jacobi3d {

/// Numbers along x, y and z. In memory x runs fastest.
using cells = std::array<std::int64_t, 3>;
inline std::int64_t count(const cells& n) noexcept { return n[0] * n[1] * n[2]; }

/// Sides of a box: 2 d is the low one in dimension d, 2 d + 1 the high one.
inline constexpr int side_count = 6;
constexpr int opposite(int side) noexcept { return side ^ 1; }
/// Cells of one layer at that side.
inline std::int64_t face_size(const cells& n, int side) noexcept {
  return count(n) / n[static_cast<std::size_t>(side / 2)];
}

/// What cells beyond the grid hold, at all times: a hot plate lies below.
inline double beyond(int side) noexcept { return side == 4 ? 1 : 0; }

struct hot_ball {
  std::int64_t x, y, z, radius; ///< in units of 1/8192 of the grid's side
  double value;
};
/// The balls that are hot at first.
inline const std::array<hot_ball, 36>& balls() noexcept {
  static const std::array<hot_ball, 36> all = [] {
    std::array<hot_ball, 36> made{};
    std::uint64_t state = 20261126;
    const auto below = [&](std::int64_t end) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(end));
    };
    for (hot_ball& b : made) {
      b.x = below(8192);
      b.y = below(8192);
      b.z = 1500 + below(6692);
      b.radius = 350 + below(1100);
      b.value = static_cast<double>(6 + below(11)) / 16;
    }
    return made;
  }();
  return all;
}

/// What the cells of a row hold at first. \param n the whole grid. \param x of the first cell.
template <class T>
void fill_row(const cells& n, std::int64_t x, std::int64_t y, std::int64_t z, std::int64_t length, T* to) {
  const auto unit = [](std::int64_t at, std::int64_t of) { return (2 * at + 1) * 4096 / of; };
  for (std::int64_t i = 0; i < length; ++i) to[i] = 0;
  for (const hot_ball& b : balls()) {
    const std::int64_t dy = unit(y, n[1]) - b.y, dz = unit(z, n[2]) - b.z;
    const std::int64_t left = b.radius * b.radius - dy * dy - dz * dz;
    if (left < 0) continue;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t dx = unit(x + i, n[0]) - b.x;
      if (dx * dx <= left) to[i] = static_cast<T>(b.value);
    }
  }
}

/// A sum over the bits of cells that lie one behind the other. Sums of all parts of a grid, in any
/// order, are that of the grid. \param first the first cell's number in the whole grid.
template <class T> std::uint64_t hash_of(const T* values, std::int64_t length, std::int64_t first) noexcept {
  using bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < length; ++i) { // Steele and others' SplitMix64 (2014)
    std::uint64_t h = std::bit_cast<bits>(values[i]) + static_cast<std::uint64_t>(first + i + 1) * 0x9e3779b97f4a7c15U;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9U;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebU;
    sum += h ^ (h >> 31);
  }
  return sum;
}

} // namespace jacobi3d
