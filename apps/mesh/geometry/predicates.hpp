// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// The orientation of three points, exact for all finite doubles whose products neither overflow
/// nor underflow.

#include "apps/mesh/geometry/geometry.hpp"

namespace mesh {

/// \return positive if `a`, `b`, `c` turn left (counterclockwise), negative if right, 0 if on a
/// line. Exact (a filter, then
///   an expansion: Shewchuk, "Adaptive precision floating-point arithmetic", 1997).
int orient2d(const point& a, const point& b, const point& c);

} // namespace mesh
