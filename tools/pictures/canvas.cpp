// SPDX-License-Identifier: Apache-2.0
#include "tools/pictures/canvas.hpp"

#include <cmath>
#include <stdexcept>

#ifdef TERN_CAIRO
#include <cairo.h>
#endif

namespace tern::pictures {

#ifdef TERN_CAIRO
struct canvas::state {
  struct release {
    void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
    void operator()(cairo_t* c) const { cairo_destroy(c); }
  };
  std::unique_ptr<cairo_surface_t, release> surface;
  std::unique_ptr<cairo_t, release> context;

  cairo_t* in(const colour& c) const {
    cairo_set_source_rgb(context.get(), c.red, c.green, c.blue);
    return context.get();
  }
  cairo_t* with(const stroke& s) const {
    cairo_t* c = in(s.hue);
    cairo_set_line_width(c, s.width);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(c, s.dashes.data(), static_cast<int>(s.dashes.size()), 0);
    return c;
  }
  cairo_t* font(double size, bool bold) const {
    cairo_t* c = context.get();
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, size);
    return c;
  }
  void path(std::span<const point> points) const {
    cairo_new_path(context.get());
    for (const auto& p : points) cairo_line_to(context.get(), p.x, p.y);
  }
};

canvas::canvas(int width, int height) : state_(std::make_unique<state>()) {
  state_->surface.reset(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  state_->context.reset(cairo_create(state_->surface.get()));
  if (cairo_status(state_->context.get()) != CAIRO_STATUS_SUCCESS) throw std::runtime_error("no memory for a picture");
  cairo_paint(state_->in(paper));
}

double canvas::length_of(const std::string& what, double size, bool bold) {
  cairo_text_extents_t extents;
  cairo_text_extents(state_->font(size, bold), what.c_str(), &extents);
  return extents.x_advance;
}

double canvas::text(double x, double y, const std::string& what, double size, const colour& in, double anchor,
                    bool bold) {
  const double length = length_of(what, size, bold);
  cairo_t* c = state_->in(in);
  cairo_move_to(c, x - anchor * length, y);
  cairo_show_text(c, what.c_str());
  return length;
}

void canvas::turned_text(double x, double y, const std::string& what, double size, const colour& in, double anchor) {
  cairo_t* c = state_->context.get();
  cairo_save(c);
  cairo_translate(c, x, y);
  cairo_rotate(c, -std::acos(-1.0) / 2);
  text(0, 0, what, size, in, anchor);
  cairo_restore(c);
}

void canvas::line(std::span<const point> through, const stroke& how) {
  cairo_t* c = state_->with(how);
  state_->path(through);
  cairo_stroke(c);
}

void canvas::rule(double x0, double y0, double x1, double y1, const stroke& how) {
  const point ends[]{{x0, y0}, {x1, y1}};
  line(ends, how);
}

void canvas::area(std::span<const point> around, const colour& in) {
  state_->path(around);
  cairo_fill(state_->in(in));
}

void canvas::box(double left, double top, double width, double height, const colour& in) {
  cairo_t* c = state_->in(in);
  const double x0 = std::round(left), y0 = std::round(top);
  cairo_new_path(c);
  cairo_rectangle(c, x0, y0, std::round(left + width) - x0, std::round(top + height) - y0);
  cairo_fill(c);
}

void canvas::disc(const point& at, double radius, const colour& in, const stroke& edge) {
  cairo_t* c = state_->in(in);
  cairo_new_path(c);
  cairo_arc(c, at.x, at.y, radius, 0, 2 * std::acos(-1.0));
  cairo_fill_preserve(c);
  cairo_stroke(state_->with(edge));
}

void canvas::clip(double left, double top, double width, double height) {
  cairo_t* c = state_->context.get();
  cairo_save(c);
  cairo_new_path(c);
  cairo_rectangle(c, left, top, width, height);
  cairo_clip(c);
}

void canvas::unclip() { cairo_restore(state_->context.get()); }

void canvas::write(const std::string& path) {
  const cairo_status_t status = cairo_surface_write_to_png(state_->surface.get(), path.c_str());
  if (status != CAIRO_STATUS_SUCCESS)
    throw std::runtime_error("cannot write " + path + ": " + cairo_status_to_string(status));
}
#else
struct canvas::state {};
canvas::canvas(int, int) { throw std::runtime_error("this was built without cairo (libcairo2-dev)"); }
double canvas::length_of(const std::string&, double, bool) { return 0; }
double canvas::text(double, double, const std::string&, double, const colour&, double, bool) { return 0; }
void canvas::turned_text(double, double, const std::string&, double, const colour&, double) {}
void canvas::line(std::span<const point>, const stroke&) {}
void canvas::rule(double, double, double, double, const stroke&) {}
void canvas::area(std::span<const point>, const colour&) {}
void canvas::box(double, double, double, double, const colour&) {}
void canvas::disc(const point&, double, const colour&, const stroke&) {}
void canvas::clip(double, double, double, double) {}
void canvas::unclip() {}
void canvas::write(const std::string&) {}
#endif

canvas::~canvas() = default;

} // namespace tern::pictures
