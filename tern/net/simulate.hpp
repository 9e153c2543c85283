// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whole jobs in a simulation, from within a program: for tests that try many seeds, and for
/// studies. To run a program as it is in a simulation, none of this is needed: set TERN_SIM (see
/// sim_world.hpp).
///
///     const auto result = tern::sim::run(tern::sim::parse_world("ranks=64,seed=7,faults=reorder"), [] {
///       tern::barrier();
///       return 0;
///     });
///     std::printf("%.9f s, %llu messages\n", result.seconds, result.messages);

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/net/sim_world.hpp>

namespace tern::sim {

/// What a simulated job came to.
struct outcome {
  int code = 0;                    ///< the largest of the ranks' exit codes
  double seconds = 0;              ///< virtual time
  std::uint64_t messages = 0;      ///< sent, of all kinds
  std::uint64_t bytes = 0;         ///< in them
  std::uint64_t trace_hash = 0;    ///< of everything that happened, in its order: equal for equal programs and worlds
  std::uint64_t events = 0;        ///< how many things happened
  std::vector<std::string> faults; ///< what went wrong by order, a line each
};

/// Runs `main` as the main fiber of every rank of a simulated job, on the calling thread; returns
/// when the job is over. May be called again and again, not from inside a job. What ends other jobs
/// (an exception that no code can receive, a program error) ends the process here too, after the
/// command that shows it again has been printed.
/// \throws error(deadlock) as soon as nothing can happen any more, and a rank has not ended: it
/// tells what each waits for; error(invalid_option) for a world that cannot be.
outcome run(const world& w, const std::function<int()>& main, const options& opts = {});

} // namespace tern::sim
