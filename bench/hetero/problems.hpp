// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What kernels and plain loops compute: input and output, and whether they are right. `prepare`
/// and `check` are not timed.

#include "bench/hetero/memory.hpp"

#include <cstddef>

namespace tern::bench::hetero {

/// c = a b, matrices of n × n, row by row.
struct multiplication {
  explicit multiplication(std::size_t size);
  void prepare();
  void check() const; ///< by a vector
  int n;
  memory<double> a, b, c;
};

/// out = centre · in + side · (the six neighbours of in), inside of a cube of n × n × n points.
struct seven_points {
  static constexpr double centre = 0.4, side = 0.1;
  explicit seven_points(std::size_t size);
  void prepare();
  void check() const; ///< of every 1009th point
  int n;
  memory<double> in, out;
};

/// How n bodies pull each other.
struct pull {
  struct alignas(16) body {
    float x, y, z, mass;
  };
  static constexpr float softening = 1e-2F; ///< squared distance that is added: two bodies may be at one place
  explicit pull(std::size_t size);
  void prepare();
  void check() const; ///< of every 101st body, in double
  int n;
  memory<body> bodies;
  memory<float> ax, ay, az;
};

/// The sum of n numbers.
struct adding {
  explicit adding(std::size_t size);
  void prepare() { sum = 0; }
  void check() const;
  int n;
  memory<double> in;
  double sum = 0;

private:
  double expected_ = 0;
};

} // namespace tern::bench::hetero
