// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// The mesh as a VTK XML file, for ParaView and everything else that reads `.vtu`.

#include "apps/mesh/output/gathered.hpp"

#include <string>

namespace mesh {

/// Writes an UnstructuredGrid: points in km (z = 0), per triangle `rank`, `group`, `size` (longest
/// edge, km) and `angle` (smallest, degrees); the box and projection as field data. Appended raw
/// binary, little endian. Needs no more memory than a block of a megabyte. \throws tern::error: io
/// (naming the path and the system's reason: cannot be created, disk full …), invalid_argument (a
///   mesh whose arrays disagree).
void write_vtu(const std::string& path, const gathered_mesh& mesh, const domain& sea);

} // namespace mesh
