// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(of_a_header)
TERN_KERNEL(count_down, TERN_GLOBAL int* x) {
  TERN_REGION { x[item.x] = static_cast<int>(group.size); }; // OpenCL: this is C++
}
TERN_KERNELS_END(of_a_header)
