// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What all pictures are made of: axes, colours, numbers. For the files of this folder.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/pictures/canvas.hpp"

namespace tern::pictures {

constexpr int width = 1600, height = 1000;
constexpr double small = 18, medium = 20, large = 23; // of letters
constexpr colour idle{0.88, 0.89, 0.91};
// Okabe and Ito 2002, without their yellow, which paper swallows.
constexpr colour blue{0.00, 0.45, 0.70}, vermillion{0.84, 0.37, 0.00}, green{0.00, 0.62, 0.45},
    purple{0.80, 0.47, 0.65}, orange{0.90, 0.62, 0.00}, sky{0.34, 0.71, 0.91};
constexpr std::array<double, 2> dashed{11, 6}, dotted{2.5, 4};
constexpr std::array<double, 4> mixed{11, 5, 2.5, 5};

/// "12,345.6"
std::string number(double value, int decimals);

/// Seconds, or what suits a run that takes so long.
struct unit {
  const char* name;
  double seconds;
};
unit unit_for(double longest);
/// With four digits.
std::string duration(double seconds, const unit& in);

struct axis {
  double low = 0, high = 1;
  bool logarithmic = false, whole = false;  ///< whole: of things that are counted, only at whole numbers
  std::string (*text_of)(double) = nullptr; ///< of a tick of a logarithmic axis; null: its number
  double place(double value) const;
  struct tick {
    double value;
    std::string text;
  };
  /// About so many, at round numbers. A logarithmic axis has 1, 2 and 5 of each power of ten, or,
  /// if it is long, the powers.
  std::vector<tick> ticks(int wanted) const;
};

/// A panel of a picture, with its axes.
struct frame {
  double left, top, wide, high;
  axis x, y;
  double bottom() const { return top + high; }
  double right() const { return left + wide; }
  double across(double value) const { return left + wide * x.place(value); }
  double up(double value) const { return bottom() - high * y.place(value); }
};

/// As much of it as there is room for.
std::string shortened(canvas& on, std::string text, double room, double size, bool bold = false);
void headline(canvas& on, double left, const std::string& title, const std::string& subtitle);
void draw_axes(canvas& on, const frame& f, const std::string& below, const std::string& beside, bool with_x);

/// How the line of a number looks: the first seven differ by colour, the next also by their dashes.
struct look {
  colour hue;
  std::span<const double> dashes;
};
look look_of(std::size_t number);

} // namespace tern::pictures
