// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels that are only compiled, for all devices: every function of the dialect's, for float and
/// for double, and what kernels.hpp leaves out.

#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(words)

TERN_CONSTANT double weights[3] = {0.25, 0.5, 0.25};

TERN_FN double weighted(TERN_GLOBAL const double* x, TERN_LOCAL const double* y) {
  return weights[0] * x[0] + weights[1] * y[0] + weights[2];
}

TERN_KERNEL(with_tables, TERN_GLOBAL const double* in, TERN_GLOBAL double* out) {
  TERN_SHARED(double, here, [1024]);
  TERN_REGION { here[item.local_linear] = in[item.x]; };
  TERN_REGION { out[item.x] = weighted(in + item.x, here + item.local_linear); };
}

// One block of dynamic memory, looked at as two kinds of numbers; a struct in the group's memory.
typedef struct {
  float low, high;
  int count;
} range;

TERN_KERNEL(with_dynamic, int n, TERN_GLOBAL const float* in, TERN_GLOBAL int* out) {
  TERN_DYNAMIC(float, values);
  TERN_DYNAMIC(int, counts);
  TERN_SHARED(range, all, [1]);
  TERN_REGION {
    values[item.local_linear] = in[item.x];
    if (item.local_linear == 0) {
      all[0].low = all[0].high = 0;
      all[0].count = 0;
    }
  };
  TERN_REGION {
    if (item.x < n) {
      fetch_min(&all[0].low, values[item.local_linear]);
      fetch_max(&all[0].high, values[item.local_linear]);
      fetch_add(&all[0].count, 1);
    }
  };
  TERN_REGION { counts[group.size + item.local_linear] = values[item.local_linear] < all[0].high ? all[0].count : 0; };
  TERN_REGION { out[item.x] = counts[group.size + item.local_linear]; };
}

#define SOME_OF_ONE(x)                                                                                                 \
  (acos(x) + acosh(x) + asin(x) + asinh(x) + atan(x) + atanh(x) + cbrt(x) + ceil(x) + cos(x) + cosh(x) + erf(x) +      \
   erfc(x) + exp(x) + exp2(x) + expm1(x) + fabs(x) + floor(x) + log(x) + log10(x) + log1p(x) + log2(x) + rint(x) +     \
   round(x) + rsqrt(x) + sin(x) + sinh(x) + sqrt(x) + tan(x) + tanh(x) + trunc(x))
#define SOME_OF_MORE(x, y)                                                                                             \
  (atan2(x, y) + copysign(x, y) + fdim(x, y) + fmax(x, y) + fmin(x, y) + fmod(x, y) + hypot(x, y) + pow(x, y) +        \
   remainder(x, y) + fma(x, y, x) + ldexp(x, 3) + min(x, y) + max(x, y) + clamp(x, x, y))

TERN_KERNEL(with_doubles, TERN_GLOBAL const double* x, TERN_GLOBAL double* y) {
  TERN_REGION { y[item.x] = SOME_OF_ONE(x[item.x]) + SOME_OF_MORE(x[item.x], y[item.x]); };
}

TERN_KERNEL(with_floats, TERN_GLOBAL const float* x, TERN_GLOBAL float* y) {
  TERN_REGION { y[item.x] = SOME_OF_ONE(x[item.x]) + SOME_OF_MORE(x[item.x], y[item.x]); };
}

TERN_KERNEL_FIXED(with_integers, 8, 4, 2, TERN_GLOBAL int* a, TERN_GLOBAL uint* b) {
  TERN_SHARED(uint, most, [2]);
  TERN_REGION {
    if (item.local_linear < 2) most[item.local_linear] = 0;
  };
  TERN_REGION {
    const int i = item.local_linear;
    fetch_max(most, b[i]);
    fetch_min(most, b[i]);
    compare_exchange(most + 1, 0u, b[i]);
    a[i] = abs(min(a[i], 3)) + max(a[i], 4) + clamp(a[i], 1, 2);
    b[i] = min(b[i], 3u) + max(b[i], 4u) + clamp(b[i], 1u, 2u);
  };
}

#undef SOME_OF_ONE
#undef SOME_OF_MORE
TERN_KERNELS_END(words)
