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

} // namespace tern::bench::cuda
