// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bodies for ParaView and VisIt: points in a VTK file.

#include "apps/nbody/bodies/bodies.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace nbody {

/// \param rank by body: where it was in the end. \throws tern::error(io) that names the file.
void write_vtu(const std::string& path, const bodies& all, const accelerations& pull,
               const std::vector<std::uint16_t>& rank);

} // namespace nbody
