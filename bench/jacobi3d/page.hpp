// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The figures and pictures of docs/results/jacobi3d/README.md, all from one command.

#include <string>
#include <vector>

#include "bench/harness/harness.hpp"

namespace tern::bench {

/// Measures the lines, writes them into the page's blocks, beside what the literature has, and has
/// the application draw its pictures beside the page.
/// \throws std::runtime_error if the page cannot be read or written, or has other blocks; what a
/// measurement throws.
void write_jacobi3d_page(const std::string& path, const std::vector<metric>& lines, int pairs, const scale& of);

} // namespace tern::bench
