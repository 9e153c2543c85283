// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Morton keys: places of a cube along a curve that visits each octree cell's bodies together.

#include <algorithm>
#include <cstdint>

namespace nbody {

inline constexpr int morton_levels = 21; ///< of the octree that the keys describe

/// The space that keys cover; what lies outside has the key of the nearest place within.
struct cube {
  double low[3] = {0, 0, 0};
  double side = 1;
};

/// Bit i of the 21 lowest becomes bit 3 i.
inline std::uint64_t spread_bits(std::uint64_t x) noexcept {
  x &= 0x1fffff;
  x = (x | x << 32) & 0x001f00000000ffffULL;
  x = (x | x << 16) & 0x001f0000ff0000ffULL;
  x = (x | x << 8) & 0x100f00f00f00f00fULL;
  x = (x | x << 4) & 0x10c30c30c30c30c3ULL;
  return (x | x << 2) & 0x1249249249249249ULL;
}

/// 63 bits; the three highest say in which eighth of the cube the place is.
inline std::uint64_t morton_key(const cube& in, double x, double y, double z) noexcept {
  constexpr double cells = 1 << morton_levels;
  const auto along = [&](double at, int d) {
    const double place = (at - in.low[d]) / in.side * cells;
    return place > 0 ? static_cast<std::uint64_t>(std::min(place, cells - 1)) : 0; // what is no number: the lowest
  };
  return spread_bits(along(x, 0)) << 2 | spread_bits(along(y, 1)) << 1 | spread_bits(along(z, 2));
}

} // namespace nbody
