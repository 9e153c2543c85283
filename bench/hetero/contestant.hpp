// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The programs of all contestants (bench/harness/contestant.hpp), and what they compute where
/// neither BLAS nor loops are meant (tiles.hpp, problems.hpp).

#include "bench/harness/contestant.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace tern::bench::hetero {

using namespace contest;

/// `size` tasks that do next to nothing: each adds one to the object it has, if there are objects.
/// The benchmarks "empty" (no data), "chain" (one object that all have) and "objects" (1024, in
/// turn).
class counting {
public:
  static constexpr std::size_t many = 1024;
  /// A line of the cache: what is measured is not that objects share one.
  struct alignas(64) object {
    long value = 0;
  };

  explicit counting(const job& j)
      : tasks(j.size), objects(j.benchmark == "empty"   ? 0
                               : j.benchmark == "chain" ? 1
                                                        : many) {}
  static bool is_meant(const std::string& benchmark) {
    return benchmark == "empty" || benchmark == "chain" || benchmark == "objects";
  }
  /// Which object task i has. \pre there are objects.
  std::size_t object_of(std::size_t i) const { return i % objects.size(); }

  void prepare() {
    for (object& o : objects) o.value = 0;
  }
  void check() const {
    std::size_t sum = 0;
    for (const object& o : objects) sum += static_cast<std::size_t>(o.value);
    if (!objects.empty() && sum != tasks)
      throw std::runtime_error(std::to_string(sum) + " of " + std::to_string(tasks) + " tasks have left a trace");
  }

  std::size_t tasks;
  std::vector<object> objects;
};

/// "roundtrip": a host task adds one to the first few elements of an object of 16 MiB, then a task
/// on the OpenCL device does, `size` times. Few, so that what is measured is what keeps the object
/// coherent.
struct round_trip {
  static constexpr std::size_t elements = (std::size_t{16} << 20) / sizeof(int), touched = 64;
  explicit round_trip(const job& j) : rounds(j.size), data(elements) {}
  void prepare() { data.assign(elements, 0); }
  void check() const {
    for (std::size_t i = 0; i < touched + 1; ++i)
      if (data[i] != (i < touched ? 2 * static_cast<int>(rounds) : 0))
        throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(data[i]) + " after " +
                                 std::to_string(rounds) + " rounds");
  }
  static void on_host(int* data) {
    for (std::size_t i = 0; i < touched; ++i) ++data[i];
  }
  std::size_t rounds;
  std::vector<int> data;
};

} // namespace tern::bench::hetero
