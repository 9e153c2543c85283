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

/// An iteration of a block: on which rank, and when.
struct iteration_record {
  std::int64_t block = 0, iteration = 0;
  std::int32_t rank = 0;
  float submitted = 0, ended = 0; ///< seconds since the rank's clock was started
  template <class A> void serialize(A& ar) { ar(block, iteration, rank, submitted, ended); }
};

/// What a rank's tasks have done, for pictures. Any thread.
class iteration_list {
public:
  void add(const iteration_record& one) {
    const std::lock_guard hold(guard_);
    all_.push_back(one);
  }
  std::vector<iteration_record> all() const {
    const std::lock_guard hold(guard_);
    return all_;
  }

private:
  mutable std::mutex guard_;
  std::vector<iteration_record> all_;
};

struct rank_course {
  tern::fiber_clock::time_point began;
  norm_table norms;
  iteration_list history;
  float seconds() const { return std::chrono::duration<float>(tern::fiber_clock::now() - began).count(); }
};
rank_course& here();

/// A handler of rank 0.
void take_norm(std::int64_t iteration, double change);

} // namespace jacobi3d
