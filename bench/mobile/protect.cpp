// SPDX-License-Identifier: Apache-2.0
/// \file
/// Protected steps of simulated jobs: what copies cost, and how long it takes to go on when a rank
/// has died. Times are virtual, of a network with a gigabyte a second.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/mobile/protect.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

class brick {
public:
  brick() = default;
  explicit brick(std::int64_t bytes) : data_(static_cast<std::size_t>(bytes) / sizeof(std::int64_t)) {}
  void step() { ++data_.front(); }
  std::int64_t steps() const { return data_.front(); }
  template <class A> void serialize(A& ar) { ar(data_); }

private:
  std::vector<std::int64_t> data_;
};

struct plan {
  int ranks = 1, each = 1; // objects
  std::int64_t bytes = 8;  // of an object
  long steps = 1;
  std::chrono::duration<double> work{};             // of each rank in each step
  std::optional<std::chrono::nanoseconds> interval; // no value: no copies
  int dies = -1;                                    // this rank, in the middle
};
struct outcome {
  double seconds = 0;
  protection done;
};

outcome run(const plan& p, double crash_at = -1) {
  outcome all;
  sim::world world;
  world.ranks = p.ranks;
  world.network.bandwidth = 1e9;
  if (p.dies >= 0) world.faults.crash.push_back({p.dies, crash_at});
  const auto ended = sim::run(world, [&] {
    mobile_array<brick> bricks;
    std::int64_t step = 0;
    if (rank() == 0) bricks = mobile_array<brick>({std::int64_t{p.ranks} * p.each}, p.bytes);
    bricks = broadcast(bricks);
    const auto once = [&] {
      const communicator living = communicator::world();
      this_fiber::sleep_for(std::chrono::duration_cast<std::chrono::nanoseconds>(p.work));
      if (living.rank() == 0) call<&brick::step>(bricks).get();
      living.barrier();
      if (++step < p.steps) return true;
      if (living.rank() == 0)
        check(reduce<&brick::steps>(bricks, std::plus<>()).get() == p.steps * p.ranks * p.each, "a step");
      living.barrier();
      return false;
    };
    if (!p.interval) {
      while (once()) {
      }
      return 0;
    }
    const protection done = protect(every(*p.interval), once, bricks, step);
    if (communicator::world().rank() == 0) all.done = done;
    return 0;
  });
  all.seconds = ended.seconds;
  return all;
}

} // namespace

nlohmann::json protect_cost(int ranks) {
  using namespace std::chrono_literals;
  plan p{.ranks = ranks, .each = 4, .bytes = 16384, .steps = 60, .work = 5s};
  const outcome without = run(p);
  p.interval = 60s;
  const outcome with = run(p);
  check(with.done.copies >= 5, "copies of each minute");
  return {{"with", with.seconds},
          {"without", without.seconds},
          {"kept", static_cast<double>(with.done.kept)},
          {"packed", static_cast<double>(with.done.packed)}};
}

nlohmann::json recover(int ranks) {
  using namespace std::chrono_literals;
  plan p{.ranks = ranks, .each = 16, .bytes = 262144, .steps = 6, .work = 30ms, .interval = 40ms};
  const outcome undisturbed = run(p);
  p.dies = ranks / 2;
  const outcome disturbed = run(p, undisturbed.seconds / 2);
  check(disturbed.done.recoveries == 1, "a recovery");
  // From when the first rank that lives learns of the death: to agree, to put all back, and to take
  // the copy that must be there before a step is repeated.
  return {{"go_on", 1e6 * (disturbed.done.recovery_seconds + disturbed.done.copy_seconds)},
          {"copy", 1e6 * undisturbed.done.copy_seconds}};
}

} // namespace tern::bench::mobile
