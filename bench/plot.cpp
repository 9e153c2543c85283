// SPDX-License-Identifier: Apache-2.0
#include "bench/plot.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>

#ifdef BENCH_CAIRO
#include <cairo.h>
#endif

namespace tern::bench {

double axis::place(double value) const {
  return even ? (value - low) / (high - low) : std::log(value / low) / std::log(high / low);
}

std::string axis_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

#ifdef BENCH_CAIRO
namespace {

constexpr colour ink{0.13, 0.15, 0.18}, faint{0.42, 0.45, 0.50}, grid{0.90, 0.91, 0.93}, paper{1, 1, 1};

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
    const double bottom = p.top + p.height, right = p.left + p.width;
    text(p.left, p.top - 26, p.title, 27, ink, 0, true);
    for (const auto& at : p.x.ticks) {
      rule(across(p, at.value), p.top, across(p, at.value), bottom, grid, 1.5);
      text(across(p, at.value), bottom + 32, at.text, 20, faint, 0.5);
    }
    text(p.left + p.width / 2, bottom + 70, p.x.what, 21, ink, 0.5);
    for (const auto& at : p.y.ticks) {
      rule(p.left, up(p, at.value), right, up(p, at.value), grid, at.text.empty() ? 1 : 2);
      text(p.left - 14, up(p, at.value) + 7, at.text, 20, faint, 1);
    }
    cairo_save(c);
    cairo_rectangle(c, p.left, p.top, p.width, p.height);
    cairo_clip(c);
    for (const auto& one : p.curves) line(p, one);
    cairo_restore(c);
    for (const auto& one : p.curves) marks(p, one);
    rule(p.left, bottom, right, bottom, ink, 2);
    rule(p.left, p.top, p.left, bottom, ink, 2);
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
  static double across(const panel& p, double value) { return p.left + p.width * p.x.place(value); }
  static double up(const panel& p, double value) { return p.top + p.height * (1 - p.y.place(value)); }
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
    for (const auto& at : one.points) cairo_line_to(context_.get(), across(p, at.x), up(p, at.y));
    cairo_stroke(context_.get());
    cairo_set_dash(context_.get(), nullptr, 0, 0);
  }
  void marks(const panel& p, const curve& one) {
    for (const auto& at : one.points) mark({across(p, at.x), up(p, at.y)}, one.as);
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

} // namespace

void draw(const picture& what, const std::string& path) {
  painter out(what.width, what.height);
  const panel& first = what.panels.at(0);
  out.text(first.left, 58, what.title, 34, ink, 0, true);
  out.legend(first.left, 106, first.curves);
  for (const auto& one : what.panels) out.draw(one);
  out.write(path);
}
#else
void draw(const picture&, const std::string&) {
  throw std::runtime_error("this was built without cairo (libcairo2-dev)");
}
#endif

namespace {
void draw_curves(const std::vector<std::string>& arguments, const std::function<nlohmann::ordered_json()>& measure,
                 const std::function<picture(const nlohmann::ordered_json&)>& picture_of) {
  nlohmann::ordered_json points;
  if (arguments.size() == 4 && arguments[2] == "--points") {
    std::ifstream file(arguments[3]);
    if (!file) throw std::runtime_error("cannot read " + arguments[3]);
    points = nlohmann::ordered_json::parse(file);
  } else {
    points = measure();
    std::printf("%s\n", points.dump().c_str());
  }
  draw(picture_of(points), arguments[1]);
}
} // namespace

int run_with_curves(const char* program, int argc, char** argv, const std::function<nlohmann::ordered_json()>& measure,
                    const std::function<picture(const nlohmann::ordered_json&)>& picture_of,
                    const std::function<std::vector<metric>()>& metrics) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2 || arguments[0] != "--curves") return run(argc, argv, metrics());
  try {
    draw_curves(arguments, measure, picture_of);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program, e.what());
    return 1;
  }
}

} // namespace tern::bench
