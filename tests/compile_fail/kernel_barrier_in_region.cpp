// SPDX-License-Identifier: Apache-2.0
// expect: a_barrier_cannot_stand_inside_a_region
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL(scale, double by, TERN_GLOBAL double* v) {
#ifdef FINE
  TERN_REGION { v[item.x] *= by; };
  TERN_BARRIER();
  TERN_REGION { v[item.x] *= by; };
#else
  TERN_REGION {
    v[item.x] *= by;
    TERN_BARRIER();
    v[item.x] *= by;
  };
#endif
}
TERN_KERNELS_END(blas)
