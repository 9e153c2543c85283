// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/output/picture.hpp"

#include "apps/nbody/bodies/models.hpp"

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>

#include <fmt/core.h>

#include <tern/base/error.hpp>

namespace nbody {
namespace {

struct tint {
  float red, green, blue;
};

// Two galaxies of other stars, and their dark matter, which hardly shines.
tint tint_of(std::uint8_t label) {
  switch (label) {
  case first_disc:
    return {0.55F, 0.78F, 1.00F};
  case second_disc:
    return {1.00F, 0.72F, 0.38F};
  case first_halo:
    return {0.045F, 0.05F, 0.10F};
  case second_halo:
    return {0.085F, 0.05F, 0.05F};
  default: { // a file's own labels
    constexpr std::array<tint, 4> others{{{0.7F, 1, 0.6F}, {1, 0.55F, 0.75F}, {0.8F, 0.7F, 1}, {1, 1, 0.7F}}};
    return others[label % others.size()];
  }
  }
}

bool shines(std::uint8_t label) { return label != first_halo && label != second_halo; }

void blur(std::vector<float>& light, int n, int radius) {
  // Three running means of rows and columns are nearly Gaussian.
  std::vector<float> line(static_cast<std::size_t>(n));
  const auto pass = [&](std::size_t start, std::size_t step) {
    const float share = 1.0F / static_cast<float>(2 * radius + 1);
    float sum = 0;
    const auto at = [&](int i) -> float& { return light[start + static_cast<std::size_t>(i) * step]; };
    for (int i = 0; i < std::min(radius, n); ++i) sum += at(i);
    for (int i = 0; i < n; ++i) {
      if (i + radius < n) sum += at(i + radius);
      line[static_cast<std::size_t>(i)] = sum * share;
      if (i - radius >= 0) sum -= at(i - radius);
    }
    for (int i = 0; i < n; ++i) at(i) = std::max(0.0F, line[static_cast<std::size_t>(i)]);
  };
  const auto side = static_cast<std::size_t>(n);
  for (int again = 0; again < 3; ++again)
    for (std::size_t k = 0; k < side; ++k)
      for (std::size_t c = 0; c < 3; ++c) {
        pass(k * side * 3 + c, 3);
        pass(k * 3 + c, side * 3);
      }
}

void write_words(cairo_t* c, double x, double y, const std::string& what, double size, double shade) {
  cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(c, size);
  cairo_set_source_rgb(c, shade, shade, shade);
  cairo_move_to(c, x, y);
  cairo_show_text(c, what.c_str());
}

struct release_cairo {
  void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
  void operator()(cairo_t* c) const { cairo_destroy(c); }
};
using surface_ref = std::unique_ptr<cairo_surface_t, release_cairo>;

surface_ref surface_on(std::vector<std::uint32_t>& pixels, int n) {
  return surface_ref(cairo_image_surface_create_for_data(reinterpret_cast<unsigned char*>(pixels.data()),
                                                         CAIRO_FORMAT_RGB24, n, n, 4 * n));
}

} // namespace

camera camera_for(const std::vector<float>& x, const std::vector<float>& y, const std::vector<float>& z,
                  const std::vector<std::uint8_t>& label, int pixels) {
  camera seen;
  seen.pixels = pixels;
  std::vector<double> lit[3], away;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (shines(label[i])) {
      lit[0].push_back(x[i]);
      lit[1].push_back(y[i]);
      lit[2].push_back(z[i]);
    }
  if (lit[0].empty()) return seen;
  for (int d = 0; d < 3; ++d) {
    double sum = 0;
    for (const double v : lit[d]) sum += v;
    seen.middle[d] = sum / static_cast<double>(lit[d].size());
  }
  for (std::size_t i = 0; i < lit[0].size(); ++i)
    away.push_back(std::max(std::fabs(lit[0][i] - seen.middle[0]), std::fabs(lit[1][i] - seen.middle[1])));
  const auto at = static_cast<std::ptrdiff_t>(0.98 * static_cast<double>(away.size() - 1));
  std::nth_element(away.begin(), away.begin() + at, away.end());
  seen.side = std::max(2.3 * away[static_cast<std::size_t>(at)], 1e-12);
  return seen;
}

sky::sky(const camera& seen)
    : seen_(seen), light_(3 * static_cast<std::size_t>(seen.pixels) * static_cast<std::size_t>(seen.pixels)) {}

void sky::add(const std::vector<float>& x, const std::vector<float>& y, const std::vector<float>& z,
              const std::vector<std::uint8_t>& label) {
  const int n = seen_.pixels;
  const double scale = n / seen_.side, cosine = std::cos(seen_.tilt), sine = std::sin(seen_.tilt);
  const double spread = std::max(0.7, n / 1000.0);
  const int reach = static_cast<int>(std::ceil(2.5 * spread));
  const double narrow = 1 / (2 * spread * spread);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - seen_.middle[0], dy = y[i] - seen_.middle[1], dz = z[i] - seen_.middle[2];
    const double u = n / 2.0 + scale * dx, v = n / 2.0 - scale * (cosine * dy - sine * dz);
    if (!(u > -reach && v > -reach && u < n + reach && v < n + reach)) continue;
    const tint colour = tint_of(label[i]);
    const int column = static_cast<int>(std::floor(u)), row = static_cast<int>(std::floor(v));
    for (int r = std::max(0, row - reach); r <= std::min(n - 1, row + reach); ++r)
      for (int c = std::max(0, column - reach); c <= std::min(n - 1, column + reach); ++c) {
        const double du = c + 0.5 - u, dv = r + 0.5 - v;
        const auto spot = static_cast<float>(std::exp(-(du * du + dv * dv) * narrow));
        float* const at =
            &light_[3 * (static_cast<std::size_t>(r) * static_cast<std::size_t>(n) + static_cast<std::size_t>(c))];
        at[0] += spot * colour.red;
        at[1] += spot * colour.green;
        at[2] += spot * colour.blue;
      }
  }
}

double sky::bright() const {
  std::vector<float> lit;
  for (std::size_t i = 0; i < light_.size(); i += 3) {
    const float most = std::max({light_[i], light_[i + 1], light_[i + 2]});
    if (most > 0.02F) lit.push_back(most);
  }
  if (lit.empty()) return 1;
  const auto at = static_cast<std::ptrdiff_t>(0.99 * static_cast<double>(lit.size() - 1));
  std::nth_element(lit.begin(), lit.begin() + at, lit.end());
  return std::max(1e-6F, lit[static_cast<std::size_t>(at)]);
}

std::vector<std::uint32_t> sky::develop(double bright) const {
  // A glow around what is dense, as in a telescope, then brightness as asinh of light (Lupton and
  // others 2004): faint tails are seen beside bright cores, and colours stay.
  std::vector<float> glow = light_;
  blur(glow, seen_.pixels, std::max(1, seen_.pixels / 160));
  const std::size_t count = light_.size() / 3;
  std::vector<std::uint32_t> pixels(count);
  const double contrast = 12, full = std::asinh(contrast);
  for (std::size_t i = 0; i < count; ++i) {
    double rgb[3], mean = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      rgb[c] = (static_cast<double>(light_[3 * i + c]) + 0.35 * static_cast<double>(glow[3 * i + c])) / bright;
      mean += rgb[c] / 3;
    }
    const double stretch = mean > 0 ? std::asinh(contrast * mean) / full / mean : 0;
    std::uint32_t value = 0xff000000U;
    const double night[3] = {5, 6, 12};
    for (std::size_t c = 0; c < 3; ++c) {
      const double shade = night[c] + 250 * rgb[c] * stretch;
      value |= static_cast<std::uint32_t>(std::lround(std::min(shade, 255.0))) << (16 - 8 * c);
    }
    pixels[i] = value;
  }
  return pixels;
}

void write_marks(std::vector<std::uint32_t>& pixels, const camera& seen, const std::string& title) {
  if (title.empty()) return;
  const auto surface = surface_on(pixels, seen.pixels);
  const std::unique_ptr<cairo_t, release_cairo> c(cairo_create(surface.get()));
  const double unit = seen.pixels / 1000.0, margin = 28 * unit;
  write_words(c.get(), margin, margin + 18 * unit, title, 22 * unit, 0.85);
  // A scale of 1, 2 or 5 times a power of ten, at most a quarter of the side.
  double length = std::pow(10, std::floor(std::log10(seen.side / 4)));
  if (5 * length <= seen.side / 4)
    length *= 5;
  else if (2 * length <= seen.side / 4)
    length *= 2;
  const double wide = length / seen.side * seen.pixels, low = seen.pixels - margin;
  cairo_set_source_rgb(c.get(), 0.85, 0.85, 0.85);
  cairo_rectangle(c.get(), margin, low - 3 * unit, wide, 3 * unit);
  cairo_fill(c.get());
  write_words(c.get(), margin, low - 12 * unit, fmt::format("{:g}", length), 18 * unit, 0.85);
  cairo_surface_flush(surface.get());
}

void write_png(const std::string& path, std::vector<std::uint32_t> pixels, const camera& seen,
               const std::string& title) {
  write_marks(pixels, seen, title);
  const auto surface = surface_on(pixels, seen.pixels);
  const cairo_status_t status = cairo_surface_write_to_png(surface.get(), path.c_str());
  if (status != CAIRO_STATUS_SUCCESS)
    throw tern::error(tern::errc::io, "cannot write " + path + ": " + cairo_status_to_string(status),
                      "check that the folder exists, may be written and has space left");
}

} // namespace nbody
