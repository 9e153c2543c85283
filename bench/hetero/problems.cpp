// SPDX-License-Identifier: Apache-2.0
#include "bench/hetero/problems.hpp"

#include "bench/hetero/numbers.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace tern::bench::hetero {

namespace {

template <class T> void forget(memory<T>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::numeric_limits<T>::quiet_NaN();
}

std::vector<double> times(const memory<double>& m, const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += m[i * x.size() + j] * x[j];
  return y;
}

} // namespace

multiplication::multiplication(std::size_t size)
    : n(static_cast<int>(size)), a(size * size), b(size * size), c(size * size) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = number(i);
    b[i] = number(a.size() + i);
  }
}
void multiplication::prepare() { forget(c); }
void multiplication::check() const {
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(~i);
  const auto found = times(c, x), expected = times(a, times(b, x));
  for (std::size_t i = 0; i < x.size(); ++i) near(found[i], expected[i], 1e-9 * n, "row", i);
}

seven_points::seven_points(std::size_t size)
    : n(static_cast<int>(size)), in(size * size * size), out(size * size * size) {
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = number(i);
}
void seven_points::prepare() { forget(out); }
void seven_points::check() const {
  const auto row = static_cast<std::size_t>(n), slice = row * row;
  const auto inside = [&](std::size_t i) { return i > 0 && i + 1 < row; };
  for (std::size_t i = 0; i < in.size(); i += 1009) {
    if (!inside(i % row) || !inside(i / row % row) || !inside(i / slice)) continue;
    const double around = in[i - 1] + in[i + 1] + in[i - row] + in[i + row] + in[i - slice] + in[i + slice];
    near(out[i], centre * in[i] + side * around, 1e-12, "point", i);
  }
}

pull::pull(std::size_t size) : n(static_cast<int>(size)), bodies(size), ax(size), ay(size), az(size) {
  const auto one = [](std::size_t i) { return static_cast<float>(number(i)); };
  for (std::size_t i = 0; i < size; ++i) bodies[i] = {one(4 * i), one(4 * i + 1), one(4 * i + 2), 1 + one(4 * i + 3)};
}
void pull::prepare() {
  forget(ax);
  forget(ay);
  forget(az);
}
void pull::check() const {
  for (std::size_t i = 0; i < bodies.size(); i += 101) {
    double x = 0, y = 0, z = 0, size = 0;
    for (std::size_t j = 0; j < bodies.size(); ++j) {
      const double dx = double{bodies[j].x} - bodies[i].x, dy = double{bodies[j].y} - bodies[i].y,
                   dz = double{bodies[j].z} - bodies[i].z;
      const double squared = dx * dx + dy * dy + dz * dz + softening;
      const double strength = bodies[j].mass / (squared * std::sqrt(squared));
      x += strength * dx;
      y += strength * dy;
      z += strength * dz;
      size += strength * std::sqrt(squared);
    }
    near(ax[i], x, 1e-5 * size, "x of body", i);
    near(ay[i], y, 1e-5 * size, "y of body", i);
    near(az[i], z, 1e-5 * size, "z of body", i);
  }
}

adding::adding(std::size_t size) : n(static_cast<int>(size)), in(size) {
  for (std::size_t i = 0; i < size; ++i) in[i] = std::round(1000 * number(i)); // so the order makes no difference
  for (std::size_t i = 0; i < size; ++i) expected_ += in[i];
}
void adding::check() const { near(sum, expected_, 0, "the sum of numbers from", 0); }

} // namespace tern::bench::hetero
