// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Random numbers that are the same with every library: the standard's distributions are not.

#include <cmath>
#include <cstdint>
#include <numbers>

namespace nbody {

/// splitmix64 (Steele, Lea, Flood 2014).
class random_numbers {
public:
  explicit random_numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() noexcept {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  /// In (0, 1).
  double uniform() noexcept { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// Normal, mean 0, deviation 1 (Box and Muller).
  double normal() noexcept {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Uniform on a sphere.
  void direction(double length, double (&to)[3]) noexcept {
    const double z = uniform(-1, 1), phi = uniform(0, 2 * std::numbers::pi), r = std::sqrt(1 - z * z);
    to[0] = length * r * std::cos(phi);
    to[1] = length * r * std::sin(phi);
    to[2] = length * z;
  }

private:
  std::uint64_t state_;
};

} // namespace nbody
