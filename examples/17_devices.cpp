// SPDX-License-Identifier: Apache-2.0
// Several devices: heat spreads on a grid that is cut into stripes. Each stripe needs one row of
// each neighbour, its halo.
// With two simulated devices: --tern-hetero-devices fake --tern-hetero-fake 2
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(heat)
// `in` includes the halo: one row above and one below, except at the border. Rows are whole:
// they are contiguous.
TERN_KERNEL(spread, int columns, int rows, int above, int below, TERN_GLOBAL const double* in,
            TERN_GLOBAL double* out) {
  TERN_REGION_IN(columns, rows, 1) {
    const int x = item.x, y = item.y;
    TERN_GLOBAL const double* const row = in + (y + above) * columns;
    const double left = x > 0 ? row[x - 1] : row[x], right = x + 1 < columns ? row[x + 1] : row[x];
    const double up = y > 0 || above ? row[x - columns] : row[x];
    const double down = y + 1 < rows || below ? row[x + columns] : row[x];
    out[y * columns + x] = row[x] + 0.2 * (left + right + up + down - 4 * row[x]);
  };
}
TERN_KERNELS_END(heat)

constexpr int size = 200, stripe = 25, steps = 50;

// The same result, computed without tasks.
std::vector<double> expected() {
  std::vector<double> now(size * size, 0.0), next = now;
  now[100 * size + 100] = 1000;
  for (int step = 0; step < steps; ++step) {
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        const auto at = [&](int i, int j) {
          return now[std::clamp(i, 0, size - 1) * size + std::clamp(j, 0, size - 1)];
        };
        next[y * size + x] =
            at(y, x) + 0.2 * (at(y, x - 1) + at(y, x + 1) + at(y - 1, x) + at(y + 1, x) - 4 * at(y, x));
      }
    std::swap(now, next);
  }
  return now;
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::hetero_object<double, 2> now({size, size}, 0.0), next({size, size}, 0.0);
    now.host(tern::access_mode::read_write).get()(100, 100) = 1000;
    now.tiles({stripe, size});
    next.tiles({stripe, size});
    for (int step = 0; step < steps; ++step) {
      for (int y = 0; y < size; y += stripe) {
        const auto out = next.rows(y, y + stripe), in = now.rows(y, y + stripe).halo(1);
        tern::submit(heat::spread, tern::items(size, stripe), size, stripe, y > 0 ? 1 : 0, y + stripe < size ? 1 : 0,
                     tern::read(in), tern::write(out));
      }
      std::swap(now, next);
    }
    auto result = now.host(tern::access_mode::read).get();
    const std::vector<double> right = expected();
    double worst = 0; // devices differ in the last bits
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j) worst = std::max(worst, std::abs(result(i, j) - right[i * size + j]));
    if (tern::rank() == 0) {
      std::printf("in the middle %.3f, wrong by %.1g\n", result(100, 100), worst);
      const auto done = tern::hetero::count();
      for (const auto& d : done.devices)
        std::printf("%s: %llu tasks\n", d.id.c_str(), static_cast<unsigned long long>(d.tasks));
    }
    return worst < 1e-9 ? 0 : 1;
  });
}
