// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A picture of how long something takes by its size, in the form of pictures.hpp.

#include <string>
#include <vector>

namespace tern::pictures {

/// Times of one kernel on one device, for instance.
struct size_series {
  struct measured {
    double bytes, seconds, spread; ///< the first two above 0, spread in seconds
  };
  std::string name;
  std::vector<measured> points; ///< in any order
};
/// Both axes are logarithmic. A line for each series, with a bar of the spread at each point; the
/// legend has them in the order given.
struct size_picture {
  std::string title, subtitle;
  std::vector<size_series> series;
};
/// Writes a PNG file. \throws std::runtime_error that names the file, or if there is no cairo.
void draw(const size_picture& what, const std::string& path);

} // namespace tern::pictures
