// SPDX-License-Identifier: Apache-2.0
#include "apps/common/raster.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace apps {
namespace {

constexpr float edge_half_width = 0.55F; // pixels

std::uint32_t packed(colour c) {
  return 0xff000000U | static_cast<std::uint32_t>(c.red) << 16 | static_cast<std::uint32_t>(c.green) << 8 | c.blue;
}

/// The first sample whose centre lies beyond `value`, limited to [0, count]. (Rounding by
/// truncation: the library's ceil is a call on plain x86-64.)
int first_centre(float value, int count) {
  float next = value + 0.5F;
  return next >= static_cast<float>(count) ? count : next > 0 ? static_cast<int>(next) : 0;
}

} // namespace

colour mix(colour a, colour b, double share) {
  auto channel = [&](std::uint8_t p, std::uint8_t q) {
    return static_cast<std::uint8_t>(std::lround(p + (q - p) * std::clamp(share, 0.0, 1.0)));
  };
  return {channel(a.red, b.red), channel(a.green, b.green), channel(a.blue, b.blue)};
}

raster::raster(const view& seen, int samples, colour background)
    : view_(seen), samples_(samples), width_(seen.width * samples), height_(seen.height * samples),
      scale_(seen.scale * samples),
      buffer_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_), packed(background)) {}

void raster::draw(const point& a, const point& b, const point& c, colour fill, float edge) {
  const point corners[3] = {a, b, c};
  float x[3], y[3];
  for (int i = 0; i < 3; ++i) {
    x[i] = static_cast<float>((corners[i].x - view_.low.x) * scale_);
    y[i] = static_cast<float>(height_ - (corners[i].y - view_.low.y) * scale_);
  }
  if (std::max({x[0], x[1], x[2]}) < 0 || std::min({x[0], x[1], x[2]}) > static_cast<float>(width_)) return;
  auto order = [&](int i, int j) {
    if (y[j] < y[i]) {
      std::swap(y[i], y[j]);
      std::swap(x[i], x[j]);
    }
  };
  order(0, 1);
  order(1, 2);
  order(0, 1);
  if (y[2] < 0 || y[0] > static_cast<float>(height_)) return;
  if (edge > 0) return draw_with_edges(x, y, fill, edge);
  const std::uint32_t value = packed(fill);
  const int top = first_centre(y[0], height_), bottom = first_centre(y[2], height_);
  if (top >= bottom) return;
  const float slope_long = (x[2] - x[0]) / (y[2] - y[0]);
  const float slope_upper = y[1] > y[0] ? (x[1] - x[0]) / (y[1] - y[0]) : 0;
  const float slope_lower = y[2] > y[1] ? (x[2] - x[1]) / (y[2] - y[1]) : 0;
  for (int row = top; row < bottom; ++row) {
    float at = static_cast<float>(row) + 0.5F;
    float p = x[0] + slope_long * (at - y[0]);
    float q = at < y[1] ? x[0] + slope_upper * (at - y[0]) : x[1] + slope_lower * (at - y[1]);
    if (q < p) std::swap(p, q);
    int from = first_centre(p, width_), to = first_centre(q, width_);
    std::uint32_t* line = buffer_.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(width_);
    for (int i = from; i < to; ++i) line[i] = value;
  }
}

void raster::draw_with_edges(const float* x, const float* y, colour fill, float edge) {
  const int top = first_centre(y[0], height_), bottom = first_centre(y[2], height_);
  if (top >= bottom) return;
  // Distances to the edges, in pixels and positive inside: d[i] = u[i] * x + v[i] * y + w[i].
  float u[3], v[3], w[3];
  const float turn = (x[1] - x[0]) * (y[2] - y[0]) - (y[1] - y[0]) * (x[2] - x[0]);
  for (int i = 0; i < 3; ++i) {
    int j = (i + 1) % 3;
    float dx = x[j] - x[i], dy = y[j] - y[i], length = std::sqrt(dx * dx + dy * dy);
    float unit = length > 0 ? (turn > 0 ? 1 : -1) / (length * static_cast<float>(samples_)) : 0;
    u[i] = -dy * unit;
    v[i] = dx * unit;
    w[i] = -(u[i] * x[i] + v[i] * y[i]);
  }
  std::uint32_t shades[33];
  for (int k = 0; k <= 32; ++k) shades[k] = packed(mix(fill, colour{18, 28, 44}, edge * static_cast<float>(k) / 32));
  for (int row = top; row < bottom; ++row) {
    float at = static_cast<float>(row) + 0.5F;
    float p = x[0] + (x[2] - x[0]) * (at - y[0]) / (y[2] - y[0]);
    float q = at < y[1] ? x[0] + (x[1] - x[0]) * (at - y[0]) / (y[1] - y[0])
                        : x[1] + (y[2] > y[1] ? (x[2] - x[1]) * (at - y[1]) / (y[2] - y[1]) : 0);
    if (q < p) std::swap(p, q);
    int from = first_centre(p, width_), to = first_centre(q, width_);
    std::uint32_t* line = buffer_.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(width_);
    for (int i = from; i < to; ++i) {
      float sx = static_cast<float>(i) + 0.5F;
      float d = std::min({u[0] * sx + v[0] * at + w[0], u[1] * sx + v[1] * at + w[1], u[2] * sx + v[2] * at + w[2]});
      float darkness = std::clamp(edge_half_width + 0.5F - d, 0.0F, 1.0F);
      line[i] = shades[static_cast<int>(darkness * 32 + 0.5F)];
    }
  }
}

void raster::resolve(unsigned char* pixels, int stride) const {
  const auto count = static_cast<std::uint32_t>(samples_ * samples_);
  for (int row = 0; row < view_.height; ++row)
    for (int column = 0; column < view_.width; ++column) {
      std::uint32_t red = count / 2, green = count / 2, blue = count / 2;
      for (int j = 0; j < samples_; ++j) {
        const std::uint32_t* line = buffer_.data() +
                                    static_cast<std::size_t>(row * samples_ + j) * static_cast<std::size_t>(width_) +
                                    static_cast<std::size_t>(column * samples_);
        for (int i = 0; i < samples_; ++i) {
          red += line[i] >> 16 & 255;
          green += line[i] >> 8 & 255;
          blue += line[i] & 255;
        }
      }
      std::uint32_t value = 0xff000000U | red / count << 16 | green / count << 8 | blue / count;
      std::memcpy(pixels + static_cast<std::ptrdiff_t>(row) * stride + column * 4, &value, sizeof value);
    }
}

} // namespace apps
