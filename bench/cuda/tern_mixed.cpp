// SPDX-License-Identifier: Apache-2.0
/// \file
/// Cholesky's factorization on GPU and host together: each step by NVIDIA's libraries or OpenBLAS.

#include "bench/cuda/tern_factors.hpp"

#ifdef BENCH_HETERO_BLAS
#include <cblas.h>

// OpenBLAS has LAPACK, but its headers come in another package.
extern "C" void dpotrf_(const char* triangle, const int* n, double* a, const int* stride, int* problem);
#endif

namespace tern::bench::cuda {

#ifdef BENCH_HETERO_BLAS

namespace {

using tile_here = tern::host_view<double, 2>;
using input_here = tern::host_view<const double, 2>;

auto steps_anywhere(int m) {
  return steps{tern::variants(
                   [m](tile_here t, tern::host_view<double, 1>, tern::host_view<int, 1> info) {
                     dpotrf_("U", &m, &t(0, 0), &m, &info[0]); // by columns it is the upper half
                     if (info[0] != 0) throw std::runtime_error("dpotrf says " + std::to_string(info[0]));
                   },
                   factor_there(m)),
               tern::variants(
                   [m](input_here l, tile_here t) {
                     cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, m, m, 1, &l(0, 0), m,
                                 &t(0, 0), m);
                   },
                   solve_there(m)),
               tern::variants(
                   [m](input_here a, input_here b, tile_here c) {
                     cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, m, m, -1, &a(0, 0), m, &b(0, 0), m, 1,
                                 &c(0, 0), m);
                   },
                   update_there(m)),
               tern::variants(
                   [m](input_here a, tile_here c) {
                     cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, m, m, -1, &a(0, 0), m, 1, &c(0, 0), m);
                   },
                   update_diagonal_there(m))};
}

} // namespace

measurement mixed_cholesky(const job& j) {
  openblas_set_num_threads(1); // tasks are what runs side by side
  const std::size_t tile = j.size >= 4096 ? 2048 : 16;
  return factorization(j, tile, steps_anywhere(static_cast<int>(tile)));
}

#else

measurement mixed_cholesky(const job&) { throw not_here("OpenBLAS when this was built"); }

#endif

} // namespace tern::bench::cuda
