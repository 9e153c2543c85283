// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/output/gathered.hpp"

#include <tern/base/error.hpp>

#include <limits>

namespace mesh {

void gathered_mesh::check() const {
  using tern::errc;
  if (rank.size() != triangles.size() || group.size() != triangles.size())
    throw tern::error(errc::invalid_argument, "a mesh of " + std::to_string(triangles.size()) + " triangles has " +
                                                  std::to_string(rank.size()) + " ranks and " +
                                                  std::to_string(group.size()) + " groups");
  if (points.size() > std::numeric_limits<std::int32_t>::max())
    throw tern::error(errc::unsupported,
                      "a mesh of " + std::to_string(points.size()) + " points is too large to write");
  std::uint32_t largest = 0;
  for (const auto& t : triangles)
    for (std::uint32_t i : t) largest = largest < i ? i : largest;
  if (!triangles.empty() && largest >= points.size())
    throw tern::error(errc::invalid_argument, "a triangle refers to point " + std::to_string(largest) +
                                                  " of a mesh that has " + std::to_string(points.size()));
}

} // namespace mesh
