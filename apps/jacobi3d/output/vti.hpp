// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/jacobi3d/grid/problem.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace jacobi3d {

/// Writes VTK's image data, for ParaView: the value of each cell, x fastest, and the rank that had
/// it last. \throws tern::error(io) that names the file.
template <class T>
void write_vti(const std::string& path, const cells& n, const std::vector<T>& values,
               const std::vector<std::uint16_t>& rank);

extern template void write_vti(const std::string&, const cells&, const std::vector<double>&,
                               const std::vector<std::uint16_t>&);
extern template void write_vti(const std::string&, const cells&, const std::vector<float>&,
                               const std::vector<std::uint16_t>&);

} // namespace jacobi3d
