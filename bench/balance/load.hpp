// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runs a workload on the runtime: mobile objects, whose invocations take the times that the
/// workload gives. The ranks are simulated or real.

#include <cstdint>
#include <string>
#include <vector>

#include <tern/balance/workload.hpp>
#include <tern/net/simulate.hpp>

namespace tern::bench::balance {

/// What an invocation does for its time.
enum class compute {
  charge, ///< virtual time passes; for simulations
  hold,   ///< its worker sleeps: as if each had a core of its own
  burn    ///< a core computes
};

struct load_settings {
  std::string policy = "none", order = "heavy";
  double period = 0.05;
  enum compute compute = compute::charge;
  double bandwidth = 0; ///< bytes a second that a rank sends objects with; 0: as fast as they are copied. Simulations
                        ///< have no memory for all that the objects stand for.
  std::uint64_t seed = 1;
  std::string record; ///< a file; empty: none
  bool apart = true;  ///< in simulations: one more core of each rank looks after messages, and nothing else
};

/// How it went; the same on all ranks.
struct load_result {
  double makespan = 0;      ///< seconds from the first invocation sent to the last one done
  std::vector<double> busy; ///< by rank and worker
  std::vector<double> phase_ends;
  std::uint64_t moves = 0, stayed = 0, returns = 0, messages = 0, calls = 0;
  std::uint32_t most_moves = 0;
  std::uint64_t invocations = 0; ///< that ran, over all objects
};

/// On all ranks of a job, in their main fibers; `w` for as many ranks as there are, and the same on
/// each. The policy in use is that of the options.
load_result run_load(const tern::balance::workload& w, const load_settings& s);

/// A job of its own on simulated ranks, one core of each of which only looks after messages.
load_result simulate_load(const tern::balance::workload& w, const load_settings& s, sim::world world);

} // namespace tern::bench::balance
