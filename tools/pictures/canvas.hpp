// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Something to draw on, that becomes a PNG file.

#include <memory>
#include <span>
#include <string>

namespace tern::pictures {

struct colour {
  double red, green, blue;
};
constexpr colour ink{0.13, 0.15, 0.18}, faint{0.42, 0.45, 0.50}, grid{0.90, 0.91, 0.93}, paper{1, 1, 1};

struct point {
  double x, y;
};

struct stroke {
  colour hue;
  double width;
  std::span<const double> dashes = {}; ///< on, off, on, …; none: solid. Must outlive the call.
};

/// Lengths are in pixels, from the upper left corner. One thread.
class canvas {
public:
  /// \throws std::runtime_error without memory for it, or if there is no cairo.
  canvas(int width, int height);
  ~canvas();
  canvas(const canvas&) = delete;
  canvas& operator=(const canvas&) = delete;

  /// \param anchor where in the text (x, y) is: 0 its beginning, 0.5 its middle, 1 its end; y is
  /// its base line.
  /// \return how long it is.
  double text(double x, double y, const std::string& what, double size, const colour& in, double anchor = 0,
              bool bold = false);
  /// From below to above.
  void turned_text(double x, double y, const std::string& what, double size, const colour& in, double anchor = 0);
  double length_of(const std::string& what, double size, bool bold = false);
  void line(std::span<const point> through, const stroke& how);
  void rule(double x0, double y0, double x1, double y1, const stroke& how);
  /// Filled.
  void area(std::span<const point> around, const colour& in);
  /// With sharp edges, where the nearest whole pixels are.
  void box(double left, double top, double width, double height, const colour& in);
  void disc(const point& at, double radius, const colour& in, const stroke& edge);
  /// What is drawn until the next `unclip` stays inside.
  void clip(double left, double top, double width, double height);
  void unclip();
  /// \throws std::runtime_error that names the file.
  void write(const std::string& path);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace tern::pictures
