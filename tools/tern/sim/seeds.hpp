// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One simulated program with many seeds, several of them at a time, each in one or more ways.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/sim_world.hpp>

namespace tern::tool {

/// One way in which each seed is tried.
struct sim_way {
  sim::world world; ///< with each seed in the place of its own
  /// Variables to set besides TERN_SIM.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

/// Run number i tries the seed `first + i / ways.size()` in the way `i % ways.size()`.
struct seed_search {
  std::vector<std::string> argv;  ///< the program, found, and its arguments
  std::vector<std::string> shown; ///< the same as they were typed
  std::vector<sim_way> ways;      ///< at least one
  std::uint64_t first = 1;
  std::uint64_t seeds = 1; ///< \pre the last one is a seed too
  int jobs = 1;
  double limit = 60;                          ///< seconds for each run
  double budget = 0;                          ///< seconds for all; 0: as long as it takes
  const char* counted[2] = {"seed", "seeds"}; ///< what is counted in messages
  std::uint64_t runs() const { return seeds * ways.size(); }
};

struct failed_run {
  std::uint64_t number; ///< from 0
  std::string how;      ///< "exit code 1"
  std::string output;   ///< the end of what it wrote
  bool first = false;   ///< all runs before it came to a good end
};

struct search_result {
  std::vector<std::uint64_t> well;  ///< runs of each way that came to a good end
  std::optional<failed_run> failed; ///< the smallest one known
  bool not_started = false;         ///< `failed` never called tern::run, and did not fail otherwise
  int interrupted_by = 0;           ///< a signal, or 0
  double seconds = 0;
  std::uint64_t all_well() const;
};

/// The text for TERN_SIM that makes this world, whatever the environment says besides.
std::string sim_text(const sim::world& w);
/// That a program never called tern::run and so was not simulated.
std::string not_simulated(const std::string& program);
/// "1 seed", "3 seeds".
std::string count_of(const seed_search& what, std::uint64_t number);
std::string number_text(double x);

/// Looks for the first run that fails. When it returns, nothing that it started is left. Call from
/// a process with one thread. \throws failure if a process cannot be started.
search_result search_seeds(const seed_search& what);
/// Prints what the failed run wrote, that it failed, and how to see it again. \param which names
/// it: "seed 3".
void tell_failure(const seed_search& what, const failed_run& run, const std::string& which);
/// Says how the search ended, if not by a run that failed or nothing failed in all of them. \return
/// the exit code, or nothing.
std::optional<int> tell_early_end(const seed_search& what, const search_result& result);
/// Says how a search in one way ended. \return the exit code: 0 if no seed failed, 1 if one did or
/// none came to its end within the budget, 128 + the signal that ended the search.
int tell_seeds(const seed_search& what, const search_result& result);

/// The search of `tern sim --check`: all faults that delay messages, objects that stay or move all
/// the time. \param w has the ranks and the rest; its seed is the first.
seed_search check_of(const sim::world& w);
/// Says how that search ended, with a table of what was tried. \return as `tell_seeds`.
int tell_check(const seed_search& what, const search_result& result);

} // namespace tern::tool
