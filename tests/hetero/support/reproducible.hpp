// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels on floats of which a compiler can contract much.

#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(float_kernels)

// y = x y + z, element by element
TERN_KERNEL(blend, int n, TERN_GLOBAL const float* x, TERN_GLOBAL float* y, TERN_GLOBAL const float* z) {
  TERN_REGION_IN(n, 1, 1) { y[item.x] = x[item.x] * y[item.x] + z[item.x]; };
}

// Many of them: a polynomial of y, with x for its coefficients.
TERN_KERNEL(horner, int n, TERN_GLOBAL const double* x, TERN_GLOBAL double* y) {
  TERN_REGION_IN(n, 1, 1) {
    double v = x[item.x];
    for (int i = 1; i < 12; ++i) v = v * y[item.x] - x[(item.x + i) % n] / (y[item.x] * y[item.x] + 1.0);
    y[item.x] = v;
  };
}

TERN_KERNELS_END(float_kernels)
