// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A matrix that is factored: what it is, and whether its factor is right. Stored by rows, the
/// lower half.

#include "bench/harness/contestant.hpp"
#include "bench/hetero/memory.hpp"
#include "bench/hetero/numbers.hpp"

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace tern::bench::cuda {

/// The system would end a process that takes more than there is. \throws not_here
inline void want_host_memory(std::size_t bytes) {
  std::ifstream all("/proc/meminfo");
  std::string word;
  for (std::size_t kibi = 0; all >> word;)
    if (word == "MemAvailable:" && all >> kibi && kibi < bytes / 1024)
      throw contest::not_here(std::to_string(bytes >> 20) + " MiB of the host's memory");
}

struct factored {
  explicit factored(std::size_t size) : n(size), l(size * size) {}
  double element(std::size_t i, std::size_t j) const {
    const double apart = i > j ? static_cast<double>(i - j) : static_cast<double>(j - i);
    return 1 / (1 + apart) + (i == j ? static_cast<double>(n) : 0);
  }
  /// l (l^T x) is the matrix times x, in some rows. \pre `l` has the factor.
  void check() const {
    std::vector<double> x(n), y(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = hetero::number(i);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) y[j] += l[i * n + j] * x[i];
    const std::size_t step = n / 16 + 1;
    for (std::size_t i = 0; i < n; i += step) {
      double found = 0, expected = 0;
      for (std::size_t j = 0; j <= i; ++j) found += l[i * n + j] * y[j];
      for (std::size_t j = 0; j < n; ++j) expected += element(i, j) * x[j];
      hetero::near(found, expected, 1e-10 * static_cast<double>(n), "row", i);
    }
  }
  std::size_t n;
  hetero::memory<double> l;
};

} // namespace tern::bench::cuda
