// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One simulated program with many seeds, several of them at a time.

#include <cstdint>
#include <string>
#include <vector>

#include <tern/net/sim_world.hpp>

namespace tern::tool {

struct seed_search {
  std::vector<std::string> argv;  ///< the program, found, and its arguments
  std::vector<std::string> shown; ///< the same as they were typed
  sim::world world;               ///< its seed is the first one
  std::uint64_t seeds = 1;        ///< \pre the last one is a seed too
  int jobs = 1;
  double limit = 60; ///< seconds for each
  double budget = 0; ///< seconds for all; 0: as long as it takes
};

/// The text for TERN_SIM that makes this world, whatever the environment says besides.
std::string sim_text(const sim::world& w);

/// Looks for the smallest seed with which the program fails, prints what it wrote and how to see it again. When it
/// returns, nothing that it started is left. Call from a process with one thread. \return the exit code: 0 if none
/// fails, 1 if one does or no seed came to its end within the budget, 128 + the signal that ended the search.
/// \throws failure if a process cannot be started.
int search_seeds(const seed_search& what);

} // namespace tern::tool
