// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank knows of a run: its clock, what it sent, and on rank 0 the norms.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

namespace jacobi3d {

struct norm_record {
  std::int64_t iteration = 0;
  double change = 0; ///< the largest of a cell in that iteration
};

/// Norms as they come. A largest value does not depend on the order in which it is found, nor on
/// the blocks.
class norm_table {
public:
  void begin(std::int64_t blocks, std::function<void(const norm_record&)> on_whole);
  /// Any fiber of the rank.
  void add(std::int64_t iteration, double change);
  /// In the order of iterations.
  std::vector<norm_record> all() const;

private:
  struct sum {
    std::int64_t blocks = 0;
    double change = 0;
  };
  mutable std::mutex guard_;
  std::map<std::int64_t, sum> sums_;
  std::int64_t blocks_ = 0;
  std::function<void(const norm_record&)> on_whole_;
};

struct rank_course {
  tern::fiber_clock::time_point began;
  norm_table norms;
  float seconds() const { return std::chrono::duration<float>(tern::fiber_clock::now() - began).count(); }
};
rank_course& here();

/// A handler of rank 0.
void take_norm(std::int64_t iteration, double change);

} // namespace jacobi3d
