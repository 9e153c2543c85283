// SPDX-License-Identifier: Apache-2.0
// expect: a region cannot stand inside a region
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL_FIXED(scale, 16, 1, 1, int n, double by, TERN_GLOBAL double* v) {
#ifdef FINE
  TERN_REGION_IN(n, 1, 1) { v[item.x] *= by; };
#else
  TERN_REGION {
    TERN_REGION_IN(n, 1, 1) { v[item.x] *= by; };
  };
#endif
}
TERN_KERNELS_END(blas)
