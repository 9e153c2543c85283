// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// What a picture says of a mesh, and where it looks closer.

#include "apps/mesh/domain/domain.hpp"
#include "apps/mesh/output/gathered.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace mesh {

/// What the picture says about the mesh, from one pass over it.
struct summary {
  double smallest = 1, largest = 1, fine = 1; ///< longest edges, km; `fine`: 5 % of the triangles are smaller
  double bar_low = 1, bar_high = 2;           ///< ends of the colour bar: all but 1/1000 at each end
  std::size_t ranks = 0, groups = 0;
  std::vector<std::size_t> by_rank;
  std::vector<float> edges;           ///< the longest of each triangle, km
  std::vector<std::size_t> histogram; ///< of edges, 32 bins to a factor of two, from 2^-16 km

  explicit summary(const gathered_mesh& m);

  static double bin_start(std::size_t bin) { return std::exp2(static_cast<double>(bin) / 32 - 16); }
  static std::size_t bin(double edge) {
    return static_cast<std::size_t>(std::clamp((std::log2(static_cast<float>(edge)) + 16) * 32, 0.0F, bins - 1.0F));
  }

private:
  static constexpr std::size_t bins = 1024;
};

/// Where a magnifier of `side` km shows most: coast, sea, many triangles, ranks and groups that
/// meet.
point interesting_place(const gathered_mesh& m, const domain& sea, double side);

} // namespace mesh
