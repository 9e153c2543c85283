// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels of a file that `tern_device_code` is not told of.

#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(without_ptx)
TERN_KERNEL(triple, int n, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] *= 3; };
}
TERN_KERNELS_END(without_ptx)

TERN_KERNELS_BEGIN(of_another_text)
TERN_KERNEL(negate, int n, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] = -x[item.x]; };
}
TERN_KERNELS_END(of_another_text)
