// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Input for all contestants, and how near a result must be.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tern::bench::hetero {

/// A number in [-0.5, 0.5) for each i, the same in every program.
inline double number(std::uint64_t i) {
  i = (i + 1) * 0x9E3779B97F4A7C15U;
  i = (i ^ (i >> 29)) * 0xBF58476D1CE4E5B9U;
  return static_cast<double>(i >> 11) * 0x1p-53 - 0.5;
}

/// \throws std::runtime_error unless |found - expected| <= tolerance
inline void near(double found, double expected, double tolerance, const std::string& what, std::size_t at) {
  if (!(std::abs(found - expected) <= tolerance)) // also for NaN
    throw std::runtime_error(what + " " + std::to_string(at) + " is " + std::to_string(found) + " instead of " +
                             std::to_string(expected));
}

} // namespace tern::bench::hetero
