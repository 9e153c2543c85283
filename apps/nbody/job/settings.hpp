// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the user asked for on the command line.

#include "apps/common/command_line.hpp"
#include "apps/nbody/bodies/models.hpp"
#include "apps/nbody/tree/tree.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nbody {

struct settings {
  model start;
  std::string input; ///< CSV; empty: the model
  tree_settings tree;
  int order = 2;                         ///< 1: monopoles, 2: quadrupoles
  std::optional<double> softening, step; ///< none: what suits the model
  double gravity = 1;
  std::uint64_t steps = 100;
  std::uint32_t pieces = 0; ///< 0: by the number of bodies
  std::uint64_t frames = 0; ///< pictures of the film; 0: none
  std::string out, json;
  bool pictures = true, vtu = true, csv = true, verify = false, quiet = false;
  std::string checkpoint;         ///< folder; empty: none
  std::uint64_t every = 20;       ///< steps between two checkpoints
  std::vector<std::string> given; ///< options of the command line, as "--theta"

  /// Pieces for so many bodies. Not by the number of ranks: the bits must not depend on it.
  std::uint32_t pieces_for(std::size_t bodies) const noexcept;
  bool is_given(const std::string& option) const;
  /// What a checkpoint keeps: how a run is begun, how long it is and how often it is pictured.
  template <class A> void serialize(A& ar) {
    ar(start.name, start.bodies, start.seed, input, tree, order, softening, step, gravity, steps, pieces, frames);
  }
};

struct command_line : apps::command_line_end {
  settings wanted;
};

/// Reads and checks the command line (Tern's own options removed). \param goes_on the run was begun
/// before: what is not given is not known yet. \throws tern::error(invalid_argument) for impossible
/// values.
command_line parse_command_line(int argc, const char* const* argv, bool goes_on = false);

} // namespace nbody
