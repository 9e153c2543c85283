// SPDX-License-Identifier: Apache-2.0
// Blocks that exchange ghost layers while messages are late and overtake each other, and blocks
// move: all cells are those of the serial result, and nothing is left of transfers.
#include <cstddef>
#include <cstdint>
#include <string>

#include <tern/global/travel.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>

#include "property.hpp"
#include "tests/global/support/halo_blocks.hpp"

namespace halo_properties {

using namespace tern::property;
using tern::rank;
using tern::test::grid_block;
using tern::test::grid_problem;

const option_knob debug_knob{"debug", [](tern::options& of, std::int64_t value) {
                               static const char* const words[] = {"none", "rotate", "random", "reserialize"};
                               of.set(tern::mobile::debug_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                             }};
const option_knob devices_knob{"devices", [](tern::options& of, std::int64_t value) {
                                 if (value == 0) return;
                                 of.set(tern::hetero::hetero_devices, "host,simulated");
                                 of.set(tern::hetero::hetero_simulated, "2");
                               }};

std::string text(std::int64_t n) { return std::to_string(n); }

template <int N> void exchange(const grid_problem& p) {
  using block = grid_block<N>;
  typename block::array blocks;
  if (rank() == 0) {
    tern::extents<N> grid;
    for (std::size_t d = 0; d < N; ++d) grid[d] = p.grid[3 - N + d];
    blocks = typename block::array({.name = "blocks"}, grid, p);
    tern::send<&block::begin>(blocks);
  }
  tern::quiesce();
  tern::wait_all();
  tern::quiesce(); // what was to move when tasks have ended
  if (rank() == 0) {
    const std::int64_t wrong = tern::test::wrong_cells<N>(blocks, p);
    TERN_HOLDS(wrong == 0, text(wrong) + " cells are wrong");
  }
  tern::quiesce();
  const auto n = tern::global::count_transfers();
  TERN_HOLDS(n.departing == 0, text(static_cast<std::int64_t>(n.departing)) + " transfers have not left at the end");
  TERN_HOLDS(n.arriving == 0, text(static_cast<std::int64_t>(n.arriving)) + " transfers have not landed at the end");
  tern::wait_all();
  tern::barrier();
}

TERN_PROPERTY(halos_are_those_of_their_steps,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "dimensions=1..3 width=1..3 sides=1..3 steps=1..12 moves=0..4 debug=0..3 devices=0..1") {
  dice d = common();
  grid_problem p;
  p.dimensions = static_cast<int>(knob("dimensions"));
  p.width = knob("width");
  p.sides = static_cast<tern::halo_sides>(knob("sides"));
  p.steps = knob("steps");
  p.move_every = static_cast<int>(knob("moves"));
  p.seed = static_cast<int>(d.below(100));
  for (std::size_t i = static_cast<std::size_t>(3 - p.dimensions); i < 3; ++i) {
    p.grid[i] = d.between(1, p.dimensions == 3 ? 2 : 3);
    p.cells[i] = p.width + d.between(0, 3);
    p.periodic[i] = d.chance(0.6);
  }
  if (p.dimensions == 1)
    exchange<1>(p);
  else if (p.dimensions == 2)
    exchange<2>(p);
  else
    exchange<3>(p);
}

} // namespace halo_properties
