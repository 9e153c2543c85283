// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A run, from the first cells to the last. Every function here is called by the main fibers of all
/// ranks together.

#include "apps/jacobi3d/job/block.hpp"
#include "apps/jacobi3d/job/course.hpp"
#include "apps/jacobi3d/job/settings.hpp"

#include <cstdint>
#include <vector>

namespace jacobi3d {

/// A block's iterations, in order.
using block_history = std::vector<iteration_record>;

struct rank_figures {
  std::int64_t blocks = 0;
  std::uint64_t kernels = 0; ///< tasks on devices other than the host
  template <class A> void serialize(A& ar) { ar(blocks, kernels); }
};

template <class T> struct finished_run {
  typename block<T>::array blocks;
  plan about;                  ///< as all ranks have it
  std::int64_t iterations = 0; ///< that were made
  double seconds = 0;          ///< of the iterations
  std::uint64_t hash = 0;      ///< on rank 0, as what follows
  std::vector<norm_record> norms;
  std::vector<rank_figures> ranks;
  std::uint64_t moves = 0;            ///< of blocks, to other ranks
  std::vector<block_history> history; ///< by block, if it was wanted
  std::vector<int> rank_of_block;     ///< in the end
};

/// \param wanted on rank 0. \throws what a task failed with, with the names of objects of blocks.
template <class T> finished_run<T> run_job(const settings& wanted);

/// All cells, x fastest, on rank 0, which alone calls it.
template <class T> std::vector<T> gather(const finished_run<T>& run);

} // namespace jacobi3d
