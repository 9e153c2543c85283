// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/job/plan.hpp"

namespace jacobi3d {

int rank_of_block(const tern::indices<3>& at, const tern::extents<3>& blocks, int ranks) {
  tern::extents<3> best{}; // ranks along z, y, x
  std::int64_t least = 0;
  for (std::int64_t z = 1; z <= ranks; ++z)
    for (std::int64_t y = 1; z * y <= ranks; ++y) {
      const std::int64_t x = ranks / (z * y);
      if (z * y * x != ranks || blocks[0] % z != 0 || blocks[1] % y != 0 || blocks[2] % x != 0) continue;
      const std::int64_t a = blocks[0] / z, b = blocks[1] / y, c = blocks[2] / x;
      // Its surface if blocks are cubes, times its surface if the grid is one. How many cells a
      // block has is not known.
      const std::int64_t surface = (a * b + b * c + a * c) * (z + y + x);
      if (least != 0 && surface > least) continue; // of equal ones, the one with most ranks along z: whole planes
      least = surface;
      best = {z, y, x};
    }
  if (least == 0) {
    const std::int64_t all = blocks[0] * blocks[1] * blocks[2];
    return static_cast<int>(((at[0] * blocks[1] + at[1]) * blocks[2] + at[2]) * ranks / all);
  }
  const auto part = [&](std::size_t d) { return at[d] / (blocks[d] / best[d]); };
  return static_cast<int>((part(0) * best[1] + part(1)) * best[2] + part(2));
}

} // namespace jacobi3d
