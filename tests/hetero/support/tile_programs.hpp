// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// In which order known algorithms use tiles. `add(x)` changes a tile, `mix(x, y)` changes y by x.

#include <cstddef>
#include <vector>

namespace tern::hetero::tile_programs {

/// As the steps of an LU factorization use n by n tiles.
template <class Tile, class Add, class Mix>
void factorize(const std::vector<Tile>& a, std::size_t n, Add&& add, Mix&& mix) {
  for (std::size_t k = 0; k < n; ++k) {
    add(a[k * n + k]);
    for (std::size_t j = k + 1; j < n; ++j) mix(a[k * n + k], a[k * n + j]);
    for (std::size_t i = k + 1; i < n; ++i) {
      mix(a[k * n + k], a[i * n + k]);
      for (std::size_t j = k + 1; j < n; ++j) {
        mix(a[i * n + k], a[i * n + j]);
        mix(a[k * n + j], a[i * n + j]);
      }
    }
  }
}

/// A product of n by n tiles: the last n * n of them get it.
template <class Tile, class Mix> void multiply(const std::vector<Tile>& a, std::size_t n, Mix&& mix) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < n; ++k) {
        mix(a[i * n + k], a[2 * n * n + i * n + j]);
        mix(a[n * n + k * n + j], a[2 * n * n + i * n + j]);
      }
}

} // namespace tern::hetero::tile_programs
