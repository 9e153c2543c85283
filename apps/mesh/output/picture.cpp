// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/output/picture.hpp"

#include "apps/common/output_file.hpp"
#include "apps/common/palette.hpp"
#include "apps/common/raster.hpp"
#include "apps/mesh/output/summary.hpp"

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>

namespace mesh {
namespace {

using apps::colour;
using apps::faint;
using apps::group_shade;
using apps::ink;
using apps::output_file;
using apps::paper;
using apps::rank_colour;
using apps::raster;
using apps::sand;
using apps::shore;
using apps::size_colour;
using apps::view;

std::string text(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

/// 2123981 -> "2 123 981", with thin spaces.
std::string grouped(std::size_t value) {
  std::string digits = std::to_string(value), result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += "\u2009";
    result += digits[i];
  }
  return result;
}

std::string length_text(double km) {
  if (km >= 1) return text(km >= 10 ? "%.0f km" : "%.3g km", km);
  return text("%.3g m", km * 1000);
}

std::string degrees_text(double value, bool longitude) {
  const char* side = longitude ? (value < 0 ? "W" : "E") : (value < 0 ? "S" : "N");
  if (std::fabs(value) < 1e-9) side = "";
  return text("%.10g°", std::round(std::fabs(value) * 1e4) / 1e4) + side;
}

/// The largest of 1, 2, 5 times a power of ten that is not above `value`.
double round_length(double value) {
  double power = std::pow(10, std::floor(std::log10(value)));
  return value >= 5 * power ? 5 * power : value >= 2 * power ? 2 * power : power;
}

struct rectangle {
  double x = 0, y = 0, width = 0, height = 0;
};

class painter {
public:
  painter(const gathered_mesh& m, const domain& sea, const picture_style& style)
      : mesh_(m), sea_(sea), style_(style), about_(m), unit_(std::clamp(style.width, 600, 8000) / 2000.0) {
    for (int k = 0; k < 256; ++k) sizes_.push_back(size_colour(k / 255.0));
    log_bar_low_ = static_cast<float>(std::log2(about_.bar_low));
    per_log_bar_ = static_cast<float>(1 / std::log2(about_.bar_high / about_.bar_low));
    lay_out();
    surface_.reset(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width_, height_));
    context_.reset(cairo_create(surface_.get()));
    if (cairo_status(context_.get()) != CAIRO_STATUS_SUCCESS)
      throw tern::error(tern::errc::out_of_memory, "no memory for a picture of " + std::to_string(width_) + " x " +
                                                       std::to_string(height_) + " pixels");
  }

  void paint() {
    set(paper);
    cairo_paint(context_.get());
    fill_map(map_view_, map_, 2);
    draw_coast(map_view_, map_, 1.1);
    graticule();
    frame(map_, 1.6);
    if (style_.inset) magnifier();
    headline();
    legend();
  }

  void write(const std::string& path) {
    struct sink {
      output_file file;
      std::exception_ptr failure;
    } out{output_file(path), {}};
    // The exception must not pass through cairo's C.
    auto put = [](void* closure, const unsigned char* data, unsigned size) {
      auto* to = static_cast<sink*>(closure);
      try {
        to->file.put(data, size);
        return CAIRO_STATUS_SUCCESS;
      } catch (...) {
        to->failure = std::current_exception();
        return CAIRO_STATUS_WRITE_ERROR;
      }
    };
    cairo_surface_flush(surface_.get());
    cairo_status_t status = cairo_surface_write_to_png_stream(surface_.get(), put, &out);
    if (out.failure) std::rethrow_exception(out.failure);
    if (status != CAIRO_STATUS_SUCCESS)
      throw tern::error(tern::errc::io, "cannot write " + path + ": " + cairo_status_to_string(status));
    out.file.close();
  }

private:
  /// Beside the map stands a panel (magnifier, legend); under it where the box is wide.
  void lay_out() {
    const double box_width = sea_.high.x - sea_.low.x, box_height = sea_.high.y - sea_.low.y;
    const double aspect = box_width / box_height;
    const double left = 92 * unit_, top = 128 * unit_, right = 44 * unit_, below = 66 * unit_, gap = 44 * unit_;
    const double panel = 430 * unit_, longest = 1450 * unit_;
    wide_ = aspect > 2.1;
    double width = wide_ ? 2000 * unit_ - left - right : 2000 * unit_ - left - gap - panel - right;
    double height = width / aspect;
    if (height > longest) {
      height = longest;
      width = height * aspect;
    }
    width = std::max(1.0, std::round(width));
    height = std::max(1.0, std::round(height));
    map_ = {std::round(left), std::round(top), width, height};
    if (wide_) {
      inset_ = {map_.x, map_.y + height + below + 14 * unit_, panel, panel};
      legend_x_ = inset_.x + (style_.inset ? panel + gap : 0);
      legend_y_ = inset_.y;
      height_ = static_cast<int>(inset_.y + panel + 60 * unit_);
      width_ = static_cast<int>(2000 * unit_);
    } else {
      const double legend_height = 470 * unit_;
      inset_ = {map_.x + width + gap, map_.y, panel, std::clamp(map_.height - legend_height, panel, 1.4 * panel)};
      legend_x_ = inset_.x;
      legend_y_ = map_.y + (style_.inset ? inset_.height + 66 * unit_ : 0);
      double needed = legend_y_ + legend_height;
      height_ = static_cast<int>(std::max(map_.y + height + below, needed));
      // A narrow box leaves the title more room than itself.
      width_ = static_cast<int>(inset_.x + panel + right);
    }
    map_view_ = {sea_.low, width / box_width, static_cast<int>(width), static_cast<int>(height)};
  }

  colour colour_of(std::size_t i, float edge) {
    if (style_.colour == colour_by::rank) {
      if (mesh_.rank[i] != last_rank_ || mesh_.group[i] != last_group_) {
        last_rank_ = mesh_.rank[i];
        last_group_ = mesh_.group[i];
        last_colour_ = group_shade(rank_colour(last_rank_), last_group_);
      }
      return last_colour_;
    }
    float share = (std::log2(edge) - log_bar_low_) * per_log_bar_;
    return sizes_[static_cast<std::size_t>(std::clamp(share, 0.0F, 1.0F) * 255 + 0.5F)];
  }

  void fill_map(const view& seen, const rectangle& to, int samples) {
    raster canvas(seen, samples, sand);
    const double east = seen.low.x + seen.width / seen.scale, north = seen.low.y + seen.height / seen.scale;
    const auto pixels_per_km = static_cast<float>(seen.scale / unit_);
    for (std::size_t i = 0; i < mesh_.triangles.size(); ++i) {
      const auto& t = mesh_.triangles[i];
      const point &a = mesh_.points[t[0]], &b = mesh_.points[t[1]], &c = mesh_.points[t[2]];
      if (std::max({a.x, b.x, c.x}) < seen.low.x || std::min({a.x, b.x, c.x}) > east ||
          std::max({a.y, b.y, c.y}) < seen.low.y || std::min({a.y, b.y, c.y}) > north)
        continue;
      const float edge = about_.edges[i];
      // Lines around triangles of a few pixels would only darken the sea.
      float visible = std::clamp((edge * pixels_per_km - 3) / 6, 0.0F, 1.0F);
      canvas.draw(a, b, c, colour_of(i, edge), 0.62F * visible * visible * (3 - 2 * visible));
    }
    cairo_surface_flush(surface_.get());
    int stride = cairo_image_surface_get_stride(surface_.get());
    canvas.resolve(cairo_image_surface_get_data(surface_.get()) + static_cast<std::ptrdiff_t>(to.y) * stride +
                       static_cast<std::ptrdiff_t>(to.x) * 4,
                   stride);
    cairo_surface_mark_dirty(surface_.get());
  }

  void draw_coast(const view& seen, const rectangle& to, double line) {
    cairo_t* c = context_.get();
    cairo_save(c);
    cairo_rectangle(c, to.x, to.y, to.width, to.height);
    cairo_clip(c);
    set(shore);
    cairo_set_line_width(c, line * unit_);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(c, CAIRO_LINE_CAP_ROUND);
    const double east = seen.low.x + seen.width / seen.scale, north = seen.low.y + seen.height / seen.scale;
    point last{std::numeric_limits<double>::max(), 0};
    int pieces = 0;
    for (std::size_t i = 0; i < sea_.coast; ++i) {
      const segment& s = sea_.boundary[i];
      if (std::max(s.a.x, s.b.x) < seen.low.x || std::min(s.a.x, s.b.x) > east || std::max(s.a.y, s.b.y) < seen.low.y ||
          std::min(s.a.y, s.b.y) > north)
        continue;
      if (s.a != last) cairo_move_to(c, to.x + seen.x(s.a.x), to.y + seen.y(s.a.y));
      cairo_line_to(c, to.x + seen.x(s.b.x), to.y + seen.y(s.b.y));
      last = s.b;
      if (++pieces % 1000 == 0) { // cairo's time grows faster than a path
        cairo_stroke(c);
        last = {std::numeric_limits<double>::max(), 0};
      }
    }
    cairo_stroke(c);
    cairo_restore(c);
  }

  void graticule() {
    cairo_t* c = context_.get();
    const point low = sea_.proj.to_degrees(sea_.low), high = sea_.proj.to_degrees(sea_.high);
    const double per_degree = map_.width / (high.x - low.x), per_degree_north = map_.height / (high.y - low.y);
    double step = 90;
    for (double candidate : {45.0, 30.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002,
                             0.001, 0.0005, 0.0002, 0.0001})
      if (candidate * per_degree_north >= 120 * unit_ && candidate * per_degree >= 120 * unit_) step = candidate;
    auto lines = [&](double from, double to, auto&& draw) {
      for (auto k = static_cast<long>(std::ceil(from / step - 1e-9)); static_cast<double>(k) * step <= to + 1e-9; ++k)
        draw(static_cast<double>(k) * step);
    };
    cairo_set_line_width(c, 1 * unit_);
    auto draw_line = [&](double x0, double y0, double x1, double y1) {
      cairo_set_source_rgba(c, 0.1, 0.14, 0.2, 0.16);
      cairo_move_to(c, x0, y0);
      cairo_line_to(c, x1, y1);
      cairo_stroke(c);
    };
    lines(low.x, high.x, [&](double longitude) {
      double x = map_.x + (longitude - low.x) * per_degree;
      draw_line(x, map_.y, x, map_.y + map_.height);
      write_text(x, map_.y + map_.height + 30 * unit_, degrees_text(longitude, true), 19, faint, 0.5);
    });
    lines(low.y, high.y, [&](double latitude) {
      double y = map_.y + map_.height - (latitude - low.y) * per_degree_north;
      draw_line(map_.x, y, map_.x + map_.width, y);
      write_text(map_.x - 12 * unit_, y + 7 * unit_, degrees_text(latitude, false), 19, faint, 1);
    });
  }

  void magnifier() {
    const double shorter = std::min(sea_.high.x - sea_.low.x, sea_.high.y - sea_.low.y);
    double side = style_.inset_km > 0 && std::isfinite(style_.inset_km) ? style_.inset_km : 48 * about_.fine;
    side = std::min(side, shorter / 2);
    const double tall = side * inset_.height / inset_.width;
    point centre = style_.inset_degrees ? sea_.proj.to_km(style_.inset_degrees->x, style_.inset_degrees->y)
                                        : interesting_place(mesh_, sea_, side);
    auto keep_inside = [](double value, double low, double high, double extent) {
      return std::clamp(std::isfinite(value) ? value : low, low + extent / 2,
                        std::max(low + extent / 2, high - extent / 2));
    };
    centre = {keep_inside(centre.x, sea_.low.x, sea_.high.x, side),
              keep_inside(centre.y, sea_.low.y, sea_.high.y, tall)};
    inset_.x = std::round(inset_.x);
    inset_.y = std::round(inset_.y);
    inset_.width = std::round(inset_.width);
    inset_.height = std::round(inset_.height);
    view seen{{centre.x - side / 2, centre.y - tall / 2},
              inset_.width / side,
              static_cast<int>(inset_.width),
              static_cast<int>(inset_.height)};
    fill_map(seen, inset_, 3);
    draw_coast(seen, inset_, 2.4);

    rectangle spot{map_.x + map_view_.x(seen.low.x), map_.y + map_view_.y(seen.low.y + tall), side * map_view_.scale,
                   tall * map_view_.scale};
    const double least = 9 * unit_; // a place too small to see is marked by a larger square
    if (spot.width < least)
      spot = {spot.x - (least - spot.width) / 2, spot.y - (least - spot.height) / 2, least,
              std::max(least, spot.height)};
    cairo_t* c = context_.get();
    auto leader = [&] {
      double x0 = wide_ ? spot.x : spot.x + spot.width, y0 = wide_ ? spot.y + spot.height : spot.y;
      cairo_move_to(c, x0, y0);
      cairo_line_to(c, inset_.x, inset_.y);
      cairo_move_to(c, spot.x + spot.width, spot.y + spot.height);
      cairo_line_to(c, wide_ ? inset_.x + inset_.width : inset_.x, wide_ ? inset_.y : inset_.y + inset_.height);
    };
    leader();
    cairo_set_source_rgba(c, 1, 1, 1, 0.65);
    cairo_set_line_width(c, 3.6 * unit_);
    cairo_stroke(c);
    leader();
    set(ink);
    cairo_set_line_width(c, 1.3 * unit_);
    cairo_stroke(c);
    cairo_rectangle(c, spot.x, spot.y, spot.width, spot.height);
    cairo_set_source_rgba(c, 1, 1, 1, 0.9);
    cairo_set_line_width(c, 4.5 * unit_);
    cairo_stroke(c);
    frame(spot, 2.2);
    frame(inset_, 2.2);
    point where = sea_.proj.to_degrees(centre);
    write_text(inset_.x, inset_.y + inset_.height + 28 * unit_,
               "Magnified " + text("%.0f", seen.scale / map_view_.scale) + "×, " + length_text(side) + " across, at " +
                   degrees_text(std::round(where.x * 100) / 100, true) + " " +
                   degrees_text(std::round(where.y * 100) / 100, false),
               17, faint, 0);
  }

  void headline() {
    const bool by_rank = style_.colour == colour_by::rank;
    std::string title = style_.title;
    if (title.empty()) title = by_rank ? "A mesh of the sea, by owner rank" : "A mesh of the sea, by triangle size";
    std::string subtitle = style_.subtitle;
    auto several = [](std::size_t n, const char* what) { return grouped(n) + " " + what + (n == 1 ? "" : "s"); };
    if (subtitle.empty())
      subtitle = several(mesh_.triangles.size(), "triangle") + " in " + several(about_.groups, "group") + " on " +
                 several(about_.ranks, "rank");
    if (style_.subtitle.empty() && !mesh_.triangles.empty()) {
      const std::string from = length_text(about_.smallest), to = length_text(about_.largest);
      subtitle += from == to ? ", longest edges " + from : ", longest edges from " + from + " to " + to;
    }
    write_text(map_.x, 66 * unit_, title, 40, ink, 0, true, width_ - map_.x - 30 * unit_);
    write_text(map_.x, 104 * unit_, subtitle, 21, faint, 0, false, width_ - map_.x - 30 * unit_);
  }

  void legend() {
    cairo_t* c = context_.get();
    double x = legend_x_, y = legend_y_ + 20 * unit_;
    const double width = 430 * unit_;
    if (style_.colour == colour_by::rank) {
      write_text(x, y, "Owner rank", 22, ink, 0, true);
      y += 18 * unit_;
      constexpr std::size_t rows = 6, most = 2 * rows;
      std::size_t shown = 0, left_out = 0;
      for (std::size_t r = 0; r < about_.by_rank.size(); ++r) {
        if (about_.by_rank[r] == 0) continue;
        if (shown == most) {
          ++left_out;
          continue;
        }
        const auto legend_column = shown / rows; // whole: which of the two
        double at_x = x + static_cast<double>(legend_column) * width / 2,
               at_y = y + static_cast<double>(shown % rows) * 38 * unit_;
        for (std::uint32_t k = 0; k < 5; ++k) { // the shades of its groups
          set(group_shade(rank_colour(r), k));
          cairo_rectangle(c, at_x + k * 12 * unit_, at_y, 12.5 * unit_, 24 * unit_);
          cairo_fill(c);
        }
        bool one_column = about_.ranks <= rows;
        write_text(at_x + 74 * unit_, at_y + 19 * unit_,
                   std::to_string(r) + (one_column ? "   " + grouped(about_.by_rank[r]) + " triangles" : ""), 19, ink,
                   0);
        ++shown;
      }
      y += static_cast<double>(std::min(std::max(shown, std::size_t{1}), rows)) * 38 * unit_ + 20 * unit_;
      write_text(x, y,
                 left_out ? "and " + std::to_string(left_out) + " more ranks; shades are groups"
                          : "Shades of a hue are groups of that rank",
                 17, faint, 0);
    } else {
      y = size_legend(x, y, width);
    }
    scale_bar(x, y + 56 * unit_);
  }

  /// How many triangles have which size, over the colours' bar. \return where the next thing may
  /// be.
  double size_legend(double x, double y, double width) {
    cairo_t* c = context_.get();
    write_text(x, y, "Triangles by longest edge", 22, ink, 0, true);
    y += 16 * unit_;
    const double tallest = 120 * unit_, ratio = std::log(about_.bar_high / about_.bar_low);
    auto place = [&](double km) { return std::log(km / about_.bar_low) / ratio; };
    const std::size_t first = summary::bin(about_.bar_low), last = summary::bin(about_.bar_high);
    std::size_t most = 1;
    for (std::size_t b = first; b <= last; ++b) most = std::max(most, about_.histogram[b]);
    for (std::size_t b = first; b <= last && !about_.edges.empty(); ++b) {
      double from = std::clamp(place(summary::bin_start(b)), 0.0, 1.0),
             to = std::clamp(place(summary::bin_start(b + 1)), 0.0, 1.0);
      double high = tallest * static_cast<double>(about_.histogram[b]) / static_cast<double>(most);
      set(size_colour((from + to) / 2));
      cairo_rectangle(c, x + from * width, y + tallest - high, std::max(0.0, (to - from) * width - unit_), high);
      cairo_fill(c);
    }
    y += tallest + 6 * unit_;
    for (int k = 0; k < 215; ++k) {
      set(size_colour((k + 0.5) / 215));
      cairo_rectangle(c, x + k * width / 215, y, width / 215 + 0.5 * unit_, 22 * unit_);
      cairo_fill(c);
    }
    frame({x, y, width, 22 * unit_}, 1);
    double free = -1e9; // where a label fits
    set(ink);
    cairo_set_line_width(c, 1.2 * unit_);
    for (int power = -6; power <= 4; ++power)
      for (int digit = 1; digit <= 9; ++digit) {
        double km = digit * std::pow(10, power), at = place(km), tick = x + at * width;
        if (at < -1e-9 || at > 1 + 1e-9) continue;
        bool labelled = digit == 1 || digit == 2 || digit == 5 || (digit == 3 && ratio < 4);
        cairo_move_to(c, tick, y + 22 * unit_);
        cairo_line_to(c, tick, y + (labelled ? 31 : 27) * unit_);
        cairo_stroke(c);
        if (!labelled || tick - 24 * unit_ < free) continue;
        write_text(tick, y + 51 * unit_, text("%.6g", km), 18, ink, 0.5);
        free = tick + 24 * unit_;
      }
    write_text(x, y + 80 * unit_, "km, logarithmic", 17, faint, 0);
    return y + 80 * unit_;
  }

  void scale_bar(double x, double y) {
    const double km = round_length(std::min(300 * unit_, map_.width) / map_view_.scale), pixels = km * map_view_.scale;
    cairo_t* c = context_.get();
    for (int k = 0; k < 4; ++k) {
      cairo_rectangle(c, x + k * pixels / 4, y, pixels / 4, 9 * unit_);
      set(k % 2 ? paper : ink);
      cairo_fill(c);
    }
    frame({x, y, pixels, 9 * unit_}, 1.2);
    write_text(x + pixels + 12 * unit_, y + 11 * unit_, length_text(km), 19, ink, 0);
    write_text(x, y + 40 * unit_, "Equidistant cylindrical projection; scale at its middle", 15, faint, 0);
    write_text(x, y + 64 * unit_, "Coast: " + grouped(sea_.coast) + " segments in the box", 15, faint, 0);
  }

  void set(colour c) { cairo_set_source_rgb(context_.get(), c.red / 255.0, c.green / 255.0, c.blue / 255.0); }

  void frame(const rectangle& r, double line) {
    set(ink);
    cairo_set_line_width(context_.get(), line * unit_);
    cairo_rectangle(context_.get(), r.x, r.y, r.width, r.height);
    cairo_stroke(context_.get());
  }

  /// \param anchor 0: x is the text's left end, 0.5 its middle, 1 its right end. \param most shrink
  /// it to this width.
  void write_text(double x, double y, const std::string& what, double size, colour in, double anchor, bool bold = false,
                  double most = 0) {
    cairo_t* c = context_.get();
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, size * unit_);
    cairo_text_extents_t extents;
    cairo_text_extents(c, what.c_str(), &extents);
    if (most > 0 && extents.x_advance > most) {
      cairo_set_font_size(c, size * unit_ * most / extents.x_advance);
      cairo_text_extents(c, what.c_str(), &extents);
    }
    set(in);
    cairo_move_to(c, x - anchor * extents.x_advance, y);
    cairo_show_text(c, what.c_str());
  }

  const gathered_mesh& mesh_;
  const domain& sea_;
  const picture_style& style_;
  summary about_;
  double unit_; ///< a two-thousandth of the wanted width, pixels
  bool wide_ = false;
  rectangle map_, inset_;
  double legend_x_ = 0, legend_y_ = 0;
  int width_ = 1, height_ = 1;
  view map_view_;
  std::vector<colour> sizes_;
  float log_bar_low_ = 0, per_log_bar_ = 1;
  std::uint32_t last_rank_ = 0xffffffff, last_group_ = 0;
  colour last_colour_;
  struct release {
    void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
    void operator()(cairo_t* c) const { cairo_destroy(c); }
  };
  std::unique_ptr<cairo_surface_t, release> surface_;
  std::unique_ptr<cairo_t, release> context_;
};

} // namespace

void write_picture(const std::string& path, const gathered_mesh& mesh, const domain& sea, const picture_style& style) {
  mesh.check();
  painter p(mesh, sea, style);
  p.paint();
  p.write(path);
}

} // namespace mesh
