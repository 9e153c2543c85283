// SPDX-License-Identifier: Apache-2.0
// expect: a region cannot stand inside a region
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL(scale, int n, double by, TERN_GLOBAL double* v) {
#ifdef FINE
  for (int i = 0; i < n; ++i) TERN_REGION {
      v[item.x] *= by;
    };
#else
  TERN_REGION {
    for (int i = 0; i < n; ++i) TERN_REGION {
        v[item.x] *= by;
      };
  };
#endif
}
TERN_KERNELS_END(blas)
