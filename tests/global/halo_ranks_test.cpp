// SPDX-License-Identifier: Apache-2.0
// Blocks that exchange ghost layers, on every transport and several kinds of devices.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tern/global/travel.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>

#include "rank_test.hpp"
#include "tests/global/support/halo_blocks.hpp"

namespace halo_test {

using tern::halo_sides;
using tern::rank;
using tern::size;
using tern::test::grid_block;
using tern::test::grid_problem;

/// All ranks call it.
template <int N> void run(const grid_problem& p) {
  using block = grid_block<N>;
  typename block::array blocks;
  if (rank() == 0) {
    tern::extents<N> grid;
    for (std::size_t d = 0; d < N; ++d) grid[d] = p.grid[3 - N + d];
    blocks = typename block::array({.name = "blocks"}, grid, p);
    tern::send<&block::begin>(blocks);
  }
  tern::quiesce();
  if (rank() == 0) {
    TERN_EXPECT_EQ(tern::test::wrong_cells<N>(blocks, p), 0);
    const auto fewer = [](std::int64_t a, std::int64_t b) { return std::min(a, b); };
    TERN_EXPECT_EQ(tern::reduce<&block::steps>(blocks, fewer).get(), p.steps);
    tern::destroy(blocks).get();
  }
  tern::quiesce();
  const auto n = tern::global::count_transfers();
  TERN_EXPECT_EQ(n.departing, 0u);
  TERN_EXPECT_EQ(n.arriving, 0u);
  tern::wait_all();
  tern::barrier();
}

TERN_RANK_TEST(a_line_of_blocks) {
  run<1>({.dimensions = 1, .cells = {1, 1, 5}, .grid = {1, 1, 4}, .width = 2, .sides = halo_sides::faces, .steps = 12});
  run<1>({.dimensions = 1,
          .cells = {1, 1, 3},
          .grid = {1, 1, 2},
          .periodic = {false, false, true},
          .width = 3,
          .steps = 12,
          .move_every = 2});
}

TERN_RANK_TEST(a_plane_of_blocks) {
  run<2>({.cells = {1, 6, 5}, .grid = {1, 3, 2}, .width = 1, .sides = halo_sides::faces, .steps = 10, .move_every = 3});
  run<2>({.cells = {1, 40, 70},
          .grid = {1, 2, 3},
          .periodic = {false, true, true},
          .width = 1,
          .sides = halo_sides::corners,
          .steps = 10,
          .move_every = 2});
}

TERN_RANK_TEST(a_box_of_blocks) {
  run<3>({.dimensions = 3,
          .cells = {4, 5, 3},
          .grid = {2, 1, 2},
          .periodic = {true, true, false},
          .width = 2,
          .sides = halo_sides::corners,
          .steps = 5,
          .move_every = 2});
  run<3>({.dimensions = 3,
          .cells = {8, 6, 10},
          .grid = {2, 2, 1},
          .periodic = {false, true, true},
          .width = 1,
          .sides = halo_sides::edges,
          .steps = 5});
}

// What no neighbour would send is an error of the call, and changes nothing.
TERN_RANK_TEST(what_no_neighbour_sends_is_an_error) {
  using block = grid_block<2>;
  const grid_problem p{.cells = {1, 4, 5}, .grid = {1, 1, 2}, .width = 1, .sides = halo_sides::faces, .steps = 2};
  if (rank() == 0) {
    const block::array blocks({.name = "blocks"}, {1, 2}, p);
    const auto there = blocks(0, 1);
    const auto give = [&](std::int64_t k, int from, std::int64_t cells) {
      return tern::call<&block::take>(there, k, from, tern::hetero_object<int>(cells, 0));
    };
    constexpr int west = 12, east = 14;
    TERN_EXPECT_ERROR(give(0, east, 4).get(), tern::errc::invalid_argument,
                      "the halo of block (0, 1) of 1 x 2: cells of step 0 from side (0, 1), where it has no neighbour");
    TERN_EXPECT_ERROR(give(0, west, 5).get(), tern::errc::invalid_argument, "are 5 cells in place of 4");
    TERN_EXPECT_ERROR(give(2, west, 4).get(), tern::errc::invalid_state,
                      "cells of step 2 from side (0, -1) are 2 steps ahead: step 0 has not been unpacked");
    tern::send<&block::begin>(blocks);
  }
  tern::quiesce();
  tern::wait_all();
  tern::barrier();
}

} // namespace halo_test
