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

/// Kernels of some five microseconds on an H200: each operation waits for the one before.
struct short_kernels {
  static constexpr int turns = 750, group = 128;
  static constexpr std::size_t elements = 1024;
  static unsigned advanced(unsigned v) {
    for (int k = 0; k < turns; ++k) v = (v ^ (v >> 7)) * 1664525u + 1013904223u;
    return v;
  }
  /// After so many steps of a chain that began with zeros.
  template <class Data> static void check_chain(const Data& data, std::size_t steps) {
    unsigned right = 0;
    for (std::size_t i = 0; i < steps; ++i) right = advanced(right);
    check(data, right);
  }
  /// Two chains, begun with zeros and with ones, each step of which reads both: number `one` of
  /// them after so many steps.
  template <class Data> static void check_pairs(const Data& data, unsigned one, std::size_t steps) {
    unsigned right[2] = {0, 1};
    for (std::size_t i = 0; i < steps; ++i) {
      const unsigned next[2] = {advanced(right[0] + 3 * right[1]), advanced(right[1] + 3 * right[0])};
      right[0] = next[0];
      right[1] = next[1];
    }
    check(data, right[one]);
  }

private:
  template <class Data> static void check(const Data& data, unsigned right) {
    for (std::size_t i = 0; i < elements; ++i)
      if (data[i] != right)
        throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(data[i]) + ", not " +
                                 std::to_string(right));
  }
};

} // namespace tern::bench::cuda
