// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Starts programs of two or more ranks, under an MPI's launcher or as threads, ours and rivals
/// alike.

#include "bench/harness/harness.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tern::bench {

enum class mpi { open_mpi, mpich };

using words = std::vector<std::string>;
using environment = std::vector<std::pair<std::string, std::string>>;

/// A program and what it is to do.
words command_line(const std::string& program, const words& arguments);

/// What is set for a rival: what Tern's plug-in sets for users, or nothing, as `mpirun` runs it.
enum class rival_settings { as_ours, defaults };
/// How long an idle rank of ours looks for messages before it sleeps: as long as users get where
/// each rank has a CPU, or as good as for ever, as raw MPI does, or as ours finds right by itself.
enum class spinning { usual, always, chosen };

/// How a job of another kind is launched.
struct launch_shape {
  int ranks = 2;
  words before = {};  ///< in front of the launcher: `ip netns exec NAME`
  words options = {}; ///< of the launcher's
};

/// What a rival reports. All \throw absent if the launcher, the library or a second core is not
/// there.
nlohmann::json run_rival_ranks(mpi library, const words& program, rival_settings how = rival_settings::as_ours,
                               const launch_shape& shape = {});
/// What ours does, as users run it but for `more`.
nlohmann::json run_tern_ranks(mpi library, const words& program, spinning how, environment more = {},
                              const launch_shape& shape = {});
/// Two ranks that are threads, each bound to a core.
nlohmann::json run_tern_threads(const words& program, spinning how);
/// One rank, with so many workers. Its program depends neither on MPI nor on how idle ranks wait.
nlohmann::json run_tern_alone(int workers, const words& program);
/// A simulation of so many ranks, on the model of a network without chance.
nlohmann::json run_tern_simulated(int ranks, const words& program);

/// What stands in our environment would change one side: for the beginning of `main`.
void forget_settings();

} // namespace tern::bench
