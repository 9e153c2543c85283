// SPDX-License-Identifier: Apache-2.0
// expect: a_barrier_cannot_stand_inside_a_region
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL_FIXED(scale, 16, 1, 1, int n, double by, TERN_GLOBAL double* v) {
#ifdef FINE
  TERN_REGION_IN(n, 1, 1) { v[item.x] *= by; };
  TERN_BARRIER();
#else
  TERN_REGION_IN(n, 1, 1) {
    v[item.x] *= by;
    TERN_BARRIER();
  };
#endif
}
TERN_KERNELS_END(blas)
