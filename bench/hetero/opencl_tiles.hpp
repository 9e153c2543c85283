// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The steps of Cholesky's factorization (tiles.hpp) as OpenCL C, one text for all contestants.
/// A tile is a buffer of EDGE² numbers, column by column.

namespace tern::bench::hetero::opencl_tiles {

constexpr int edge = 64;
/// Items of a launch: for `potrf` and `trsm` one group, an item for each row; for the others an
/// item for each row and eight columns.
constexpr const char* text = R"(
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define EDGE 64
__kernel void potrf(__global double* a) {
  const int i = (int)get_global_id(0);
  for (int k = 0; k < EDGE; ++k) {
    if (i == k) a[k + k * EDGE] = sqrt(a[k + k * EDGE]);
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (i > k) a[i + k * EDGE] /= a[k + k * EDGE];
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int j = k + 1; j <= i; ++j) a[i + j * EDGE] -= a[i + k * EDGE] * a[j + k * EDGE];
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}
__kernel void trsm(__global const double* l, __global double* a) {
  const int i = (int)get_global_id(0);
  for (int j = 0; j < EDGE; ++j) {
    double x = a[i + j * EDGE];
    for (int k = 0; k < j; ++k) x -= a[i + k * EDGE] * l[j + k * EDGE];
    a[i + j * EDGE] = x / l[j + j * EDGE];
  }
}
// Eight columns for each item: what is read of a row serves all.
#define COLUMNS(at, x) x(0, at) x(1, at) x(2, at) x(3, at) x(4, at) x(5, at) x(6, at) x(7, at)
#define LOAD(n, at) double x##n = c[i + (j + n) * EDGE];
#define STEP(n, at) x##n -= r * at[j + n + k * EDGE];
#define STORE(n, at) c[i + (j + n) * EDGE] = x##n;
#define UPDATE(b)                                                              \
  const int i = (int)get_global_id(0), j = 8 * (int)get_global_id(1);          \
  barrier(CLK_LOCAL_MEM_FENCE);                                                \
  COLUMNS(c, LOAD)                                                             \
  for (int k = 0; k < EDGE; ++k) {                                             \
    const double r = a[i + k * EDGE];                                          \
    COLUMNS(b, STEP)                                                           \
  }                                                                            \
  COLUMNS(c, STORE)
__kernel void syrk(__global const double* restrict a, __global double* restrict c) { UPDATE(a) }
__kernel void gemm_minus(__global const double* restrict a, __global const double* restrict b,
                         __global double* restrict c) {
  UPDATE(b)
}
)";
constexpr int blocks_of_columns = edge / 8; ///< of syrk and gemm_minus: as many groups, of `edge` items

} // namespace tern::bench::hetero::opencl_tiles
