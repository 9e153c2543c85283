// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/grid/serial.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace jacobi3d {

template <class T> serial_result<T> run_serially(const cells& n, std::int64_t iterations, double alpha_given) {
  // A layer of cells around the grid, which never change.
  const std::int64_t row = n[0] + 2, plane = row * (n[1] + 2);
  const auto at = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<std::size_t>((z + 1) * plane + (y + 1) * row + x + 1);
  };
  std::vector<T> now(static_cast<std::size_t>(plane * (n[2] + 2)));
  for (std::int64_t z = -1; z <= n[2]; ++z)
    for (std::int64_t y = -1; y <= n[1]; ++y)
      for (std::int64_t x = -1; x <= n[0]; ++x) {
        const std::int64_t place[3] = {x, y, z};
        for (int s = 0; s < side_count; ++s) {
          const auto d = static_cast<std::size_t>(s / 2);
          if (place[d] == (s % 2 == 0 ? -1 : n[d])) now[at(x, y, z)] = static_cast<T>(beyond(s));
        }
      }
  for (std::int64_t z = 0; z < n[2]; ++z)
    for (std::int64_t y = 0; y < n[1]; ++y) fill_row(n, 0, y, z, n[0], &now[at(0, y, z)]);
  std::vector<T> next = now;
  const T alpha = static_cast<T>(alpha_given), beta = static_cast<T>((1 - alpha_given) / 6);
  serial_result<T> result;
  for (std::int64_t k = 0; k < iterations; ++k) {
    for (std::int64_t z = 0; z < n[2]; ++z)
      for (std::int64_t y = 0; y < n[1]; ++y) {
        const T* const c = &now[at(0, y, z)];
        T* const to = &next[at(0, y, z)];
        for (std::int64_t x = 0; x < n[0]; ++x)
          to[x] = alpha * c[x] +
                  beta * (((((c[x - 1] + c[x + 1]) + c[x - row]) + c[x + row]) + c[x - plane]) + c[x + plane]);
      }
    if (k == iterations - 1)
      for (std::size_t i = 0; i < now.size(); ++i)
        result.change = std::max(result.change, static_cast<double>(std::fabs(next[i] - now[i])));
    std::swap(now, next);
  }
  for (std::int64_t z = 0; z < n[2]; ++z)
    for (std::int64_t y = 0; y < n[1]; ++y)
      result.values.insert(result.values.end(), &now[at(0, y, z)], &now[at(0, y, z)] + n[0]);
  return result;
}

template serial_result<double> run_serially(const cells&, std::int64_t, double);
template serial_result<float> run_serially(const cells&, std::int64_t, double);

} // namespace jacobi3d
