// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// What the user gets to see: the table, the summary, the pictures.

#include "gathered.hpp"
#include "geometry.hpp"
#include "job.hpp"
#include "sequential.hpp"
#include "settings.hpp"

#include <string>
#include <vector>

namespace mesh {

/// Brings all subdomains' triangles to rank 0; points that subdomains share become one. Collective; empty elsewhere.
/// `parts` receives the subdomains as they came, if not null.
gathered_mesh gather_mesh(const meshed& job, std::vector<extracted>* parts);

/// Whether the mesh is what was promised: subdomains' borders agree, the area is the polygons', and no small angle
/// comes from our own cuts.
bool conforms(const meshed& job, const domain& sea);

void print_table(const meshed& job, const domain& sea, const settings& wanted);
std::string summary_json(const meshed& job, const domain& sea, const settings& wanted);
std::string sequential_json(const sequential_result& result, const domain& sea, const settings& wanted,
                            const phase_times& times);

/// Makes the folder if need be and tries to write there. \throws tern::error(io) that names it and says why.
void check_writable(const std::string& folder);
/// Opens the file for writing, leaving what is in it; a file that was not there is not left. \throws tern::error(io).
void check_file_writable(const std::string& path);
/// \throws tern::error(io).
void write_text(const std::string& path, const std::string& text);

} // namespace mesh
