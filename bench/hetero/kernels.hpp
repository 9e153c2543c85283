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
        // To the sum, one after the other: adding the four by themselves would be one operation
        // more.
        TERN_MY(sum) = TERN_MY(sum) + as[item.local_y][k] * bs[k][item.local_x] +
                       as[item.local_y][k + 1] * bs[k + 1][item.local_x] +
                       as[item.local_y][k + 2] * bs[k + 2][item.local_x] +
                       as[item.local_y][k + 3] * bs[k + 3][item.local_x];
      };
  }
  TERN_REGION_NOSYNC { c[item.y * n + item.x] = TERN_MY(sum); };
}

// A group has 64 columns of 64 rows, and an item four rows, ROWS apart: what is read of b serves
// all four. Of a each item reads numbers that its neighbours in x read as well.
#define WIDE 64
#define DEEP 32
#define ROWS 16
TERN_KERNEL_FIXED(multiply_wide, WIDE, ROWS, 1, int n, TERN_GLOBAL const double* TERN_RESTRICT a,
                  TERN_GLOBAL const double* TERN_RESTRICT b, TERN_GLOBAL double* TERN_RESTRICT c) {
  TERN_SHARED(double, bs, [DEEP][WIDE]);
  TERN_PRIVATE(double, s0);
  TERN_PRIVATE(double, s1);
  TERN_PRIVATE(double, s2);
  TERN_PRIVATE(double, s3);
  TERN_REGION_NOSYNC {
    TERN_MY(s0) = 0;
    TERN_MY(s1) = 0;
    TERN_MY(s2) = 0;
    TERN_MY(s3) = 0;
  };
  for (int t = 0; t < n; t += DEEP) {
    TERN_REGION {
      bs[item.local_y][item.local_x] = b[(t + item.local_y) * n + item.x];
      bs[item.local_y + ROWS][item.local_x] = b[(t + item.local_y + ROWS) * n + item.x];
    };
    TERN_BARRIER();
    for (int k = 0; k < DEEP; k += 4) TERN_REGION_NOSYNC {
        const int r = (4 * item.y - 3 * item.local_y) * n + t + k;
        const double b0 = bs[k][item.local_x], b1 = bs[k + 1][item.local_x], b2 = bs[k + 2][item.local_x],
                     b3 = bs[k + 3][item.local_x];
        TERN_MY(s0) = TERN_MY(s0) + a[r] * b0 + a[r + 1] * b1 + a[r + 2] * b2 + a[r + 3] * b3;
        const int r1 = r + ROWS * n, r2 = r + 2 * ROWS * n, r3 = r + 3 * ROWS * n;
        TERN_MY(s1) = TERN_MY(s1) + a[r1] * b0 + a[r1 + 1] * b1 + a[r1 + 2] * b2 + a[r1 + 3] * b3;
        TERN_MY(s2) = TERN_MY(s2) + a[r2] * b0 + a[r2 + 1] * b1 + a[r2 + 2] * b2 + a[r2 + 3] * b3;
        TERN_MY(s3) = TERN_MY(s3) + a[r3] * b0 + a[r3 + 1] * b1 + a[r3 + 2] * b2 + a[r3 + 3] * b3;
      };
  }
  TERN_REGION_NOSYNC {
    const int at = (4 * item.y - 3 * item.local_y) * n + item.x;
    c[at] = TERN_MY(s0);
    c[at + ROWS * n] = TERN_MY(s1);
    c[at + 2 * ROWS * n] = TERN_MY(s2);
    c[at + 3 * ROWS * n] = TERN_MY(s3);
  };
}

// An item is a point inside: the first is (1, 1, 1).
TERN_KERNEL(smooth, int n, double centre, double side, TERN_GLOBAL const double* TERN_RESTRICT in,
            TERN_GLOBAL double* TERN_RESTRICT out) {
  TERN_REGION_IN(n - 2, n - 2, n - 2) {
    const int i = ((item.z + 1) * n + item.y + 1) * n + item.x + 1;
    out[i] = centre * in[i] + side * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n]);
  };
}

TERN_FN float strength(float mass, float dx, float dy, float dz, float softening) {
  const float squared = dx * dx + dy * dy + dz * dz + softening;
  return mass / (squared * sqrt(squared));
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
  // Several at a time, as sums are kept in memory on the host and by PoCL; the last ones again,
  // without mass.
  for (int j = 0; j < n; j += 4) {
    const int j1 = min(j + 1, n - 1), j2 = min(j + 2, n - 1), j3 = min(j + 3, n - 1);
    const float m1 = j + 1 < n ? b[j1].mass : 0, m2 = j + 2 < n ? b[j2].mass : 0, m3 = j + 3 < n ? b[j3].mass : 0;
    TERN_REGION_NOSYNC {
      const float px = TERN_MY(xi), py = TERN_MY(yi), pz = TERN_MY(zi);
      const float dx0 = b[j].x - px, dy0 = b[j].y - py, dz0 = b[j].z - pz;
      const float dx1 = b[j1].x - px, dy1 = b[j1].y - py, dz1 = b[j1].z - pz;
      const float dx2 = b[j2].x - px, dy2 = b[j2].y - py, dz2 = b[j2].z - pz;
      const float dx3 = b[j3].x - px, dy3 = b[j3].y - py, dz3 = b[j3].z - pz;
      const float s0 = strength(b[j].mass, dx0, dy0, dz0, softening), s1 = strength(m1, dx1, dy1, dz1, softening),
                  s2 = strength(m2, dx2, dy2, dz2, softening), s3 = strength(m3, dx3, dy3, dz3, softening);
      TERN_MY(x) = TERN_MY(x) + s0 * dx0 + s1 * dx1 + s2 * dx2 + s3 * dx3;
      TERN_MY(y) = TERN_MY(y) + s0 * dy0 + s1 * dy1 + s2 * dy2 + s3 * dy3;
      TERN_MY(z) = TERN_MY(z) + s0 * dz0 + s1 * dz1 + s2 * dz2 + s3 * dz3;
    };
  }
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
