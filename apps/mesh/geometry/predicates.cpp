// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/geometry/predicates.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace mesh {
namespace {

int sign(double value) { return (value > 0) - (value < 0); }

/// The exact sign of a sum of twelve doubles. Each is added to an expansion of non-overlapping
/// parts (Shewchuk's GROW-EXPANSION). The last part that is not zero has the sum's sign.
int sign_of_sum(const std::array<double, 12>& terms) {
  std::array<double, 12> parts{};
  for (std::size_t n = 0; n < terms.size(); ++n) {
    double sum = terms[n];
    for (std::size_t i = 0; i < n; ++i) {
      double a = sum, b = parts[i];
      sum = a + b;
      double b_virtual = sum - a;
      parts[i] = (a - (sum - b_virtual)) + (b - b_virtual);
    }
    parts[n] = sum;
  }
  for (std::size_t i = terms.size(); i-- > 0;)
    if (parts[i] != 0) return sign(parts[i]);
  return 0;
}

} // namespace

int orient2d(const point& a, const point& b, const point& c) {
  constexpr double unit = std::numeric_limits<double>::epsilon() / 2;
  double left = (a.x - c.x) * (b.y - c.y);
  double right = (a.y - c.y) * (b.x - c.x);
  double determinant = left - right;
  if (std::fabs(determinant) > (3 + 16 * unit) * unit * (std::fabs(left) + std::fabs(right))) return sign(determinant);
  // ax by - ay bx + bx cy - by cx + cx ay - cy ax, each product with its rounding error.
  std::array<double, 12> terms{};
  std::size_t n = 0;
  auto add = [&](double x, double y) {
    double product = x * y;
    terms[n++] = std::fma(x, y, -product);
    terms[n++] = product;
  };
  add(a.x, b.y);
  add(-a.y, b.x);
  add(b.x, c.y);
  add(-b.y, c.x);
  add(c.x, a.y);
  add(-c.y, a.x);
  return sign_of_sum(terms);
}

} // namespace mesh
