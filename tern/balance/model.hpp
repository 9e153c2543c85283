// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A model of a machine, for policies: discrete events, one thread, a million cores in minutes. The
/// policy objects are the real ones, with all their messages. All else is simplified: objects are a
/// number of seconds and bytes, there is no directory (an object that has moved is found at no
/// cost), and there is contention only at the two ends. (The `sim` transport runs the whole
/// runtime, and is a hundred times slower.)
///
/// In detail. Time and loads are whole nanoseconds. A message takes the sender's communicating core
/// `overhead`, then its network card, which sends one message or object at a time,
/// bytes/`bandwidth`, then `latency`, then the receiver's core `overhead`. Objects need no core;
/// the rank that has moved one knows `latency` after it has arrived. A failed move keeps the object
/// away for two latencies. An invocation on a slow rank takes longer. If its object talks to
/// objects of other ranks, it takes bytes/`bandwidth` and, for each message, `overhead` longer. Of
/// several phases, the first begins as if it were the only one, and at the end of each but the last
/// policies are called: loads are then what the objects did in the phase that has ended. The next
/// begins when all messages, moves and fibers that this has caused have come to rest; timers
/// (policy_context::after) are not waited for. A time on a device is told to policies and takes no
/// time. contacts are those of a whole phase, from the beginning. What a policy does takes no time,
/// also in policy_context::fiber, where nothing waits. Idle workers that help with an invocation's
/// tasklets count as idle. The model limits the events that a policy causes while no invocation
/// runs, or while time stands still: 10,000 for each rank. A policy beyond that limit is assumed
/// never to come to rest, and is no longer called.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/balance/workload.hpp>

namespace tern::balance {

struct model_settings {
  std::string policy = "none"; ///< as for the option `balance`
  std::string order = "fifo";  ///< as for the option `balance-order`
  std::uint64_t seed = 1;
  double latency = 2e-6, bandwidth = 5e9;
  double overhead = 1e-6; ///< seconds of the communicating core for each message, at both ends
  double period = 1;      ///< as the option `balance-period`
  double delay = 0;       ///< each message may take up to so much longer, by chance; pairs stay in order
  double fails = 0;       ///< the share of moves that fail: the object stays
  bool apart = true;      ///< policies' messages are taken while all workers are busy; else when one ends an invocation
  double most_seconds = 0; ///< gives up when virtual time is that late; 0: ten times the workload's static bound, and 1
  std::function<void(double done)> progress; ///< told now and then, 0 to 1; may be empty
  /// What policies note (policy_context::note), as they do; may be empty.
  std::function<void(int rank, double at, std::string_view what, double value)> on_note;
};

/// How a modelled run went.
struct model_result {
  double makespan = 0;
  std::vector<double> busy; ///< by worker, rank by rank: seconds
  std::vector<double> phase_ends;
  std::uint64_t moves = 0, failed = 0, messages = 0, events = 0;
  double moved_bytes = 0, message_bytes = 0, remote_bytes = 0; ///< remote: between objects of different ranks
  std::uint32_t most_moves = 0;                                ///< of one object in one phase
  std::uint32_t returns = 0; ///< moves back to a rank that the object had left in the same phase
  struct sample {
    double at, imbalance; ///< the busiest rank's remaining load over the mean
    std::uint64_t moves;  ///< until then
  };
  std::vector<sample> over_time; ///< about 200
  std::string error;             ///< if the policy threw: what
};

/// \throws error(invalid_option) for a policy or order that there is not; error(deadlock) if work
/// is left and nothing can happen; error(timeout) if it takes longer than `most_seconds`.
model_result run_model(const workload& w, const model_settings& s);

} // namespace tern::balance
