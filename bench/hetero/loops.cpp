// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the kernels (kernels.hpp) compute as loops in OpenMP, for this very machine
/// (-march=native).

#include "bench/hetero/contestant.hpp"
#include "bench/hetero/problems.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <omp.h>

namespace {

using namespace tern::bench::hetero;

void multiply(multiplication& m) {
  const int n = m.n;
  const double* __restrict a = m.a.data(), * __restrict b = m.b.data();
  double* __restrict c = m.c.data();
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) c[i * n + j] = 0;
    for (int k = 0; k < n; ++k) {
      const double one = a[i * n + k];
#pragma omp simd
      for (int j = 0; j < n; ++j) c[i * n + j] += one * b[k * n + j];
    }
  }
}

template <int Tile> void multiply_tiles(multiplication& m) {
  const int n = m.n;
  const double* __restrict a = m.a.data(), * __restrict b = m.b.data();
  double* __restrict c = m.c.data();
#pragma omp parallel for collapse(2) schedule(static)
  for (int i = 0; i < n; i += Tile)
    for (int j = 0; j < n; j += Tile) {
      alignas(64) std::array<std::array<double, Tile>, Tile> sum{};
      for (int k = 0; k < n; k += Tile)
        for (int y = 0; y < Tile; ++y)
          for (int z = 0; z < Tile; ++z) {
            const double one = a[(i + y) * n + k + z];
#pragma omp simd
            for (int x = 0; x < Tile; ++x) sum[y][x] += one * b[(k + z) * n + j + x];
          }
      for (int y = 0; y < Tile; ++y)
        for (int x = 0; x < Tile; ++x) c[(i + y) * n + j + x] = sum[y][x];
    }
}

/// The same with four products for each sum.
template <int Tile> void multiply_tiles_by_four(multiplication& m) {
  const int n = m.n;
  const double* __restrict a = m.a.data(), * __restrict b = m.b.data();
  double* __restrict c = m.c.data();
#pragma omp parallel for collapse(2) schedule(static)
  for (int i = 0; i < n; i += Tile)
    for (int j = 0; j < n; j += Tile) {
      alignas(64) std::array<std::array<double, Tile>, Tile> sum{};
      for (int k = 0; k < n; k += Tile)
        for (int z = k; z < k + Tile; z += 4)
          for (int y = 0; y < Tile; ++y) {
            const double* const four = a + (i + y) * n + z;
            const double* const rows = b + z * n + j;
#pragma omp simd
            for (int x = 0; x < Tile; ++x)
              sum[y][x] = sum[y][x] + four[0] * rows[x] + four[1] * rows[n + x] + four[2] * rows[2 * n + x] +
                          four[3] * rows[3 * n + x];
          }
      for (int y = 0; y < Tile; ++y)
        for (int x = 0; x < Tile; ++x) c[(i + y) * n + j + x] = sum[y][x];
    }
}

void smooth(seven_points& s) {
  const int n = s.n, slice = n * n;
  const double* __restrict in = s.in.data();
  double* __restrict out = s.out.data();
#pragma omp parallel for collapse(2) schedule(static)
  for (int z = 1; z < n - 1; ++z)
    for (int y = 1; y < n - 1; ++y) {
#pragma omp simd
      for (int x = 1; x < n - 1; ++x) {
        const int i = z * slice + y * n + x;
        out[i] = seven_points::centre * in[i] +
                 seven_points::side * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - slice] + in[i + slice]);
      }
    }
}

void attract(pull& p) {
  const int n = p.n;
  const pull::body* __restrict b = p.bodies.data();
  float* __restrict ax = p.ax.data(), * __restrict ay = p.ay.data(), * __restrict az = p.az.data();
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    float x = 0, y = 0, z = 0;
#pragma omp simd reduction(+ : x, y, z)
    for (int j = 0; j < n; ++j) {
      const float dx = b[j].x - b[i].x, dy = b[j].y - b[i].y, dz = b[j].z - b[i].z;
      const float squared = dx * dx + dy * dy + dz * dz + pull::softening;
      const float strength = b[j].mass / (squared * std::sqrt(squared));
      x += strength * dx;
      y += strength * dy;
      z += strength * dz;
    }
    ax[i] = x;
    ay[i] = y;
    az[i] = z;
  }
}

/// The same for many bodies at once: what is summed up is not one number.
void attract_many(pull& p) {
  constexpr int many = 128;
  const int n = p.n;
  const pull::body* __restrict b = p.bodies.data();
#pragma omp parallel for schedule(static)
  for (int first = 0; first < n; first += many) {
    alignas(64) std::array<float, many> x{}, y{}, z{}, xi{}, yi{}, zi{};
    for (int i = 0; i < many; ++i) {
      xi[i] = b[first + i].x;
      yi[i] = b[first + i].y;
      zi[i] = b[first + i].z;
    }
    for (int j = 0; j < n; ++j) {
      const pull::body other = b[j];
#pragma omp simd
      for (int i = 0; i < many; ++i) {
        const float dx = other.x - xi[i], dy = other.y - yi[i], dz = other.z - zi[i];
        const float squared = dx * dx + dy * dy + dz * dz + pull::softening;
        const float strength = other.mass / (squared * std::sqrt(squared));
        x[i] += strength * dx;
        y[i] += strength * dy;
        z[i] += strength * dz;
      }
    }
    for (int i = 0; i < many; ++i) {
      p.ax.data()[first + i] = x[i];
      p.ay.data()[first + i] = y[i];
      p.az.data()[first + i] = z[i];
    }
  }
}

void add(adding& a) {
  const int n = a.n;
  const double* in = a.in.data();
  double sum = 0;
#pragma omp parallel for simd reduction(+ : sum) schedule(static)
  for (int i = 0; i < n; ++i) sum += in[i];
  a.sum = sum;
}

template <class Problem, class Loop> measurement timed(const job& j, Loop loop) {
  return measure<Problem>(j, [loop](Problem& p) { return seconds([&] { loop(p); }); });
}

measurement make(const job& j) {
  if (j.benchmark == "multiply") return timed<multiplication>(j, multiply);
  if (j.benchmark == "tiles16") return timed<multiplication>(j, multiply_tiles<16>);
  if (j.benchmark == "tiles32") return timed<multiplication>(j, multiply_tiles<32>);
  if (j.benchmark == "tiles64") return timed<multiplication>(j, multiply_tiles<64>);
  if (j.benchmark == "tiles32by4") return timed<multiplication>(j, multiply_tiles_by_four<32>);
  if (j.benchmark == "tiles64by4") return timed<multiplication>(j, multiply_tiles_by_four<64>);
  if (j.benchmark == "smooth") return timed<seven_points>(j, smooth);
  if (j.benchmark == "attract") return timed<pull>(j, attract);
  if (j.benchmark == "attract_many") return timed<pull>(j, attract_many);
  if (j.benchmark == "add") return timed<adding>(j, add);
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) {
    omp_set_dynamic(0);
    omp_set_num_threads(j.workers);
    answer_requests(j, make);
  });
}
