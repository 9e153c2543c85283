// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the rivals have in common: their command line, and a rank's box of the grid with a layer of
/// cells around it.
///
///     bench_jacobi3d_X N ITERATIONS     a cube of N cells a side
///
/// Rank 0 prints one JSON object: seconds for all iterations, and the hash of the result.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "apps/jacobi3d/grid/problem.hpp"

namespace tern::bench::jacobi3d {

using namespace ::jacobi3d;

inline constexpr double alpha = 0.25, beta = (1 - alpha) / 6;

struct job {
  std::int64_t n = 0, iterations = 0;
};
inline job job_of(int argc, char** argv) {
  if (argc < 3) throw std::runtime_error("usage: N ITERATIONS");
  const job j{std::atoll(argv[1]), std::atoll(argv[2])};
  if (j.n < 1 || j.iterations < 0) throw std::runtime_error("N is at least 1, ITERATIONS at least 0");
  return j;
}

inline void print(double seconds, std::uint64_t hash) {
  std::printf("{\"seconds\": %.9f, \"hash\": \"%016llx\"}\n", seconds, static_cast<unsigned long long>(hash));
  std::fflush(stdout);
}

/// Where the cells of a layer lie in a box: cell (i, k) of `fast` times `slow` ones at
/// `first + i * fast_step + k * slow_step`.
struct layer_place {
  int first = 0, fast = 0, fast_step = 0, slow = 0, slow_step = 0;
};

/// A box of the grid.
struct box {
  cells whole, first, size;
  std::int64_t row() const { return size[0] + 2; }
  std::int64_t plane() const { return row() * (size[1] + 2); }
  std::int64_t room() const { return plane() * (size[2] + 2); }
  std::int64_t at(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return (z + 1) * plane() + (y + 1) * row() + x + 1;
  }
  /// Its part number `index` of `parts` in each dimension.
  static box part(const cells& whole, const cells& index, const cells& parts) {
    box b{whole, {}, {}};
    for (std::size_t d = 0; d < 3; ++d) {
      b.first[d] = whole[d] * index[d] / parts[d];
      b.size[d] = whole[d] * (index[d] + 1) / parts[d] - b.first[d];
    }
    return b;
  }
  /// What lies beyond the grid, and the first cells. \param c has `room()` elements.
  void fill(double* c) const {
    for (std::int64_t i = 0; i < room(); ++i) c[i] = 0;
    for (int s = 0; s < side_count; ++s) {
      const auto d = static_cast<std::size_t>(s / 2);
      if (s % 2 == 0 ? first[d] == 0 : first[d] + size[d] == whole[d])
        each(s, 1, [&](std::int64_t i, std::int64_t) { c[i] = beyond(s); });
    }
    for (std::int64_t z = 0; z < size[2]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y)
        fill_row(whole, first[0], first[1] + y, first[2] + z, size[0], c + at(0, y, z));
  }
  /// Calls `f(place, k)` for the k-th cell of the outermost layer at a side (`out` 0), or of the
  /// one beyond (1).
  template <class F> void each(int side, int out, F f) const {
    const auto d = static_cast<std::size_t>(side / 2);
    cells low{0, 0, 0}, high = size;
    low[d] = side % 2 == 0 ? -out : size[d] - 1 + out;
    high[d] = low[d] + 1;
    std::int64_t k = 0;
    for (std::int64_t z = low[2]; z < high[2]; ++z)
      for (std::int64_t y = low[1]; y < high[1]; ++y)
        for (std::int64_t x = low[0]; x < high[0]; ++x) f(at(x, y, z), k++);
  }
  /// The same cells, in the same order, for kernels.
  layer_place layer(int side, int out) const {
    const auto d = static_cast<std::size_t>(side / 2), fast = d == 0 ? std::size_t{1} : 0,
               slow = d == 2 ? std::size_t{1} : 2;
    const std::int64_t steps[3] = {1, row(), plane()};
    cells edge{0, 0, 0};
    edge[d] = side % 2 == 0 ? -out : size[d] - 1 + out;
    const auto number = [](std::int64_t n) { return static_cast<int>(n); };
    return {number(at(edge[0], edge[1], edge[2])), number(size[fast]), number(steps[fast]), number(size[slow]),
            number(steps[slow])};
  }
  std::uint64_t hash(const double* c) const {
    std::uint64_t sum = 0;
    for (std::int64_t z = 0; z < size[2]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y)
        sum += hash_of(c + at(0, y, z), size[0], ((first[2] + z) * whole[1] + first[1] + y) * whole[0] + first[0]);
    return sum;
  }
};

} // namespace tern::bench::jacobi3d
