// SPDX-License-Identifier: Apache-2.0
#include "wrong.hpp"

TERN_KERNELS_BEGIN(for_the_host_only)
TERN_FN int first_of(const int* x) { return x[0]; }
TERN_KERNEL(copy_first, TERN_GLOBAL const int* x, TERN_GLOBAL int* y) {
  TERN_REGION { y[item.x] = first_of(x); }; // OpenCL: the function's pointer is not to an object
}
TERN_KERNELS_END(for_the_host_only)
