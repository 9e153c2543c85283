// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A small software rasteriser: millions of triangles into pixels, faster than a vector library
/// draws thousands.

#include "apps/common/point.hpp"

#include <cstdint>
#include <vector>

namespace apps {

struct colour {
  std::uint8_t red = 0, green = 0, blue = 0;
};

/// \param share of `b`, 0 to 1.
colour mix(colour a, colour b, double share);

/// A rectangle of the plane seen on a rectangle of pixels, y upwards in the plane and downwards in
/// pixels.
struct view {
  point low;                 ///< the corner of the smallest coordinates
  double scale = 1;          ///< pixels for a unit of length
  int width = 1, height = 1; ///< pixels
  double x(double at) const { return (at - low.x) * scale; }
  double y(double at) const { return height - (at - low.y) * scale; }
};

/// Triangles drawn with several samples a pixel. Triangles that share edges leave no gap and don't
/// overlap visibly.
class raster {
public:
  /// \param samples along a side of a pixel.
  raster(const view& seen, int samples, colour background);
  /// Fills a triangle (either orientation). A line of about a pixel, half of it inside, darkens its
  /// edges by `edge` (0 to 1).
  void draw(const point& a, const point& b, const point& c, colour fill, float edge);
  /// Averages the samples into 32-bit pixels 0xffRRGGBB.
  void resolve(unsigned char* pixels, int stride) const;

private:
  void draw_with_edges(const float* x, const float* y, colour fill, float edge);

  view view_;
  int samples_, width_, height_; ///< width and height in samples
  double scale_;
  std::vector<std::uint32_t> buffer_;
};

} // namespace apps
