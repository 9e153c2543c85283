// SPDX-License-Identifier: Apache-2.0
// expect g++: read-only variable 'sum'
// expect clang++: cannot assign to a variable captured by copy
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL(scale, double by, TERN_GLOBAL double* v) {
  double sum = 0;
#ifdef FINE
  sum += by;
#else
  TERN_REGION { sum += by; };
#endif
  TERN_REGION { v[item.x] *= sum; };
}
TERN_KERNELS_END(blas)
