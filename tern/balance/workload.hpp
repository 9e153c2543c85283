// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a program gives its ranks to do, without the program: how many objects, what their
/// invocations take, to which they talk to. Made up, or recorded from a run (option `record`);
/// tried in a model (model.hpp) or on the runtime itself.

#include <tern/base/language/compiler.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tern::balance {

/// Objects that do some work in each of several phases. All objects' invocations of a phase wait
/// from its beginning; the next phase begins when all have ended. One phase: it is done once.
struct workload {
  struct object {
    int rank = 0;                ///< where it is at the beginning
    double bytes = 0;            ///< that it takes to move it
    std::vector<double> seconds; ///< by phase, of a worker; 0: nothing to do
    std::vector<float> device;   ///< likewise of a device; may be empty
    double tasklets = 1;         ///< so many workers of one rank can share an invocation's work, at most
  };
  /// Talk in each phase.
  struct link {
    std::uint32_t from = 0, to = 0; ///< objects
    double bytes = 0, messages = 0; ///< in a phase
  };
  int ranks = 1;
  int workers = 1; ///< of each rank, that compute
  std::vector<object> objects;
  std::vector<link> links;
  std::vector<double> slow; ///< by rank, how many times longer it takes; empty: 1

  std::size_t phases() const noexcept { return objects.empty() ? 0 : objects[0].seconds.size(); }
  /// No schedule ends before: the sum over all phases of the larger of the phase's work per worker
  /// (of its speed) and its heaviest object.
  double bound() const;
  /// If no object moves and each rank's workers never idle before the rank's last invocation has
  /// begun, at least. Both know of slow ranks and of tasklets, and of no time for talk.
  double static_bound() const;
};

/// \throws error(invalid_argument) that names what is wrong: a rank that there is not, a negative
/// time, ….
void check(const workload& w);

/// The literature's synthetic loads (docs/results/balance.md): `per_worker` objects for each
/// worker, of which 20 % are 2.5 times heavier; the others' times are normal with a coefficient of
/// variation of 0.10 about 35.8 s. Times are whole nanoseconds and, but for `burst`, the same in
/// each phase.
struct synthetic {
  /// `literature`: half the objects of the first 40 % of the workers are heavy; `clustered`: all
  /// those of the first 20 %; `pareto`: heavy-tailed times, shape 1.5, anywhere, none more than a
  /// worker's average share; `burst`: several phases, the heavy fifth moves on through the ranks by
  /// half its width from one to the next; `slow`: even loads, but the rank in the middle takes four
  /// times as long; `talk`: objects that talk to their four neighbours on a torus (`bytes` and 16
  /// messages on each link), placed at random, those of the first 20 % of the workers heavy;
  /// `rare`: one in 1000 is 100 times heavier.
  std::string placement = "literature";
  int ranks = 10, workers = 31;
  int per_worker = 10;
  double seconds = 35.8, variation = 0.10, heavier = 2.5, bytes = 1 << 20;
  int phases = 1;
  std::uint64_t seed = 1;
};
/// \throws error(invalid_option) for an unknown placement.
workload make(const synthetic& s);
extern const char* const placements; ///< "literature|clustered|…"

} // namespace tern::balance
