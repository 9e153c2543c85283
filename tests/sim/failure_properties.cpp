// SPDX-License-Identifier: Apache-2.0
// What a job's survivors learn of ranks that crash.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "property.hpp"

namespace failure_properties {

using namespace tern::property;
using tern::rank;
using tern::size;
using namespace std::chrono_literals;

double in_seconds(tern::fiber_clock::time_point t) {
  return std::chrono::duration<double>(t.time_since_epoch()).count();
}

per_case<std::map<std::pair<int, int>, int>> told; // (rank told, rank lost): how often
per_case<std::map<int, double>> alive;             // when each was last seen so
per_case<std::set<int>> lasted;                    // ranks that came to the end

void disturb() { take_time(); }

constexpr double latest_crash = 1e-3, hears_within = 3e-3; // 1 to 2 ms, and what pauses and others' work take

// Each survivor hears of each crash once and in time. No rank hears of anything else.
// \param later by how much pauses and slowness delay the ranks that they strike; a slow rank also
// takes longer steps.
void live(double later) {
  const double began = in_seconds(tern::fiber_clock::now());
  tern::on_rank_failure([later, began](const tern::rank_failure& f) {
    const double now = in_seconds(tern::fiber_clock::now()), when = in_seconds(f.when);
    const std::string what = "rank " + std::to_string(rank()) + " about rank " + std::to_string(f.rank);
    ++(*told)[{rank(), f.rank}];
    TERN_HOLDS(now > when && now < std::max(began, when) + hears_within + later, what + " was told too early or late");
    const auto seen = alive->find(f.rank);
    TERN_HOLDS(seen == alive->end() || seen->second <= when + (later > 0 ? 1e-3 : 1e-5), what + ": it lives");
  });
  if (rank() == 0)
    afterwards([ranks = size()](const ending&) {
      for (const auto& [pair, times] : *told) {
        const std::string who = std::to_string(pair.first) + " of " + std::to_string(pair.second);
        TERN_HOLDS(times == 1, who + " was told " + std::to_string(times) + " times");
        TERN_HOLDS(!lasted->contains(pair.second), who + ", which has not crashed, was told");
      }
      for (const int survivor : *lasted)
        for (int r = 0; r < ranks; ++r) // one that never began has crashed, or waits for another that has
          TERN_HOLDS(lasted->contains(r) || !alive->contains(r) || told->contains({survivor, r}),
                     std::to_string(survivor) + " does not know of " + std::to_string(r));
    });
  for (const auto end = tern::fiber_clock::now() + std::chrono::duration<double>(latest_crash + hears_within + later);
       tern::fiber_clock::now() < end;) {
    for (std::int64_t n = rolls().below(knob("messages") + 1); n > 0; --n)
      tern::send<&disturb>(static_cast<int>(rolls().below(size())));
    (*alive)[rank()] = in_seconds(tern::fiber_clock::now());
    tern::this_fiber::sleep_for(100us);
  }
  lasted->insert(rank());
  tern::barrier();
}

TERN_PROPERTY(survivors_hear_of_crashes,
              "ranks=1..16 workers=1..3 faults=delay:reorder:crash room=0..8 deadlock=allowed messages=0..5") {
  live(0);
}

TERN_PROPERTY(slow_survivors_hear_of_crashes,
              "ranks=1..8 workers=1..2 faults=delay:slow:pause:crash deadlock=allowed messages=0..2") {
  live(40e-3); // pauses take up to 10 ms each
}

TERN_PROPERTY(nobody_hears_without_a_crash,
              "ranks=1..12 workers=1..3 faults=delay:reorder:slow:pause network=any messages=0..5") {
  live(40e-3);
  TERN_HOLDS(told->empty(), "somebody was told");
}

} // namespace failure_properties
