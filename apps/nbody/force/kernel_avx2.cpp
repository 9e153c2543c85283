// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/force/kernel_lanes.hpp"

namespace nbody {

kernel kernel_avx2() { return kernel_here("avx2"); }

} // namespace nbody
