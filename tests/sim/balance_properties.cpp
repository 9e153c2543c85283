// SPDX-License-Identifier: Apache-2.0
// What load balancing promises: whatever the policy, each invocation runs once, in its order;
// nothing is lost when messages are late, ranks slow, objects cannot be packed, appear and vanish,
// or the policy is another one suddenly; no object goes to and fro; and all comes to rest.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tern/balance/balance.hpp>
#include <tern/balance/policy.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sim.hpp>

#include "property.hpp"
#include "travellers.hpp"

namespace balance_properties {

using namespace tern::property;
using namespace tern::property::travellers;
using tern::rank;
using tern::size;

const char* const policies[] = {"diffusion", "steal",  "master-worker", "hierarchical", "greedy",
                                "refine",    "gossip", "communication", "curve"};
std::string policy(std::int64_t n) { return policies[n % static_cast<std::int64_t>(std::size(policies))]; }

const option_knob policy_knob{"policy", [](tern::options& of, std::int64_t value) {
                                of.set(tern::balance::balance_option, policy(value));
                                of.set(tern::balance::period_option, 20e-6); // jobs take a millisecond here
                              }};
const option_knob order_knob{"order", [](tern::options& of, std::int64_t value) {
                               static const char* const words[] = {"fifo", "lifo", "heavy", "locality", "plan"};
                               of.set(tern::balance::order_option, words[value % 5]);
                             }};

/// Takes long enough to wait for a worker.
struct heavy : migrating_object {
  using migrating_object::migrating_object;
  void labour(std::int64_t from, std::int64_t number) {
    tern::sim::charge(20e-6 * static_cast<double>(1 + number % 5));
    write(from, number);
  }
};

std::vector<tern::mobile_ptr<heavy>> make_heavy(std::int64_t n, std::int64_t first) {
  std::vector<tern::mobile_ptr<heavy>> mine;
  for (std::int64_t i = 0; i < n; ++i) mine.push_back(tern::create<heavy>(first + i));
  return mine;
}

void expect_all_ran() {
  TERN_HOLDS(all->sent == all->ran, text(all->sent) + " invocations were sent and " + text(all->ran) + " ran");
}
void expect_no_thrash() {
  const auto c = tern::balance::count();
  TERN_HOLDS(c.most_moves <= 4, "an object moved " + text(c.most_moves) + " times before anything began on it");
}

// All the work is on some ranks; more objects appear and some vanish while it is done.
TERN_PROPERTY(once_and_in_order_wherever,
              "ranks=1..10 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
              "policy=0..7 order=0..4 objects=1..12 invocations=1..12 failures=0..3 "
              "memory=0..2 busy=1..10") {
  all->failures = 0.05 * static_cast<double>(knob("failures"));
  all->disks = knob("memory") > 0;
  afterwards([](const ending&) {
    TERN_HOLDS(all->made == all->dropped,
               text(all->made) + " copies were made and " + text(all->dropped) + " destroyed");
  });
  std::vector<tern::mobile_ptr<heavy>> mine;
  if (rank() < knob("busy")) mine = make_heavy(knob("objects"), 1000 * rank());
  std::vector<std::int64_t> numbers(mine.size());
  for (std::int64_t i = 0; i < knob("invocations"); ++i)
    for (std::size_t o = 0; o < mine.size(); ++o) {
      tern::send<&heavy::labour>(mine[o], std::int64_t{rank()}, numbers[o]++);
      ++all->sent;
      if (rolls().chance(0.1)) take_time();
    }
  if (rolls().chance(0.3)) { // one more, while the others may have left
    mine.push_back(tern::create<heavy>(1000 * rank() + 999));
    tern::send<&heavy::labour>(mine.back(), std::int64_t{rank()}, std::int64_t{0});
    ++all->sent;
  }
  if (!mine.empty() && rolls().chance(0.3)) { // behind all that it has
    tern::destroy(mine.front()).get();
    mine.erase(mine.begin());
  }
  tern::quiesce();
  expect_all_ran();
  expect_no_thrash();
  TERN_HOLDS(tern::balance::in_use() != "none", "the policy has failed");
  tern::barrier();
}

// Programs with phases: the same invariants, and the job comes to an end.
TERN_PROPERTY(phases_go_on, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 policy=0..7 "
                            "order=0..4 objects=1..8 phases=1..5 failures=0..2") {
  all->failures = 0.05 * static_cast<double>(knob("failures"));
  const auto mine = make_heavy(rank() % 2 == 0 ? knob("objects") : 1, 1000 * rank());
  for (std::int64_t p = 0; p < knob("phases"); ++p) {
    for (const auto& o : mine) {
      tern::send<&heavy::labour>(o, std::int64_t{rank()}, p);
      ++all->sent;
    }
    tern::balance::phase();
    expect_all_ran();
    expect_no_thrash();
    tern::barrier(); // the next phase adds to what was sent
  }
  TERN_HOLDS(tern::balance::in_use() != "none", "the policy has failed");
  tern::barrier();
}

// So many invocations that policies stand aside where they bring nothing, and are tried again,
// while objects wait and move.
TERN_PROPERTY(policies_stand_aside,
              "ranks=1..4 workers=1..2 faults=delay:reorder:slow:pause network=any room=0..8 policy=0..7 order=0..4 "
              "objects=1..4 bursts=1..8 busy=1..4 failures=0..2") {
  all->failures = 0.05 * static_cast<double>(knob("failures"));
  std::vector<tern::mobile_ptr<heavy>> mine;
  if (rank() < knob("busy")) mine = make_heavy(knob("objects"), 1000 * rank());
  for (std::int64_t b = 0, number = 0; b < knob("bursts"); ++b) {
    for (std::int64_t i = 0; i < 64; ++i, ++number)
      for (const auto& o : mine) {
        tern::send<&heavy::labour>(o, std::int64_t{rank()}, number);
        ++all->sent;
      }
    tern::quiesce();
    expect_all_ran();
    expect_no_thrash();
    tern::barrier(); // the next burst adds to what was sent
  }
  TERN_HOLDS(tern::balance::in_use() != "none", "the policy has failed");
  tern::barrier();
}

// Any rank chooses another policy, or none, at any moment.
TERN_PROPERTY(policies_change,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 policy=0..7 "
              "objects=1..10 invocations=1..10 changes=1..6") {
  const auto mine = make_heavy(rank() == 0 ? knob("objects") : 0, 0);
  tern::future<void> changes = tern::async([] {
    for (std::int64_t i = 0; i < knob("changes"); ++i) {
      take_time();
      if (!rolls().chance(0.3)) continue;
      switch (rolls().below(4)) {
      case 0:
        tern::balance::use("none").get();
        break;
      case 1:
        tern::balance::enable(false).get();
        break;
      case 2:
        tern::balance::enable(true).get();
        break;
      default:
        tern::balance::use(policy(rolls().below(8))).get();
      }
    }
  });
  for (std::int64_t i = 0; i < knob("invocations"); ++i)
    for (const auto& o : mine) {
      tern::send<&heavy::labour>(o, std::int64_t{rank()}, i);
      ++all->sent;
      take_time();
    }
  changes.get();
  tern::quiesce();
  expect_all_ran();
  tern::barrier();
}

/// Tells others when it has done something, as neighbours in a mesh do.
struct speaker : migrating_object {
  using migrating_object::migrating_object;
  void meet(const std::vector<tern::mobile_ptr<speaker>>& others) { others_ = others; }
  void speak(std::int64_t number) {
    tern::sim::charge(20e-6 * static_cast<double>(1 + number % 5));
    for (const auto& o : others_) {
      tern::send<&speaker::hear>(o, number);
      ++all->sent;
    }
    take_time();
  }
  void hear(std::int64_t number) {
    if (number % 3 == 0) tern::sim::charge(7e-6);
    ++all->ran;
  }
  template <class A> void save(A& ar) const {
    migrating_object::save(ar);
    ar(others_);
  }
  template <class A> void load(A& ar) {
    migrating_object::load(ar);
    ar(others_);
  }

private:
  std::vector<tern::mobile_ptr<speaker>> others_;
};

// An epoch is over when all is done that was sent in it, by objects that move, to objects that
// move.
TERN_PROPERTY(epochs_wait_for_what_waits,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 policy=0..7 order=0..4 "
              "objects=1..10 rounds=1..6 busy=1..8 failures=0..2") {
  all->failures = 0.05 * static_cast<double>(knob("failures"));
  std::vector<tern::mobile_ptr<speaker>> mine;
  if (rank() < knob("busy"))
    for (std::int64_t i = 0; i < knob("objects"); ++i) mine.push_back(tern::create<speaker>(1000 * rank() + i));
  std::vector<tern::mobile_ptr<speaker>> whole;
  for (auto& part : tern::communicator::world().allgather(mine)) whole.insert(whole.end(), part.begin(), part.end());
  for (const auto& o : mine) {
    std::vector<tern::mobile_ptr<speaker>> others;
    for (int k = 0; k < 4; ++k) others.push_back(whole[static_cast<std::size_t>(rolls().below(whole.size()))]);
    tern::call<&speaker::meet>(o, others).get();
  }
  const auto world = tern::communicator::world();
  for (std::int64_t round = 0; round < knob("rounds"); ++round) {
    tern::finish(world, [&] {
      std::vector<tern::future<void>> spoken;
      for (const auto& o : mine) spoken.push_back(tern::call<&speaker::speak>(o, round));
      for (auto& f : spoken) f.get();
    });
    expect_all_ran();
    tern::barrier(); // the next round adds to what was sent
  }
  tern::barrier();
}

} // namespace balance_properties
