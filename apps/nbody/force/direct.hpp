// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Direct summation in double precision: what the tree is checked against.

#include "apps/nbody/bodies/bodies.hpp"
#include "apps/nbody/force/group_force.hpp"

#include <cstdint>
#include <span>

namespace nbody {

/// The accelerations of those `targets` (indices into `all`), in their order.
accelerations sum_directly(const bodies& all, std::span<const std::uint32_t> targets, const force_settings& how);

/// The root of the mean square of |a - b| / |b|, over all bodies.
double relative_error(const accelerations& a, const accelerations& b);

} // namespace nbody
