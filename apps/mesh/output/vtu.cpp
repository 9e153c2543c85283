// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/output/vtu.hpp"

#include "apps/common/output_file.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace mesh {
namespace {

using apps::output_file;

static_assert(std::endian::native == std::endian::little, "the file says LittleEndian");

double square(const point& p, const point& q) { return (q.x - p.x) * (q.x - p.x) + (q.y - p.y) * (q.y - p.y); }

float longest_edge(const point& a, const point& b, const point& c) {
  return static_cast<float>(std::sqrt(std::max({square(a, b), square(b, c), square(c, a)})));
}

float smallest_angle(const point& a, const point& b, const point& c) {
  double ab = square(a, b), bc = square(b, c), ca = square(c, a);
  double twice_area = std::fabs((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x));
  // It lies opposite the shortest edge; the cosine rule gives its cosine times the other edges'
  // lengths.
  double cosine = (ab + bc + ca) / 2 - std::min({ab, bc, ca});
  return static_cast<float>(std::atan2(twice_area, cosine) * (180 / 3.14159265358979323846));
}

struct array_header {
  const char *type, *name;
  int components;
  std::uint64_t bytes;
};

} // namespace

void write_vtu(const std::string& path, const gathered_mesh& mesh, const domain& sea) {
  mesh.check();
  output_file file(path);
  const std::uint64_t points = mesh.points.size(), cells = mesh.triangles.size();
  std::uint64_t offset = 0;
  auto declare = [&](const array_header& a) {
    char line[200];
    std::snprintf(
        line, sizeof line,
        "<DataArray type=\"%s\" Name=\"%s\" NumberOfComponents=\"%d\" format=\"appended\" offset=\"%llu\"/>\n", a.type,
        a.name, a.components, static_cast<unsigned long long>(offset));
    offset += sizeof(std::uint64_t) + a.bytes;
    file.put(std::string(line));
  };
  point low = sea.proj.to_degrees(sea.low), high = sea.proj.to_degrees(sea.high);
  char box[200];
  std::snprintf(box, sizeof box, "%.10g %.10g %.10g %.10g", low.x, low.y, high.x, high.y);
  file.put("<?xml version=\"1.0\"?>\n<!-- Lengths in km: equidistant cylindrical projection of the box named below, "
           "which is "
           "in degrees. -->\n<VTKFile type=\"UnstructuredGrid\" version=\"1.0\" byte_order=\"LittleEndian\" "
           "header_type=\"UInt64\">\n<UnstructuredGrid>\n<FieldData>\n<DataArray type=\"Float64\" "
           "Name=\"west_south_east_north\" NumberOfTuples=\"4\" format=\"ascii\">" +
           std::string(box) + "</DataArray>\n</FieldData>\n<Piece NumberOfPoints=\"" + std::to_string(points) +
           "\" NumberOfCells=\"" + std::to_string(cells) + "\">\n<Points>\n");
  declare({"Float64", "points", 3, points * 24});
  file.put("</Points>\n<Cells>\n");
  declare({"Int32", "connectivity", 1, cells * 12});
  declare({"Int64", "offsets", 1, cells * 8});
  declare({"UInt8", "types", 1, cells});
  file.put("</Cells>\n<CellData Scalars=\"rank\">\n");
  declare({"UInt16", "rank", 1, cells * 2});
  declare({"UInt32", "group", 1, cells * 4});
  declare({"Float32", "size", 1, cells * 4});
  declare({"Float32", "angle", 1, cells * 4});
  file.put("</CellData>\n</Piece>\n</UnstructuredGrid>\n<AppendedData encoding=\"raw\">\n_");

  file.put_value(points * 24);
  for (const auto& p : mesh.points) {
    file.put_value(p.x);
    file.put_value(p.y);
    file.put_value(0.0);
  }
  file.put_value(cells * 12);
  file.put(mesh.triangles.data(), cells * 12);
  file.put_value(cells * 8);
  for (std::uint64_t i = 1; i <= cells; ++i) file.put_value(static_cast<std::int64_t>(3 * i));
  file.put_value(cells);
  constexpr std::uint8_t vtk_triangle = 5;
  for (std::uint64_t i = 0; i < cells; ++i) file.put_value(vtk_triangle);
  file.put_value(cells * 2);
  file.put(mesh.rank.data(), cells * 2);
  file.put_value(cells * 4);
  file.put(mesh.group.data(), cells * 4);
  const auto& at = mesh.points;
  file.put_value(cells * 4);
  for (const auto& t : mesh.triangles) file.put_value(longest_edge(at[t[0]], at[t[1]], at[t[2]]));
  file.put_value(cells * 4);
  for (const auto& t : mesh.triangles) file.put_value(smallest_angle(at[t[0]], at[t[1]], at[t[2]]));
  file.put("\n</AppendedData>\n</VTKFile>\n");
  file.close();
}

} // namespace mesh
