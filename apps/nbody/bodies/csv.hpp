// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bodies as text: `mass,x,y,z,vx,vy,vz`, a line each; a first line of names, empty lines, and
/// lines that begin with # are passed over. A label (0 to 255) may stand in an eighth column.

#include "apps/nbody/bodies/bodies.hpp"

#include <string>

namespace nbody {

/// \throws tern::error(io) for a file that cannot be read; error(invalid_data) with file and line
/// for a wrong one: not seven or eight finite numbers, a mass that is not positive, no body at all.
bodies read_csv(const std::string& path);
/// In the order of ids, with all digits: reading gives the same bits. \throws tern::error(io).
void write_csv(const std::string& path, const bodies& all);

} // namespace nbody
