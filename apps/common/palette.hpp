// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The colours of the pictures.

#include "apps/common/raster.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace apps {

inline constexpr colour paper{252, 251, 248}, ink{38, 46, 58}, faint{112, 120, 132}, sand{241, 234, 220},
    shore{74, 62, 48};

/// Hues that stay apart for colour-blind readers (after Okabe and Ito, and Tol), muted to sit
/// beside sand.
inline constexpr colour hues[] = {{61, 124, 168}, {232, 150, 84},  {86, 163, 136}, {146, 122, 186},
                                  {214, 183, 84}, {126, 190, 220}, {190, 94, 120}, {120, 134, 92}};
inline constexpr std::size_t hue_count = std::size(hues);

/// Viridis (Smith and van der Walt, 2015) at equal steps.
inline constexpr colour viridis[] = {{68, 1, 84},    {72, 26, 108},  {71, 47, 125},  {65, 68, 135},
                                     {57, 86, 140},  {49, 104, 142}, {42, 120, 142}, {35, 136, 142},
                                     {31, 152, 139}, {34, 168, 132}, {53, 183, 121}, {84, 197, 104},
                                     {122, 209, 81}, {165, 219, 54}, {210, 226, 27}, {253, 231, 37}};

/// \param t 0 (small: bright) to 1 (large: dark, as deep water is).
inline colour size_colour(double t) {
  double at = (1 - std::clamp(t, 0.0, 1.0)) * (std::size(viridis) - 1);
  auto i = std::min(static_cast<std::size_t>(at), std::size(viridis) - 2);
  return mix(viridis[i], viridis[i + 1], at - static_cast<double>(i));
}

inline colour rank_colour(std::size_t rank) {
  colour base = hues[rank % hue_count];
  switch (rank / hue_count % 3) { // more ranks than hues: lighter, then darker
  case 1:
    return mix(base, {255, 255, 255}, 0.4);
  case 2:
    return mix(base, {0, 0, 0}, 0.3);
  default:
    return base;
  }
}

/// Groups beside each other are mostly numbered beside each other, so steps of 3 in 7 shades tell
/// them apart.
inline colour group_shade(colour base, std::uint32_t group) {
  double shade = (static_cast<double>(group * 3ULL % 7) - 3) / 3;
  return shade > 0 ? mix(base, {255, 255, 255}, 0.20 * shade) : mix(base, {12, 20, 40}, -0.15 * shade);
}

} // namespace apps
