// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/output/vti.hpp"

#include "apps/common/output_file.hpp"

#include <bit>

#include <fmt/core.h>

namespace jacobi3d {

static_assert(std::endian::native == std::endian::little, "the file says LittleEndian");

template <class T>
void write_vti(const std::string& path, const cells& n, const std::vector<T>& values,
               const std::vector<std::uint16_t>& rank) {
  apps::output_file file(path);
  const std::uint64_t bytes = values.size() * sizeof(T);
  const std::string extent = fmt::format("0 {} 0 {} 0 {}", n[0], n[1], n[2]);
  file.put(
      fmt::format("<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\" "
                  "header_type=\"UInt64\">\n<ImageData WholeExtent=\"{0}\" Origin=\"0 0 0\" Spacing=\"1 1 1\">\n"
                  "<Piece Extent=\"{0}\">\n<CellData Scalars=\"heat\">\n"
                  "<DataArray type=\"Float{1}\" Name=\"heat\" format=\"appended\" offset=\"0\"/>\n"
                  "<DataArray type=\"UInt16\" Name=\"rank\" format=\"appended\" offset=\"{2}\"/>\n"
                  "</CellData>\n</Piece>\n</ImageData>\n<AppendedData encoding=\"raw\">\n_",
                  extent, 8 * sizeof(T), sizeof(std::uint64_t) + bytes));
  file.put_value(bytes);
  file.put(values.data(), bytes);
  file.put_value(static_cast<std::uint64_t>(rank.size() * sizeof rank[0]));
  file.put(rank.data(), rank.size() * sizeof rank[0]);
  file.put("\n</AppendedData>\n</VTKFile>\n");
  file.close();
}

template void write_vti(const std::string&, const cells&, const std::vector<double>&,
                        const std::vector<std::uint16_t>&);
template void write_vti(const std::string&, const cells&, const std::vector<float>&, const std::vector<std::uint16_t>&);

} // namespace jacobi3d
