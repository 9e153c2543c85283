// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/output/vtu.hpp"

#include "apps/common/output_file.hpp"

#include <bit>

#include <fmt/core.h>

namespace nbody {

static_assert(std::endian::native == std::endian::little, "the file says LittleEndian");

void write_vtu(const std::string& path, const bodies& all, const accelerations& pull,
               const std::vector<std::uint16_t>& rank) {
  apps::output_file file(path);
  const std::uint64_t n = all.size();
  std::uint64_t offset = 0;
  const auto declare = [&](const char* type, const char* name, int components, std::uint64_t bytes) {
    file.put(fmt::format("<DataArray type=\"{}\" Name=\"{}\" NumberOfComponents=\"{}\" format=\"appended\" "
                         "offset=\"{}\"/>\n",
                         type, name, components, offset));
    offset += sizeof(std::uint64_t) + bytes;
  };
  file.put(fmt::format("<?xml version=\"1.0\"?>\n<VTKFile type=\"UnstructuredGrid\" version=\"1.0\" "
                       "byte_order=\"LittleEndian\" header_type=\"UInt64\">\n<UnstructuredGrid>\n"
                       "<Piece NumberOfPoints=\"{0}\" NumberOfCells=\"{0}\">\n<Points>\n",
                       n));
  declare("Float64", "points", 3, n * 24);
  file.put("</Points>\n<Cells>\n");
  declare("Int64", "connectivity", 1, n * 8);
  declare("Int64", "offsets", 1, n * 8);
  declare("UInt8", "types", 1, n);
  file.put("</Cells>\n<PointData Scalars=\"potential\" Vectors=\"velocity\">\n");
  declare("Float64", "velocity", 3, n * 24);
  declare("Float64", "mass", 1, n * 8);
  declare("Float64", "potential", 1, n * 8);
  declare("UInt32", "id", 1, n * 4);
  declare("UInt8", "label", 1, n);
  declare("UInt16", "rank", 1, n * 2);
  file.put("</PointData>\n</Piece>\n</UnstructuredGrid>\n<AppendedData encoding=\"raw\">\n_");
  const auto vectors = [&](const auto& x, const auto& y, const auto& z) {
    file.put_value(n * 24);
    for (std::uint64_t i = 0; i < n; ++i) {
      file.put_value(x[i]);
      file.put_value(y[i]);
      file.put_value(z[i]);
    }
  };
  const auto values = [&](const auto& a) {
    file.put_value(n * sizeof a[0]);
    file.put(a.data(), n * sizeof a[0]);
  };
  vectors(all.x, all.y, all.z);
  file.put_value(n * 8);
  for (std::uint64_t i = 0; i < n; ++i) file.put_value(static_cast<std::int64_t>(i));
  file.put_value(n * 8);
  for (std::uint64_t i = 1; i <= n; ++i) file.put_value(static_cast<std::int64_t>(i));
  file.put_value(n);
  constexpr std::uint8_t vtk_vertex = 1;
  for (std::uint64_t i = 0; i < n; ++i) file.put_value(vtk_vertex);
  vectors(all.vx, all.vy, all.vz);
  values(all.mass);
  values(pull.potential);
  values(all.id);
  values(all.label);
  values(rank);
  file.put("\n</AppendedData>\n</VTKFile>\n");
  file.close();
}

} // namespace nbody
