// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the user asked for on the command line.

#include "apps/nbody/bodies/models.hpp"
#include "apps/nbody/tree/tree.hpp"

#include <cstdint>
#include <optional>
#include <string>

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

  /// Pieces for so many bodies. Not by the number of ranks: the bits must not depend on it.
  std::uint32_t pieces_for(std::size_t bodies) const noexcept;
};

struct command_line {
  settings wanted;
  bool stop = false; ///< help was asked for, or the line was wrong: `text` says so
  int code = 0;
  std::string text;
};

/// Reads and checks the command line (Tern's own options removed). \throws
/// tern::error(invalid_argument) for impossible values.
command_line parse_command_line(int argc, const char* const* argv);

} // namespace nbody
