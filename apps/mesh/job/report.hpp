// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// What the user gets to see: the table and the summary.

#include "apps/mesh/geometry/geometry.hpp"
#include "apps/mesh/job/job.hpp"
#include "apps/mesh/job/settings.hpp"
#include "apps/mesh/output/gathered.hpp"
#include "apps/mesh/refine/sequential.hpp"

#include <string>
#include <vector>

namespace mesh {

/// Brings all subdomains' triangles to rank 0; points that subdomains share become one. Collective;
/// empty elsewhere. `parts` receives the subdomains as they came, if not null.
gathered_mesh gather_mesh(const meshed& job, std::vector<extracted>* parts);

/// Whether the mesh is what was promised: subdomains' borders agree, the area is the polygons', and
/// no small angle comes from our own cuts.
bool conforms(const meshed& job, const domain& sea);

void print_table(const meshed& job, const domain& sea, const settings& wanted);
std::string summary_json(const meshed& job, const domain& sea, const settings& wanted);
std::string sequential_json(const sequential_result& result, const domain& sea, const settings& wanted,
                            const phase_times& times);

} // namespace mesh
