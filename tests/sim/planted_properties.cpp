// SPDX-License-Identifier: Apache-2.0
// Properties that fail in each way there is, for the harness's own test.
#include <csignal>
#include <stdexcept>
#include <string>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sim.hpp>

#include "bugs.hpp"
#include "property.hpp"

namespace planted {

using namespace tern::property;
using tern::rank;

TERN_PROPERTY(holds, "ranks=1..5 workers=1..2 faults=delay:reorder:slow:pause network=any steps=1..20") {
  for (std::int64_t i = 0; i < knob("steps"); ++i) take_time();
  tern::barrier();
}

TERN_PROPERTY(check_fails, "ranks=2..4 steps=1..20") {
  tern::barrier();
  TERN_HOLDS(rank() != 1 || knob("steps") < 5, "there are " + std::to_string(knob("steps")) + " steps");
}

TERN_PROPERTY(afterwards_fails, "ranks=1..3") {
  afterwards([](const ending& e) { TERN_HOLDS(e.outcome.messages == ~std::uint64_t{0}, "counted"); });
}

TERN_PROPERTY(body_throws, "ranks=2..4") {
  if (rank() == 1) throw std::runtime_error("out of paper");
  tern::barrier();
}

void throws() { throw std::runtime_error("out of ink"); }
TERN_PROPERTY(handler_throws, "ranks=2..4") {
  if (rank() == 0) tern::send<&throws>(1);
  tern::barrier();
}

TERN_PROPERTY(is_killed, "ranks=1..3") {
  if (rank() == 0) std::raise(SIGTERM);
}

TERN_PROPERTY(check_fails_and_is_killed, "ranks=1..3") {
  TERN_HOLDS(false, "this comes first");
  std::raise(SIGTERM);
}

TERN_PROPERTY(is_stuck, "ranks=2..4") {
  tern::promise<void> never;
  if (rank() == 1) never.get_future().get();
  tern::barrier();
}

TERN_PROPERTY(may_be_stuck, "ranks=2..4 deadlock=allowed") {
  if (rank() == 0) afterwards([](const ending& e) { TERN_HOLDS(e.deadlock, "it should be stuck"); });
  tern::promise<void> never;
  if (rank() == 1) never.get_future().get();
  tern::barrier();
}

TERN_PROPERTY(takes_for_ever, "ranks=1..3") {
  for (;;) tern::sim::charge(1e-6);
}

TERN_PROPERTY(has_a_smallest, "ranks=1..16 workers=1..3 faults=delay:reorder:slow:pause network=any steps=0..500 "
                              "other=3..90") {
  const bool bad = tern::size() >= 3 && knob("steps") >= 7 && the_world().faults.delay > 0;
  TERN_HOLDS(rank() != 0 || !bad, "planted, with " + std::to_string(knob("steps")));
}

// Decided by more than the seed.
TERN_PROPERTY(differs, "ranks=1..3") {
  static int runs = 0;
  tern::sim::charge(1e-6 * ++runs);
}

// In one of hundreds of seeds, so that processes have to agree on which was the first.
TERN_PROPERTY(fails_seldom, "ranks=1..3") {
  const auto seed = the_world().seed;
  TERN_HOLDS(seed != 77 && seed != 78 && seed != 140, "seed " + std::to_string(seed));
}

// In the program's source, as broken copies have them.
TERN_PROPERTY(has_a_bug, "ranks=1..3") { TERN_HOLDS(!TERN_BUG(planted) || the_world().seed < 5, "the planted bug"); }

} // namespace planted
