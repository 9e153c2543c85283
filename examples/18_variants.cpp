// SPDX-License-Identifier: Apache-2.0
// Variants of one task: Cholesky factorization of a matrix in tiles. The host factors the tiles on
// the diagonal. A product of tiles is a kernel on any device, a kernel in OpenCL C on OpenCL
// devices, and a function on the host. The function calls OpenBLAS if the build has found it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

#ifdef EXAMPLE_CBLAS
#include <cblas.h>
#endif

TERN_KERNELS_BEGIN(tiles)
// c -= a b^T, of tiles of n x n
TERN_KERNEL(update, int n, int pa, TERN_GLOBAL const double* a, int pb, TERN_GLOBAL const double* b, int pc,
            TERN_GLOBAL double* c) {
  TERN_REGION_IN(n, n, 1) {
    double sum = 0;
    for (int k = 0; k < n; ++k) sum += a[item.y * pa + k] * b[item.x * pb + k];
    c[item.y * pc + item.x] -= sum;
  };
}
TERN_KERNELS_END(tiles)

namespace {

// Four elements of a row at a time. A kernel in a device's own language takes the same arguments.
const tern::opencl_source update_in_opencl("update4", R"CL(
kernel void update4(int n, int pa, global const double* a, int pb, global const double* b, int pc, global double* c) {
  const int i = get_global_id(1), j = get_global_id(0);
  if (i >= n || j >= n) return;
  double4 sum = 0;
  int k = 0;
  for (; k + 4 <= n; k += 4) sum += vload4(0, a + i * pa + k) * vload4(0, b + j * pb + k);
  double rest = sum.x + sum.y + sum.z + sum.w;
  for (; k < n; ++k) rest += a[i * pa + k] * b[j * pb + k];
  c[i * pc + j] -= rest;
}
)CL");

void update_on_host(int n, int pa, const double* a, int pb, const double* b, int pc, double* c) {
#ifdef EXAMPLE_CBLAS
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, -1, a, pa, b, pb, 1, c, pc);
#else
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < n; ++k) c[i * pc + j] -= a[i * pa + k] * b[j * pb + k];
#endif
}

// Factors a tile on the diagonal: writes its lower half.
void factor(tern::host_view<double, 2> t) {
  const std::int64_t n = t.extent(0);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t k = 0; k < j; ++k)
      for (std::int64_t i = j; i < n; ++i) t(i, j) -= t(i, k) * t(j, k);
    const double d = std::sqrt(t(j, j));
    for (std::int64_t i = j; i < n; ++i) t(i, j) /= d;
  }
}

// t := t l^-T, for a tile below the diagonal
void solve(tern::host_view<const double, 2> l, tern::host_view<double, 2> t) {
  const std::int64_t n = t.extent(0);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t k = 0; k < j; ++k) t(i, j) -= t(i, k) * l(j, k);
      t(i, j) /= l(j, j);
    }
}

} // namespace

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    constexpr int size = 256, tile = 32, count = size / tile;
    const auto element = [](int i, int j) { return 1.0 / (1 + std::abs(i - j)) + (i == j ? size : 0); };
    tern::hetero_object<double, 2> a({size, size});
    {
      auto host = a.host(tern::access_mode::write).get();
      for (int i = 0; i < size; ++i)
        for (int j = 0; j < size; ++j) host(i, j) = element(i, j);
    }
    const auto t = a.tiles({tile, tile});
    const auto update = tern::variants(tiles::update, update_in_opencl, update_on_host);
    for (int k = 0; k < count; ++k) {
      tern::hetero_task(factor, tern::read_write(t(k, k))).priority(2).submit(); // all others depend on these
      for (int i = k + 1; i < count; ++i)
        tern::hetero_task(solve, tern::read(t(k, k)), tern::read_write(t(i, k))).priority(1).submit();
      for (int i = k + 1; i < count; ++i)
        for (int j = k + 1; j <= i; ++j) {
          const auto x = t(i, k), y = t(j, k), z = t(i, j);
          tern::submit(update, tern::items(tile, tile), tile, tern::pitch(x), tern::read(x), tern::pitch(y),
                       tern::read(y), tern::pitch(z), tern::read_write(z));
        }
    }
    auto l = a.host(tern::access_mode::read).get();
    double worst = 0;
    for (int i = 0; i < size; ++i)
      for (int j = 0; j <= i; ++j) {
        double sum = 0;
        for (int k = 0; k <= j; ++k) sum += l(i, k) * l(j, k);
        worst = std::max(worst, std::abs(sum - element(i, j)));
      }
    if (tern::rank() == 0) std::printf("largest error %.1e\n", worst);
    return worst < 1e-10 ? 0 : 1;
  });
}
