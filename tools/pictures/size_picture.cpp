// SPDX-License-Identifier: Apache-2.0
#include "tools/pictures/size_picture.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/pictures/canvas.hpp"
#include "tools/pictures/frame.hpp"

namespace tern::pictures {
namespace {

constexpr std::size_t names_most = 28; // for which the legend has room

std::string with_prefix(double value, std::span<const char* const> units) {
  std::size_t u = 0;
  for (; u + 1 < units.size() && value >= 999.5; ++u) value /= 1000;
  return number(value, value < 1 ? 1 : 0) + " " + units[u];
}
std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> units{"B", "kB", "MB", "GB", "TB", "PB"};
  return with_prefix(bytes, units);
}
std::string time_text(double seconds) {
  constexpr std::array<const char*, 4> units{"ns", "µs", "ms", "s"};
  return with_prefix(seconds * 1e9, units);
}

// From a little below the least to a little above the most; at least a decade.
axis around(double least, double most, std::string (*text_of)(double)) {
  axis a{least / 1.3, most * 1.3, true, false, text_of};
  if (const double missing = 10 / (a.high / a.low); missing > 1) {
    a.low /= std::sqrt(missing);
    a.high *= std::sqrt(missing);
  }
  return a;
}

} // namespace

void draw(const size_picture& what, const std::string& path) {
  canvas on(width, height);
  constexpr double left = 150, right = 470, top = 130, bottom = 84;
  double least_size = 1e300, most_size = 0, least_time = 1e300, most_time = 0;
  for (const size_series& s : what.series)
    for (const auto& p : s.points) {
      least_size = std::min(least_size, p.bytes);
      most_size = std::max(most_size, p.bytes);
      least_time = std::min(least_time, p.seconds);
      most_time = std::max(most_time, p.seconds);
    }
  if (most_size == 0) least_size = most_size = least_time = most_time = 1;
  const frame f{left,
                top,
                width - left - right,
                height - top - bottom,
                around(least_size, most_size, &bytes_text),
                around(least_time, most_time, &time_text)};
  headline(on, left, what.title, what.subtitle);
  for (const auto& tick : f.y.ticks(5)) on.rule(f.left, f.up(tick.value), f.right(), f.up(tick.value), {grid, 1.5});
  for (const auto& tick : f.x.ticks(10))
    on.rule(f.across(tick.value), f.top, f.across(tick.value), f.bottom(), {grid, 1});
  double y = f.top + 10;
  for (std::size_t i = 0; i < what.series.size(); ++i) {
    size_series s = what.series[i];
    std::sort(s.points.begin(), s.points.end(), [](const auto& a, const auto& b) {
      return a.bytes < b.bytes || (a.bytes == b.bytes && a.seconds < b.seconds);
    });
    const look as = look_of(i);
    std::vector<point> line;
    on.clip(f.left, f.top, f.wide, f.high);
    for (const auto& p : s.points) {
      line.push_back({f.across(p.bytes), f.up(p.seconds)});
      const double low = std::max(p.seconds - p.spread, f.y.low);
      on.rule(line.back().x, f.up(low), line.back().x, f.up(p.seconds + std::max(p.spread, 0.0)), {as.hue, 1.6});
    }
    on.line(line, {as.hue, 2.4, as.dashes});
    for (const point& p : line) on.disc(p, 4, paper, {as.hue, 2.2});
    on.unclip();
    if (i == names_most)
      on.text(f.right() + 30, y + 6, "and " + number(static_cast<double>(what.series.size() - i), 0) + " more", small,
              faint);
    if (i >= names_most) continue;
    on.rule(f.right() + 28, y, f.right() + 72, y, {as.hue, 3, as.dashes});
    on.text(f.right() + 82, y + 6, shortened(on, s.name, width - 24 - f.right() - 82, small), small, ink);
    y += 27;
  }
  draw_axes(on, f, "bytes that a task uses", "time", true);
  on.write(path);
}

} // namespace tern::pictures
