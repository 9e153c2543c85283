// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/output/pictures.hpp"

#include "apps/common/palette.hpp"

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <fmt/core.h>

#include <tern/base/error.hpp>

namespace jacobi3d {
namespace {

struct release {
  void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
  void operator()(cairo_t* c) const { cairo_destroy(c); }
};

/// A sheet of paper.
class sheet {
public:
  sheet(int width, int height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)), pen_(cairo_create(surface_.get())) {
    colour(apps::paper);
    cairo_paint(pen_.get());
  }
  cairo_t* pen() const { return pen_.get(); }
  void colour(apps::colour c, double opacity = 1) const {
    cairo_set_source_rgba(pen(), c.red / 255.0, c.green / 255.0, c.blue / 255.0, opacity);
  }
  void box(double x, double y, double width, double height) const {
    cairo_rectangle(pen(), x, y, width, height);
    cairo_fill(pen());
  }
  void line(double x, double y, double to_x, double to_y) const {
    cairo_move_to(pen(), x, y);
    cairo_line_to(pen(), to_x, to_y);
    cairo_stroke(pen());
  }
  /// \param at 0: begins at x; 0.5: its middle is there; 1: ends there.
  void words(double x, double y, const std::string& text, double size, double at = 0) const {
    cairo_select_font_face(pen(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(pen(), size);
    cairo_text_extents_t seen;
    cairo_text_extents(pen(), text.c_str(), &seen);
    cairo_move_to(pen(), x - at * seen.x_advance, y);
    cairo_show_text(pen(), text.c_str());
  }
  /// Upwards; the middle is at (x, y).
  void words_upwards(double x, double y, const std::string& text, double size) const {
    cairo_save(pen());
    cairo_translate(pen(), x, y);
    cairo_rotate(pen(), -std::acos(-1.0) / 2);
    words(0, 0, text, size, 0.5);
    cairo_restore(pen());
  }
  void write(const std::string& path) const {
    const cairo_status_t status = cairo_surface_write_to_png(surface_.get(), path.c_str());
    if (status != CAIRO_STATUS_SUCCESS)
      throw tern::error(tern::errc::io, "cannot write " + path + ": " + cairo_status_to_string(status),
                        "check that the folder exists, may be written and has space left");
  }

private:
  std::unique_ptr<cairo_surface_t, release> surface_;
  std::unique_ptr<cairo_t, release> pen_;
};

/// Inferno (Smith and van der Walt, 2015) at equal steps.
constexpr std::array<apps::colour, 12> inferno{{{0, 0, 4},
                                                {19, 11, 52},
                                                {57, 9, 99},
                                                {95, 19, 110},
                                                {133, 33, 107},
                                                {169, 46, 94},
                                                {203, 65, 73},
                                                {230, 93, 47},
                                                {247, 131, 17},
                                                {252, 174, 18},
                                                {245, 219, 75},
                                                {252, 255, 164}}};
apps::colour heat_colour(double t) {
  const double at = std::clamp(t, 0.0, 1.0) * (inferno.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(at), inferno.size() - 2);
  return mix(inferno[i], inferno[i + 1], at - static_cast<double>(i));
}

/// Steps of 1, 2 or 5 times a power of ten: at most seven up to `end`.
double tick_of(double end) {
  const double power = std::pow(10, std::floor(std::log10(end / 7)));
  for (const double step : {1.0, 2.0, 5.0})
    if (end / (power * step) <= 7) return power * step;
  return 10 * power;
}

/// The slice between its cells, by straight lines; at its ends what lies beyond the grid.
class slice {
public:
  slice(const plan& about, const std::vector<double>& values) : n_(about.n), values_(values) {}
  double operator()(double x, double z) const { // in cells
    const auto i = static_cast<std::int64_t>(std::floor(x - 0.5)), k = static_cast<std::int64_t>(std::floor(z - 0.5));
    const double u = x - 0.5 - static_cast<double>(i), w = z - 0.5 - static_cast<double>(k);
    return (1 - w) * ((1 - u) * at(i, k) + u * at(i + 1, k)) + w * ((1 - u) * at(i, k + 1) + u * at(i + 1, k + 1));
  }

private:
  double at(std::int64_t x, std::int64_t z) const {
    x = std::clamp<std::int64_t>(x, 0, n_[0] - 1);
    z = std::clamp<std::int64_t>(z, 0, n_[2] - 1);
    return values_[static_cast<std::size_t>((z * n_[1] + n_[1] / 2) * n_[0] + x)];
  }
  cells n_;
  const std::vector<double>& values_;
};

} // namespace

void write_slice(const std::string& path, const plan& about, const std::vector<double>& values,
                 std::int64_t iterations) {
  constexpr double longest = 900, left = 84, margin = 36, top = 84, below = 96, scale_room = 112;
  const auto nx = static_cast<double>(about.n[0]), nz = static_cast<double>(about.n[2]);
  const double zoom = longest / std::max(nx, nz), width = std::max(400.0, std::round(nx * zoom)),
               height = std::max(200.0, std::round(nz * zoom));
  const sheet page(static_cast<int>(left + width + margin + scale_room), static_cast<int>(top + height + below));
  const slice heat(about, values);
  // Lines where the heat of a pixel and of one beside it lie on two sides of a sixteenth.
  constexpr double steps = 16;
  const auto columns = static_cast<int>(width), rows = static_cast<int>(height);
  std::vector<double> seen(static_cast<std::size_t>(columns + 1) * static_cast<std::size_t>(rows + 1));
  const auto pixel = [&](int c, int r) -> double& {
    return seen[static_cast<std::size_t>(r) * static_cast<std::size_t>(columns + 1) + static_cast<std::size_t>(c)];
  };
  for (int r = 0; r <= rows; ++r)
    for (int c = 0; c <= columns; ++c) pixel(c, r) = heat((c + 0.5) * nx / width, nz - (r + 0.5) * nz / height);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      const double here = pixel(c, r), step = std::floor(here * steps);
      const bool edge = std::floor(pixel(c + 1, r) * steps) != step || std::floor(pixel(c, r + 1) * steps) != step;
      page.colour(edge ? mix(heat_colour(here), {255, 255, 255}, 0.45) : heat_colour(here));
      page.box(left + c, top + r, 1, 1);
    }
  page.colour({255, 255, 255}, 0.35); // where blocks meet
  cairo_set_line_width(page.pen(), 1);
  cairo_set_dash(page.pen(), std::array{3.0, 5.0}.data(), 2, 0);
  if (about.blocks[0] <= 32 && about.blocks[2] <= 32) {
    for (std::int64_t i = 1; i < about.blocks[0]; ++i) {
      const double x = left + std::round(width * static_cast<double>(i) / static_cast<double>(about.blocks[0])) + 0.5;
      page.line(x, top, x, top + height);
    }
    for (std::int64_t k = 1; k < about.blocks[2]; ++k) {
      const double y = top + std::round(height * static_cast<double>(k) / static_cast<double>(about.blocks[2])) + 0.5;
      page.line(left, y, left + width, y);
    }
  }
  cairo_set_dash(page.pen(), nullptr, 0, 0);
  page.colour(apps::ink);
  const double base = top + height;
  const auto tick = [](std::int64_t cells_there) { return std::max(1.0, tick_of(static_cast<double>(cells_there))); };
  for (double x = 0; x <= nx; x += tick(about.n[0])) {
    const double at = left + std::round(x * width / nx) + 0.5;
    page.line(at, base, at, base + 5);
    page.words(at, base + 20, fmt::format("{:g}", x), 13, 0.5);
  }
  for (double z = 0; z <= nz; z += tick(about.n[2])) {
    const double at = base - std::round(z * height / nz) + 0.5;
    page.line(left - 5, at, left, at);
    page.words(left - 9, at + 5, fmt::format("{:g}", z), 13, 1);
  }
  page.words(left + width / 2, base + 42, "x, in cells", 14, 0.5);
  page.words_upwards(left - 52, top + height / 2, "z, in cells", 14);
  const double bar = left + width + 28;
  for (int r = 0; r < rows; ++r) {
    page.colour(heat_colour(1 - (r + 0.5) / height));
    page.box(bar, top + r, 18, 1);
  }
  page.colour(apps::ink);
  for (const double at : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double y = top + (1 - at) * height;
    page.line(bar + 18, y, bar + 23, y);
    page.words(bar + 28, y + 5, fmt::format("{:g}", at), 13);
  }
  page.words_upwards(bar + 78, top + height / 2, "heat; plate 1, around 0", 14);
  page.words(left, 40, fmt::format("Heat after {} iterations", iterations), 22);
  page.colour(apps::faint);
  page.words(left, 64,
             fmt::format("{} x {} x {} cells, alpha {:g}; the slice at y = {}", about.n[0], about.n[1], about.n[2],
                         about.alpha, about.n[1] / 2),
             14);
  page.words(left, base + 70,
             fmt::format("white lines: equal heat, every 1/16; dashed: where {} x {} x {} blocks meet", about.blocks[0],
                         about.blocks[1], about.blocks[2]),
             14);
  page.write(path);
}

void write_course(const std::string& path, const plan& about, const std::vector<block_history>& blocks,
                  double seconds) {
  constexpr double left = 128, width = 1040, top = 104, right = 36, below = 64;
  constexpr std::size_t most_rows = 64;
  const std::size_t shown = std::min(blocks.size(), most_rows);
  const double row = std::clamp(640.0 / static_cast<double>(std::max<std::size_t>(shown, 1)), 9.0, 40.0);
  const double height = row * static_cast<double>(shown);
  double end = 0;
  int ranks = 0;
  for (const block_history& b : blocks)
    for (const iteration_record& r : b) {
      end = std::max(end, static_cast<double>(r.ended));
      ranks = std::max(ranks, r.rank + 1);
    }
  if (end <= 0) end = std::max(seconds, 1e-9);
  const sheet page(static_cast<int>(left + width + right), static_cast<int>(top + height + below));
  std::size_t longest = 0;
  for (const block_history& b : blocks) longest = std::max(longest, b.size());
  const std::size_t each = std::max<std::size_t>(1, (longest + 39) / 40); // iterations of a bar
  const auto x_of = [&](double t) { return left + width * std::clamp(t / end, 0.0, 1.0); };
  for (std::size_t i = 0; i < shown; ++i) {
    const double y = top + row * static_cast<double>(i);
    const block_history& all = blocks[i];
    double before = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (k + 1 < all.size() && (k + 1) % each != 0 && all[k + 1].rank == all[k].rank) continue;
      const apps::colour base = apps::rank_colour(static_cast<std::size_t>(all[k].rank));
      page.colour(k / each % 2 == 0 ? base : mix(base, {255, 255, 255}, 0.35));
      page.box(x_of(before), y + 1, std::max(0.6, x_of(all[k].ended) - x_of(before)), row - 2);
      before = all[k].ended;
    }
    // The line: when messages were sent for the iteration that was computed at that moment, upside
    // down.
    if (row >= 11) {
      page.colour(apps::ink);
      cairo_set_line_width(page.pen(), 1.2);
      cairo_set_dash(page.pen(), nullptr, 0, 0);
      const double ahead_most = static_cast<double>(std::max<std::int64_t>(about.ahead, 1));
      std::size_t sent = 0;
      cairo_move_to(page.pen(), left, y + row - 2);
      for (std::size_t k = 0; k < all.size(); ++k) {
        while (sent < all.size() && all[sent].submitted <= all[k].ended) ++sent;
        const double ahead = std::min(1.0, static_cast<double>(sent - std::min(sent, k + 1)) / ahead_most);
        cairo_line_to(page.pen(), x_of(all[k].ended), y + row - 2 - (row - 4) * ahead);
      }
      cairo_stroke(page.pen());
    }
    page.colour(apps::faint);
    const tern::indices<3> at = place_of_block(about, static_cast<std::int64_t>(i));
    page.words(left - 10, y + row / 2 + 4, fmt::format("({}, {}, {})", at[2], at[1], at[0]), row < 12 ? 8 : 12, 1);
  }
  page.colour(apps::ink);
  page.words(left, 40, "Which rank had which block, when", 22);
  page.colour(apps::faint);
  page.words(left, 62,
             fmt::format("{} x {} x {} cells; {} a bar, light and dark in turn", about.n[0], about.n[1], about.n[2],
                         each == 1 ? std::string("an iteration") : fmt::format("{} iterations", each)),
             14);
  page.words(left - 10, top - 10, "block x, y, z", 12, 1);
  double key = left;
  for (int r = 0; r < std::min(ranks, 8); ++r, key += 82) {
    page.colour(apps::rank_colour(static_cast<std::size_t>(r)));
    page.box(key, top - 22, 14, 12);
    page.colour(apps::faint);
    page.words(key + 20, top - 11, fmt::format("rank {}", r), 12);
  }
  cairo_set_line_width(page.pen(), 1.2);
  cairo_set_dash(page.pen(), nullptr, 0, 0);
  if (row >= 11) { // else there are no lines
    page.colour(apps::ink);
    page.line(key, top - 16, key + 22, top - 16);
    page.colour(apps::faint);
    page.words(key + 28, top - 11,
               fmt::format("iterations whose messages have been sent ahead: 0 below, {} above", about.ahead), 12);
  }
  const double tick = tick_of(end);
  page.colour(apps::ink);
  cairo_set_line_width(page.pen(), 1);
  const double base = top + height + 6;
  page.line(left, base, left + width, base);
  const bool milli = end < 1;
  for (double t = 0; t <= end * 1.0001; t += tick) {
    page.line(x_of(t), base, x_of(t), base + 5);
    page.words(x_of(t), base + 20, fmt::format("{:g}", milli ? std::round(t * 1e6) / 1e3 : std::round(t * 1e3) / 1e3),
               12, 0.5);
  }
  page.words(left + width / 2, base + 42,
             milli ? "time since the first message, in ms" : "time since the first message, in s", 14, 0.5);
  if (shown < blocks.size()) {
    page.colour(apps::faint);
    page.words(left, base + 42, fmt::format("the first {} of {} blocks", shown, blocks.size()), 14);
  }
  page.write(path);
}

} // namespace jacobi3d
