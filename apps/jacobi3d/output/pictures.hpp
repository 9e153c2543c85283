// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pictures of a run: what the grid holds, and how the blocks came to it.

#include "apps/jacobi3d/job/job.hpp"
#include "apps/jacobi3d/job/plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace jacobi3d {

/// A slice through the middle of y, x to the right and z upwards: colours and lines of equal heat.
/// \throws tern::error(io) that names the file.
void write_slice(const std::string& path, const plan& about, const std::vector<double>& values,
                 std::int64_t iterations);

/// Time to the right, a row for each block: iterations as bars of the colour of the rank that made
/// them, light and dark in turn, and how far its messages were ahead as a line. Of many blocks, a
/// part. \throws as `write_slice`.
void write_course(const std::string& path, const plan& about, const std::vector<block_history>& blocks, double seconds);

} // namespace jacobi3d
