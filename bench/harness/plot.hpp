// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Curves as a picture.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/harness/harness.hpp"
#include "tools/pictures/canvas.hpp"

namespace tern::bench {

using pictures::colour;
using pictures::point;

struct look {
  colour hue;
  bool dashed, filled; ///< the line; its marks
};
struct curve {
  std::string name;
  look as;
  std::vector<point> points;
};

struct tick {
  double value;
  std::string text; ///< none: a thinner line
};
struct axis {
  std::string what;
  double low = 0, high = 0;
  bool even = false; ///< else logarithmic
  std::vector<tick> ticks;
  double place(double value) const; ///< 0 at `low` to 1 at `high`
};
/// A number on an axis.
std::string axis_text(double value);

struct panel {
  std::string title;
  double left, top, width, height; ///< of the axes, pixels
  axis x, y;
  std::vector<curve> curves;
};

/// The first panel's curves are explained above it. So are those of a panel with other curves, in
/// rows of their own with its title. Each row takes 38 pixels from 106 on.
struct picture {
  std::string title;
  int width, height;
  std::vector<panel> panels;
};

/// Writes a PNG file. \throws std::runtime_error if it cannot, or if there is no cairo.
void draw(const picture& what, const std::string& path);

/// The main function of a benchmark that also has curves: for `--curves FILE [--points FILE]`
/// measures and prints the points, or reads them, and draws; for anything else measures
/// `metrics()`, as `run` (harness.hpp).
int run_with_curves(const char* program, int argc, char** argv, const std::function<nlohmann::ordered_json()>& measure,
                    const std::function<picture(const nlohmann::ordered_json&)>& picture_of,
                    const std::function<std::vector<metric>(const scale&)>& metrics);

} // namespace tern::bench
