// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Random numbers that are the same on every machine: those of the standard library differ between
/// its makers.

#include <cstdint>

namespace tern::balance::detail {

/// splitmix64 (Steele, Lea, Flood 2014).
class random_numbers {
public:
  explicit random_numbers(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  /// Below `n`, which is not 0. The bias, at most n / 2^64, is of no account here.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  /// At least 0, below 1.
  double fraction() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Mean 0, deviation 1, never beyond 6: twelve fractions' sum, because the exact distribution
  /// takes logarithms, which C libraries round differently.
  double normal() noexcept {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += fraction();
    return sum;
  }

private:
  std::uint64_t state_;
};

} // namespace tern::balance::detail
