// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <stdexcept>

namespace tern::bench {

double axis::place(double value) const {
  return even ? (value - low) / (high - low) : std::log(value / low) / std::log(high / low);
}

std::string axis_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 1e4 && value < 1e7 ? "%.0f" : "%.4g", value);
  return text;
}

namespace {

using namespace pictures;

double across(const panel& p, double value) { return p.left + p.width * p.x.place(value); }
double up(const panel& p, double value) { return p.top + p.height * (1 - p.y.place(value)); }
constexpr std::array<double, 2> dashes{10, 7};
stroke stroke_of(const look& as) {
  return {as.hue, as.filled ? 3.2 : 2.8, as.dashed ? std::span<const double>(dashes) : std::span<const double>()};
}
void mark(canvas& on, const point& at, const look& as) { on.disc(at, 4.2, as.filled ? as.hue : paper, {as.hue, 2.2}); }

void draw_panel(canvas& on, const panel& p) {
  const double bottom = p.top + p.height, right = p.left + p.width;
  on.text(p.left, p.top - 26, p.title, 27, ink, 0, true);
  for (const auto& at : p.x.ticks) {
    on.rule(across(p, at.value), p.top, across(p, at.value), bottom, {grid, 1.5});
    on.text(across(p, at.value), bottom + 32, at.text, 20, faint, 0.5);
  }
  on.text(p.left + p.width / 2, bottom + 70, p.x.what, 21, ink, 0.5);
  for (const auto& at : p.y.ticks) {
    on.rule(p.left, up(p, at.value), right, up(p, at.value), {grid, at.text.empty() ? 1.0 : 2.0});
    on.text(p.left - 14, up(p, at.value) + 7, at.text, 20, faint, 1);
  }
  std::vector<std::vector<point>> lines;
  for (const auto& one : p.curves) {
    lines.emplace_back();
    for (const auto& at : one.points) lines.back().push_back({across(p, at.x), up(p, at.y)});
  }
  on.clip(p.left, p.top, p.width, p.height);
  for (std::size_t i = 0; i < lines.size(); ++i) on.line(lines[i], stroke_of(p.curves[i].as));
  on.unclip();
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (const auto& at : lines[i]) mark(on, at, p.curves[i].as);
  on.rule(p.left, bottom, right, bottom, {ink, 2});
  on.rule(p.left, p.top, p.left, bottom, {ink, 2});
}

std::vector<std::string> names(const panel& p) {
  std::vector<std::string> found;
  for (const auto& one : p.curves) found.push_back(one.name);
  return found;
}

constexpr double legend_row = 38;

/// As many rows as it takes. \return where the next one is.
double legend(canvas& on, double left, double right, double y, const std::vector<curve>& curves) {
  double x = left;
  for (const auto& one : curves) {
    if (x > left && x + 80 + on.length_of(one.name, 21) > right) {
      x = left;
      y += legend_row;
    }
    on.rule(x, y, x + 64, y, stroke_of(one.as));
    mark(on, {x + 32, y}, one.as);
    x += 80;
    x += on.text(x, y + 7, one.name, 21, ink, 0) + 46;
  }
  return y + legend_row;
}

} // namespace

void draw(const picture& what, const std::string& path) {
  canvas on(what.width, what.height);
  const panel& first = what.panels.at(0);
  on.text(first.left, 58, what.title, 34, ink, 0, true);
  double row = 106;
  for (const auto& one : what.panels) {
    if (&one != &first && names(one) == names(first)) continue;
    double x = first.left;
    if (std::any_of(what.panels.begin(), what.panels.end(), [&](const panel& p) { return names(p) != names(first); }))
      x += on.text(x, row + 7, one.title, 21, ink, 0, true) + 30;
    row = legend(on, x, what.width - 20, row, one.curves);
  }
  for (const auto& one : what.panels) draw_panel(on, one);
  on.write(path);
}

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
                    const std::function<std::vector<metric>(const scale&)>& metrics) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2 || arguments[0] != "--curves") return run(argc, argv, metrics);
  try {
    draw_curves(arguments, measure, picture_of);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program, e.what());
    return 1;
  }
}

} // namespace tern::bench
