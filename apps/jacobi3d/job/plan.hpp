// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What all blocks of a run must know, and on which rank each is made.

#include "apps/jacobi3d/grid/problem.hpp"

#include <cstdint>

#include <tern/base/extents.hpp>

namespace jacobi3d {

struct plan {
  cells n{}, blocks{}; ///< cells and blocks along x, y, z
  double alpha = 0, tolerance = 0;
  std::int64_t iterations = 0, norm_every = 0; ///< 0: there is no norm
  std::int64_t depth = 1;                      ///< layers that a message brings, and iterations on them
  std::int64_t ahead = 0;                      ///< iterations that a block's tasks may lie behind its handlers
  std::int32_t kind = -1;                      ///< of devices; -1: any
  bool history = false;                        ///< ends of iterations are kept
  std::int64_t balance_every = 0;              ///< iterations from one balancing of blocks to the next; 0: none

  cells block_size() const noexcept { return {n[0] / blocks[0], n[1] / blocks[1], n[2] / blocks[2]}; }
  /// After how many iterations blocks wait for what the norm says, or for balancing, at first.
  std::int64_t first_limit() const noexcept {
    if (balance_every > 0 && balance_every < iterations) return balance_every;
    return tolerance > 0 && 2 * norm_every < iterations ? 2 * norm_every : iterations;
  }
  template <class A> void serialize(A& ar) {
    ar(n, blocks, alpha, tolerance, iterations, norm_every, depth, ahead, kind, history, balance_every);
  }
};

/// Blocks are numbered with x running fastest. \return indices of the array: z, y, x.
inline tern::indices<3> place_of_block(const plan& about, std::int64_t number) noexcept {
  const cells& b = about.blocks;
  return {number / (b[0] * b[1]), number / b[0] % b[1], number % b[0]};
}

/// The mapping of the array of blocks, whose indices are z, y, x: each rank has a box of blocks, of
/// boxes that divide the array the one with the smallest surface, whether blocks or the grid are
/// nearer to cubes. Where no boxes do, consecutive blocks. \param at, blocks as tern::map_by gives
/// them.
int rank_of_block(const tern::indices<3>& at, const tern::extents<3>& blocks, int ranks);

} // namespace jacobi3d
