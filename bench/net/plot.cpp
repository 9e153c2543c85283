// SPDX-License-Identifier: Apache-2.0
#include "bench/net/curves.hpp"

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tern::bench::net {
namespace {

struct colour {
  double red, green, blue;
};
constexpr colour ink{0.13, 0.15, 0.18}, faint{0.42, 0.45, 0.50}, grid{0.90, 0.91, 0.93}, paper{1, 1, 1};

struct look {
  colour hue;
  bool dashed, filled;
};
/// A rival and what runs over it have the same hue, ours stronger and with filled marks.
look look_of(const std::string& name) {
  const bool ours = name.find("Tern") != std::string::npos, other = name.find("MPICH") != std::string::npos;
  const bool less = name.find(", no") != std::string::npos;
  if (other) return ours ? look{{0.80, 0.36, 0.05}, false, true} : look{{0.93, 0.64, 0.32}, true, false};
  if (less) return {{0.20, 0.58, 0.42}, false, true};
  return ours ? look{{0.07, 0.34, 0.66}, false, true} : look{{0.42, 0.65, 0.88}, true, false};
}

struct point {
  double x, y;
};
struct curve {
  std::string name;
  look as;
  std::vector<point> points;
};

struct panel {
  std::string title, unit, what;
  double left, top, width, height; // of the axes, pixels
  double x_low, x_high, y_low, y_high;
  std::vector<curve> curves;
  double x(double value) const { return left + width * std::log(value / x_low) / std::log(x_high / x_low); }
  double y(double value) const { return top + height * (1 - std::log(value / y_low) / std::log(y_high / y_low)); }
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// A value of the y axis: 0.1 µs is 100 ns, 1000 µs is 1 ms.
std::string value_text(double value, const std::string& unit) {
  const bool time = unit == "µs";
  if (value >= 1e6 && time) return number(value / 1e6) + " s";
  if (value >= 1e3 && time) return number(value / 1e3) + " ms";
  if (value < 0.999) return number(value * 1e3) + (time ? " ns" : " MB/s");
  return number(value) + " " + unit;
}

std::string size_text(double size) {
  if (size < 1024) return number(size) + " B";
  if (size < 1048576) return number(size / 1024) + " KiB";
  return number(size / 1048576) + " MiB";
}

class painter {
public:
  painter(int width, int height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
        context_(cairo_create(surface_.get())) {
    if (cairo_status(context_.get()) != CAIRO_STATUS_SUCCESS) throw std::runtime_error("no memory for a picture");
    set(paper);
    cairo_paint(context_.get());
  }

  void draw(const panel& p) {
    cairo_t* c = context_.get();
    text(p.left, p.top - 26, p.title, 27, ink, 0, true);
    double size = p.x_low;
    for (; size <= p.x_high * 1.01; size *= 16) {
      rule(p.x(size), p.top, p.x(size), p.top + p.height, grid, 1.5);
      text(p.x(size), p.top + p.height + 32, size_text(size), 20, faint, 0.5);
    }
    if (p.x_high >= size / 2 * 0.99) // far enough from the last
      text(p.x(p.x_high), p.top + p.height + 32, size_text(p.x_high), 20, faint, 0.5);
    text(p.left + p.width / 2, p.top + p.height + 70, "size of a message", 21, ink, 0.5);
    for (int power = -4; power <= 6; ++power)
      for (int digit = 1; digit <= 9; ++digit) {
        const double value = digit * std::pow(10, power);
        if (value < p.y_low * 0.999 || value > p.y_high * 1.001) continue;
        const bool major = digit == 1;
        if (major || digit == 2 || digit == 5)
          rule(p.left, p.y(value), p.left + p.width, p.y(value), grid, major ? 2 : 1);
        if (major) text(p.left - 14, p.y(value) + 7, value_text(value, p.unit), 20, faint, 1);
      }
    cairo_save(c);
    cairo_rectangle(c, p.left, p.top, p.width, p.height);
    cairo_clip(c);
    for (const auto& one : p.curves) line(p, one);
    cairo_restore(c);
    for (const auto& one : p.curves) marks(p, one);
    rule(p.left, p.top + p.height, p.left + p.width, p.top + p.height, ink, 2);
    rule(p.left, p.top, p.left, p.top + p.height, ink, 2);
  }

  void legend(double x, double y, const std::vector<curve>& curves) {
    for (const auto& one : curves) {
      stroke_as(one.as);
      cairo_move_to(context_.get(), x, y);
      cairo_line_to(context_.get(), x + 64, y);
      cairo_stroke(context_.get());
      cairo_set_dash(context_.get(), nullptr, 0, 0);
      mark({x + 32, y}, one.as);
      x += 80;
      x += text(x, y + 7, one.name, 21, ink, 0) + 46;
    }
  }

  double text(double x, double y, const std::string& what, double size, const colour& in, double anchor,
              bool bold = false) {
    cairo_t* c = context_.get();
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, size);
    cairo_text_extents_t extents;
    cairo_text_extents(c, what.c_str(), &extents);
    set(in);
    cairo_move_to(c, x - anchor * extents.x_advance, y);
    cairo_show_text(c, what.c_str());
    return extents.x_advance;
  }

  void write(const std::string& path) {
    const cairo_status_t status = cairo_surface_write_to_png(surface_.get(), path.c_str());
    if (status != CAIRO_STATUS_SUCCESS)
      throw std::runtime_error("cannot write " + path + ": " + cairo_status_to_string(status));
  }

private:
  void set(const colour& c) { cairo_set_source_rgb(context_.get(), c.red, c.green, c.blue); }

  void rule(double x0, double y0, double x1, double y1, const colour& in, double thick) {
    set(in);
    cairo_set_line_width(context_.get(), thick);
    cairo_move_to(context_.get(), x0, y0);
    cairo_line_to(context_.get(), x1, y1);
    cairo_stroke(context_.get());
  }

  void stroke_as(const look& as) {
    constexpr std::array<double, 2> dashes{10, 7};
    set(as.hue);
    cairo_set_line_width(context_.get(), as.filled ? 3.2 : 2.8);
    cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(context_.get(), dashes.data(), as.dashed ? 2 : 0, 0);
  }

  void line(const panel& p, const curve& one) {
    stroke_as(one.as);
    for (const auto& at : one.points) cairo_line_to(context_.get(), p.x(at.x), p.y(at.y));
    cairo_stroke(context_.get());
    cairo_set_dash(context_.get(), nullptr, 0, 0);
  }
  void marks(const panel& p, const curve& one) {
    for (const auto& at : one.points) mark({p.x(at.x), p.y(at.y)}, one.as);
  }
  void mark(const point& at, const look& as) {
    cairo_t* c = context_.get();
    cairo_new_path(c);
    cairo_arc(c, at.x, at.y, 4.2, 0, 2 * 3.14159265358979);
    set(as.filled ? as.hue : paper);
    cairo_fill_preserve(c);
    set(as.hue);
    cairo_set_line_width(c, 2.2);
    cairo_stroke(c);
  }

  struct release {
    void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
    void operator()(cairo_t* c) const { cairo_destroy(c); }
  };
  std::unique_ptr<cairo_surface_t, release> surface_;
  std::unique_ptr<cairo_t, release> context_;
};

/// Fills in the curves and the ends of the axes: whole steps of 1, 2, 5.
void fill(panel& p, const nlohmann::ordered_json& curves) {
  double low = std::numeric_limits<double>::max(), high = 0;
  p.x_low = low;
  p.x_high = 0;
  for (const auto& one : curves.at("lines")) {
    if (!one.contains(p.what)) continue;
    curve next{one.at("name"), look_of(one.at("name")), {}};
    for (const auto& [size, value] : one.at(p.what).items()) next.points.push_back({std::stod(size), value});
    std::sort(next.points.begin(), next.points.end(), [](const point& a, const point& b) { return a.x < b.x; });
    for (const auto& at : next.points) {
      low = std::min(low, at.y);
      high = std::max(high, at.y);
      p.x_low = std::min(p.x_low, at.x);
      p.x_high = std::max(p.x_high, at.x);
    }
    p.curves.push_back(next);
  }
  if (p.curves.empty()) throw std::runtime_error("there are no points of " + p.what);
  const auto step_below = [](double value) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    return value >= 5 * power ? 5 * power : value >= 2 * power ? 2 * power : power;
  };
  p.y_low = step_below(low);
  p.y_high = step_below(high);
  while (p.y_high < high) p.y_high = step_below(p.y_high * 2.6); // 1 2 5 10
}

} // namespace

void plot(const nlohmann::ordered_json& curves, const std::string& path) {
  constexpr int width = 2000, height = 950;
  constexpr double top = 190, tall = 640;
  panel latency{"Half a round trip", "µs", "latency", 130, top, 800, tall, 0, 0, 0, 0, {}};
  panel bandwidth{"Bandwidth", "GB/s", "bandwidth", 1150, top, 800, tall, 0, 0, 0, 0, {}};
  fill(latency, curves);
  fill(bandwidth, curves);
  painter out(width, height);
  out.text(latency.left, 58, "Active messages between two processes of one host", 34, ink, 0, true);
  out.legend(latency.left, 106, latency.curves);
  out.draw(latency);
  out.draw(bandwidth);
  out.write(path);
}

} // namespace tern::bench::net
