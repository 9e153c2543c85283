// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels that use every word of the dialect, for tests on all devices.

#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(test_kernels)

/* #-directives, commas and comments: all allowed. */
#define TILE 16
typedef struct {
  float x, y, z, m;
} body;

TERN_FN double weighted(double a, double b, double c) { return a * b + c; }
TERN_FN int plus(int a, int b) { return a + b; }
TERN_FN double sum(double a, double b) { return a + b; }
TERN_FN float larger(float a, float b) { return max(a, b); }

TERN_KERNEL(nothing) {}

TERN_KERNEL(axpy, int n, double a, TERN_GLOBAL const double* TERN_RESTRICT x, TERN_GLOBAL double* TERN_RESTRICT y) {
  TERN_REGION_IN(n, 1, 1) { y[item.x] = weighted(a, x[item.x], y[item.x]); };
}

TERN_KERNEL(copy_some, int n, TERN_GLOBAL const int* in, TERN_GLOBAL int* out) {
  TERN_REGION_IN(n, 1, 1) { out[item.x] = in[item.x]; };
}

// What items and groups know of themselves: 20 numbers for each item of a grid.
TERN_KERNEL(who, TERN_GLOBAL int* out) {
  TERN_REGION {
    const int at = (item.z * group.count_y * group.size_y + item.y) * group.count_x * group.size_x + item.x;
    TERN_GLOBAL int* const o = out + 20 * at;
    o[0] = item.x;
    o[1] = item.y;
    o[2] = item.z;
    o[3] = item.local_x;
    o[4] = item.local_y;
    o[5] = item.local_z;
    o[6] = item.local_linear;
    o[7] = group.x;
    o[8] = group.y;
    o[9] = group.z;
    o[10] = group.size_x;
    o[11] = group.size_y;
    o[12] = group.size_z;
    o[13] = group.size;
    o[14] = group.count_x;
    o[15] = group.count_y;
    o[16] = group.count_z;
    o[17] = o[18] = o[19] = -1;
  };
}

TERN_KERNEL_FIXED(dgemm_tiled, TILE, TILE, 1, int n, TERN_GLOBAL const double* TERN_RESTRICT a,
                  TERN_GLOBAL const double* TERN_RESTRICT b, TERN_GLOBAL double* TERN_RESTRICT c) {
  TERN_SHARED(double, as, [TILE][TILE]);
  TERN_SHARED(double, bs, [TILE][TILE]);
  TERN_PRIVATE(double, acc);
  TERN_REGION_NOSYNC { TERN_MY(acc) = 0; };
  for (int t = 0; t < n / TILE; ++t) {
    TERN_REGION {
      as[item.local_y][item.local_x] = a[item.y * n + t * TILE + item.local_x];
      bs[item.local_y][item.local_x] = b[(t * TILE + item.local_y) * n + item.x];
    };
    TERN_REGION {
      double s = TERN_MY(acc);
      for (int k = 0; k < TILE; ++k) s += as[item.local_y][k] * bs[k][item.local_x];
      TERN_MY(acc) = s;
    };
  }
  TERN_REGION { c[item.y * n + item.x] = TERN_MY(acc); };
}

// Turns each group's items around, by dynamic memory.
TERN_KERNEL(reverse_groups, TERN_GLOBAL const int* in, TERN_GLOBAL int* out) {
  TERN_DYNAMIC(int, all);
  TERN_REGION { all[item.local_linear] = in[item.x]; };
  TERN_REGION { out[item.x] = all[group.size - 1 - item.local_linear]; };
}

TERN_KERNEL(sums, int n, TERN_GLOBAL const double* in, TERN_GLOBAL const int* ints, TERN_GLOBAL double* of_doubles,
            TERN_GLOBAL int* of_ints, TERN_GLOBAL float* largest) {
  TERN_GROUP_REDUCE(double, all, 0.0, sum, i, n, in[i]);
  TERN_GROUP_REDUCE(int, whole, 0, plus, i, n, ints[i] * ints[i]);
  TERN_GROUP_REDUCE(float, most, -1e30f, larger, i, n, (float)in[i]);
  TERN_REGION {
    if (item.local_linear == 0) {
      of_doubles[group.x] = all;
      of_ints[group.x] = whole;
      largest[group.x] = most;
    }
  };
}

TERN_KERNEL(atomics, int n, TERN_GLOBAL int* ints, TERN_GLOBAL uint* uints, TERN_GLOBAL float* floats) {
  TERN_SHARED(int, here, [1]);
  TERN_REGION {
    if (item.local_linear == 0) here[0] = 0;
  };
  TERN_REGION {
    if (item.x < n) {
      fetch_add(here, 1);
      fetch_add(ints, item.x);
      fetch_min(ints + 1, -item.x);
      fetch_max(ints + 2, item.x);
      fetch_add(uints, 1u);
      fetch_min(uints + 1, 1000u - (uint)item.x);
      fetch_max(uints + 2, (uint)item.x);
      fetch_add(floats, 1.0f);
      fetch_min(floats + 1, -(float)item.x);
      fetch_max(floats + 2, (float)item.x);
      compare_exchange(ints + 3, item.x, item.x + 1);
      compare_exchange(uints + 3, (uint)item.x, (uint)item.x + 1u);
      compare_exchange(floats + 3, 0.0f, 7.0f);
    }
  };
  TERN_BARRIER();
  TERN_REGION {
    if (item.local_linear == 0) fetch_add(ints + 4, here[0]);
  };
}

TERN_KERNEL(functions, int n, TERN_GLOBAL const double* in, TERN_GLOBAL double* out, TERN_GLOBAL float* outf) {
  TERN_REGION_IN(n, 1, 1) {
    const double x = in[item.x];
    const float f = (float)x;
    out[item.x] = sqrt(x) + exp(-x) + log(x) + pow(x, 0.5) + sin(x) * cos(x) + tan(x) + atan2(x, 2.0) + fabs(-x) +
                  floor(x) + ceil(x) + fmin(x, 1.0) + fmax(x, 1.0) + fma(x, x, 1.0) + fmod(x, 0.7) + hypot(x, 1.0) +
                  rsqrt(x) + cbrt(x) + clamp(x, 0.5, 0.75) + min(x, 0.25) + max(x, 0.25);
    outf[item.x] = sqrt(f) + exp(-f) + log(f) + rsqrt(f) + fmin(f, 1.0f) + clamp(f, 0.5f, 0.75f) + (float)abs(-3);
  };
}

TERN_KERNEL(nbody, int n, TERN_GLOBAL const body* TERN_RESTRICT b, TERN_GLOBAL float* TERN_RESTRICT ax) {
  TERN_REGION_NOSYNC {
    const int i = item.x;
    const float xi = b[i].x;
    float sx = 0;
    for (int j = 0; j < n; ++j) {
      const float dx = b[j].x - xi;
      sx += b[j].m * dx / (dx * dx + 1e-2f);
    }
    ax[i] = sx;
  };
}
#undef TILE
TERN_KERNELS_END(test_kernels)
