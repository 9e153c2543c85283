// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What both contestants compute, beside bench/hetero/problems.hpp.

#include "bench/hetero/memory.hpp"
#include "bench/hetero/problems.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace tern::bench::cuda {

using hetero::memory;

/// Products of n × n matrices, each of which comes from the host anew and stays on the device.
struct naive : hetero::multiplication {
  static constexpr int times = 100, group = 16;
  using multiplication::multiplication;
  std::size_t bytes() const { return a.size() * sizeof(double); }
};

/// Small kernels, one after the other: each adds one to every element.
struct sequence {
  static constexpr int kernels = 100, group = 128;
  static constexpr std::size_t elements = 1024;
  template <class Data> static void check(const Data& data, std::size_t rounds) {
    for (std::size_t i = 0; i < elements; ++i)
      if (data[i] != kernels * static_cast<int>(rounds))
        throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(data[i]) + " after " +
                                 std::to_string(rounds) + " rounds");
  }
};

/// Kernels of some 5 µs, each of which needs what the one before has made: all elements are equal.
/// On a ladder both kernels of a step need what both of the one before have made.
struct turns {
  static constexpr int steps = 300;
  static constexpr unsigned elements = 128, seed = 12345;
  static unsigned expected(std::size_t times, bool ladder) {
    unsigned a[2] = {seed, seed};       // what is written in this step
    const unsigned b[2] = {seed, seed}; // the other operand, where it is not written
    for (std::size_t i = 0; i < times; ++i) {
      const std::size_t to = (i + 1) % 2, from = i % 2;
      unsigned v = a[from] + (ladder ? a[from] : b[from]); // the sides of a ladder are equal
      for (int k = 0; k < steps; ++k) {
        v ^= v << 13;
        v ^= v >> 17;
        v ^= v << 5;
      }
      a[to] = v;
    }
    return a[times % 2];
  }
  template <class Data> static void check(const Data& data, unsigned wanted) {
    for (std::size_t i = 0; i < elements; ++i)
      if (data[i] != wanted)
        throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(data[i]) + ", not " +
                                 std::to_string(wanted));
  }
};

} // namespace tern::bench::cuda
