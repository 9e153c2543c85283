// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/domain/size_field.hpp"

#include <tern/base/error.hpp>

#include <cmath>
#include <limits>

namespace mesh {
namespace {

constexpr double most_grid_points = 16e6;
constexpr std::uint32_t nothing = 0xffffffff;

/// Distances from grid points to the nearest segment: segments mark the points beside them, then
/// each point asks its neighbours for their nearest segment in two sweeps (Danielsson 1980's 8SED,
/// with segments for points).
class sweeper {
public:
  sweeper(const domain& sea, double spacing, std::uint32_t columns, std::uint32_t rows)
      : low_(sea.low), spacing_(spacing), columns_(columns), rows_(rows) {
    lines_.reserve(sea.coast);
    for (std::size_t i = 0; i < sea.coast; ++i) {
      const segment& s = sea.boundary[i];
      double dx = s.b.x - s.a.x, dy = s.b.y - s.a.y, square = dx * dx + dy * dy;
      lines_.push_back({s.a.x - low_.x, s.a.y - low_.y, dx, dy, square > 0 ? 1 / square : 0});
    }
    nearest_.assign(static_cast<std::size_t>(columns) * rows, nothing);
    square_.assign(nearest_.size(), std::numeric_limits<float>::max());
  }

  std::vector<float> run() {
    for (std::uint32_t i = 0; i < lines_.size(); ++i) mark(i);
    const std::int64_t width = columns_;
    for (std::uint32_t j = 0; j < rows_; ++j) {
      if (j > 0) from_row(j, -width);
      along_row(j);
    }
    for (std::uint32_t j = rows_; j-- > 0;) {
      if (j + 1 < rows_) from_row(j, width);
      along_row(j);
    }
    for (float& value : square_) value = std::sqrt(value);
    return std::move(square_);
  }

private:
  struct line {
    double x, y, dx, dy, per_square;
  };

  void offer(std::size_t node, std::uint32_t candidate, double x, double y) {
    const line& l = lines_[candidate];
    double px = x - l.x, py = y - l.y;
    double t = std::min(std::max((px * l.dx + py * l.dy) * l.per_square, 0.0), 1.0);
    px -= t * l.dx;
    py -= t * l.dy;
    auto square = static_cast<float>(px * px + py * py);
    if (!(square < square_[node])) return;
    square_[node] = square;
    nearest_[node] = candidate;
  }

  void mark(std::uint32_t index) {
    const line& l = lines_[index];
    auto steps = static_cast<std::int64_t>(std::hypot(l.dx, l.dy) / spacing_ * 2) + 1;
    for (std::int64_t k = 0; k <= steps; ++k) {
      double t = static_cast<double>(k) / static_cast<double>(steps);
      auto i = static_cast<std::uint32_t>(std::max(0.0, (l.x + t * l.dx) / spacing_));
      auto j = static_cast<std::uint32_t>(std::max(0.0, (l.y + t * l.dy) / spacing_));
      for (std::uint32_t v = j; v <= j + 1 && v < rows_; ++v)
        for (std::uint32_t u = i; u <= i + 1 && u < columns_; ++u)
          offer(static_cast<std::size_t>(v) * columns_ + u, index, u * spacing_, v * spacing_);
    }
  }

  void ask(std::size_t node, std::size_t neighbour, double x, double y) {
    std::uint32_t candidate = nearest_[neighbour];
    if (candidate != nearest_[node] && candidate != nothing) offer(node, candidate, x, y);
  }

  void from_row(std::uint32_t j, std::int64_t step) {
    std::size_t row = static_cast<std::size_t>(j) * columns_, other = row + static_cast<std::size_t>(step);
    double y = j * spacing_;
    for (std::uint32_t i = 0; i < columns_; ++i) {
      double x = i * spacing_;
      ask(row + i, other + i, x, y);
      if (i > 0) ask(row + i, other + i - 1, x, y);
      if (i + 1 < columns_) ask(row + i, other + i + 1, x, y);
    }
  }

  void along_row(std::uint32_t j) {
    std::size_t row = static_cast<std::size_t>(j) * columns_;
    double y = j * spacing_;
    for (std::uint32_t i = 1; i < columns_; ++i) ask(row + i, row + i - 1, i * spacing_, y);
    for (std::uint32_t i = columns_ - 1; i-- > 0;) ask(row + i, row + i + 1, i * spacing_, y);
  }

  point low_;
  double spacing_;
  std::uint32_t columns_, rows_;
  std::vector<line> lines_;
  std::vector<std::uint32_t> nearest_;
  std::vector<float> square_;
};

} // namespace

size_field::size_field(const domain& sea, const sizing& wanted, double spacing_km) : sizes_(wanted), low_(sea.low) {
  using tern::errc;
  wanted.check();
  const double width = sea.high.x - sea.low.x, height = sea.high.y - sea.low.y;
  if (!std::isfinite(width) || !std::isfinite(height) || !(width > 0) || !(height > 0))
    throw tern::error(errc::invalid_argument, "the domain's box has no extent, so no size field can be laid over it");
  if (!std::isfinite(spacing_km) || spacing_km < 0)
    throw tern::error(errc::invalid_argument, "the size field's spacing is " + std::to_string(spacing_km) + " km",
                      "give a positive length, or 0 to have it chosen");
  at_coast_ = sea.coast == 0 ? wanted.h_max : wanted.h_min;
  double spacing = spacing_km > 0 ? spacing_km : std::min(std::max(width, height) / 1600, 1.0);
  spacing = std::max(spacing, std::sqrt(width * height / most_grid_points));
  spacing = std::max(spacing, std::max(width, height) / most_grid_points * 2);
  if (sea.coast == 0) spacing = std::max(width, height);
  per_km_ = 1 / spacing;
  columns_ = static_cast<std::uint32_t>(std::ceil(width / spacing)) + 1;
  rows_ = static_cast<std::uint32_t>(std::ceil(height / spacing)) + 1;
  last_column_ = columns_ - 1;
  last_row_ = rows_ - 1;
  if (sea.coast == 0)
    distance_.assign(static_cast<std::size_t>(columns_) * rows_, 1e30F);
  else
    distance_ = sweeper(sea, spacing, columns_, rows_).run();
}

} // namespace mesh
