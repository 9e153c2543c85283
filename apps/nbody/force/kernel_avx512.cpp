// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/force/kernel_lanes.hpp"

namespace nbody {

kernel kernel_avx512() { return kernel_here("avx512"); }

} // namespace nbody
