// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The kernels that are measured against loops (loops.cpp), in the dialect.

#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(bench_kernels)

#define TILE 32
#define BODIES 256
// So aligned, GPUs read one at once.
typedef struct {
  float x, y, z, mass;
} __attribute__((aligned(16))) body;

TERN_FN double plus(double a, double b) { return a + b; }

TERN_KERNEL(multiply, int n, TERN_GLOBAL const double* TERN_RESTRICT a, TERN_GLOBAL const double* TERN_RESTRICT b,
            TERN_GLOBAL double* TERN_RESTRICT c) {
  TERN_PRIVATE(double, sum);
  TERN_REGION_NOSYNC { TERN_MY(sum) = 0; };
  for (int k = 0; k < n; ++k) TERN_REGION_NOSYNC {
      TERN_MY(sum) += a[item.y * n + k] * b[k * n + item.x];
    };
  TERN_REGION_NOSYNC { c[item.y * n + item.x] = TERN_MY(sum); };
}

TERN_KERNEL_FIXED(multiply_tiles, TILE, TILE, 1, int n, TERN_GLOBAL const double* TERN_RESTRICT a,
                  TERN_GLOBAL const double* TERN_RESTRICT b, TERN_GLOBAL double* TERN_RESTRICT c) {
  TERN_SHARED(double, as, [TILE][TILE]);
  TERN_SHARED(double, bs, [TILE][TILE]);
  TERN_PRIVATE(double, sum);
  TERN_REGION_NOSYNC { TERN_MY(sum) = 0; };
  for (int t = 0; t < n; t += TILE) {
    TERN_REGION {
      as[item.local_y][item.local_x] = a[item.y * n + t + item.local_x];
      bs[item.local_y][item.local_x] = b[(t + item.local_y) * n + item.x];
    };
    TERN_BARRIER();
    // Four at a time: the host keeps sums in memory, which would be what it waits for.
    for (int k = 0; k < TILE; k += 4) TERN_REGION_NOSYNC {
        TERN_MY(sum) += as[item.local_y][k] * bs[k][item.local_x] + as[item.local_y][k + 1] * bs[k + 1][item.local_x] +
                        as[item.local_y][k + 2] * bs[k + 2][item.local_x] +
                        as[item.local_y][k + 3] * bs[k + 3][item.local_x];
      };
  }
  TERN_REGION_NOSYNC { c[item.y * n + item.x] = TERN_MY(sum); };
}

// An item is a point inside: the first is (1, 1, 1).
TERN_KERNEL(smooth, int n, double centre, double side, TERN_GLOBAL const double* TERN_RESTRICT in,
            TERN_GLOBAL double* TERN_RESTRICT out) {
  TERN_REGION_IN(n - 2, n - 2, n - 2) {
    const int i = ((item.z + 1) * n + item.y + 1) * n + item.x + 1;
    out[i] = centre * in[i] + side * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n]);
  };
}

TERN_KERNEL(attract, int n, float softening, TERN_GLOBAL const body* TERN_RESTRICT b,
            TERN_GLOBAL float* TERN_RESTRICT ax, TERN_GLOBAL float* TERN_RESTRICT ay,
            TERN_GLOBAL float* TERN_RESTRICT az) {
  TERN_PRIVATE(float, x);
  TERN_PRIVATE(float, y);
  TERN_PRIVATE(float, z);
  // Where it is itself; one after the other on the host, as vectors want it.
  TERN_PRIVATE(float, xi);
  TERN_PRIVATE(float, yi);
  TERN_PRIVATE(float, zi);
  TERN_REGION_NOSYNC {
    TERN_MY(x) = TERN_MY(y) = TERN_MY(z) = 0;
    TERN_MY(xi) = b[item.x].x;
    TERN_MY(yi) = b[item.x].y;
    TERN_MY(zi) = b[item.x].z;
  };
  for (int j = 0; j < n; ++j) TERN_REGION_NOSYNC {
      const float dx = b[j].x - TERN_MY(xi), dy = b[j].y - TERN_MY(yi), dz = b[j].z - TERN_MY(zi);
      const float squared = dx * dx + dy * dy + dz * dz + softening;
      const float strength = b[j].mass / (squared * sqrt(squared));
      TERN_MY(x) += strength * dx;
      TERN_MY(y) += strength * dy;
      TERN_MY(z) += strength * dz;
    };
  TERN_REGION_NOSYNC {
    ax[item.x] = TERN_MY(x);
    ay[item.x] = TERN_MY(y);
    az[item.x] = TERN_MY(z);
  };
}

// For GPUs: each group reads the bodies once, in tiles that its items share.
TERN_KERNEL_FIXED(attract_tiles, BODIES, 1, 1, int n, float softening, TERN_GLOBAL const body* TERN_RESTRICT b,
                  TERN_GLOBAL float* TERN_RESTRICT ax, TERN_GLOBAL float* TERN_RESTRICT ay,
                  TERN_GLOBAL float* TERN_RESTRICT az) {
  TERN_SHARED(body, others, [BODIES]);
  TERN_PRIVATE(body, me);
  TERN_PRIVATE(float, x);
  TERN_PRIVATE(float, y);
  TERN_PRIVATE(float, z);
  TERN_REGION_NOSYNC {
    TERN_MY(x) = TERN_MY(y) = TERN_MY(z) = 0;
    TERN_MY(me) = b[min(item.x, n - 1)];
  };
  for (int first = 0; first < n; first += BODIES) {
    TERN_REGION {
      const int j = first + item.local_x;
      others[item.local_x] = b[min(j, n - 1)];
      if (j >= n) others[item.local_x].mass = 0;
    };
    TERN_BARRIER();
    for (int j = 0; j < BODIES; ++j) TERN_REGION_NOSYNC {
        const body o = others[j];
        const float dx = o.x - TERN_MY(me).x, dy = o.y - TERN_MY(me).y, dz = o.z - TERN_MY(me).z;
        const float inverse = rsqrt(dx * dx + dy * dy + dz * dz + softening);
        const float strength = o.mass * inverse * inverse * inverse;
        TERN_MY(x) += strength * dx;
        TERN_MY(y) += strength * dy;
        TERN_MY(z) += strength * dz;
      };
  }
  TERN_REGION_IN(n, 1, 1) {
    ax[item.x] = TERN_MY(x);
    ay[item.x] = TERN_MY(y);
    az[item.x] = TERN_MY(z);
  };
}

// The sum of each group's part.
TERN_KERNEL(add, int n, TERN_GLOBAL const double* TERN_RESTRICT in, TERN_GLOBAL double* TERN_RESTRICT out) {
  TERN_GROUP_REDUCE(double, sum, 0.0, plus, i, n, in[i]);
  TERN_REGION {
    if (item.local_linear == 0) out[group.x] = sum;
  };
}
#undef TILE
#undef BODIES
TERN_KERNELS_END(bench_kernels)
