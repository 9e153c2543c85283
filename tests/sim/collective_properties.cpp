// SPDX-License-Identifier: Apache-2.0
// What collective operations promise, on any communicators, from any fibers, beside any messages.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace collective_properties {

using namespace tern::property;
using tern::communicator;
using tern::rank;
using tern::size;

std::string text(std::int64_t n) { return std::to_string(n); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

void disturb(const std::vector<char>&) { take_time(); }
void disturb_others() {
  for (std::int64_t n = rolls().below(knob("messages") + 1); n > 0; --n)
    tern::send<&disturb>(any_rank(),
                         std::vector<char>(static_cast<std::size_t>(rolls().chance(0.1) ? rolls().below(20'000) : 0)));
}

// A rank's value for an operation: known to all, so that each can tell what must come out.
std::string value_of(std::uint64_t where, std::int64_t operation, int place) {
  dice d = common(where * 1'000'003 + static_cast<std::uint64_t>(operation * 1000 + place));
  return std::string(static_cast<std::size_t>(d.chance(0.1) ? d.below(5000) : d.below(9)),
                     static_cast<char>('a' + d.below(26))) +
         text(place);
}
std::string joined(std::uint64_t where, std::int64_t operation, int from, int to) {
  std::string all;
  for (int i = from; i < to; ++i) all += value_of(where, operation, i);
  return all;
}

using place_in_time = std::pair<std::uint64_t, std::int64_t>; // a communicator and the number of its operation
per_case<std::map<place_in_time, int>> entered;               // barriers, by how many

// A row of operations on one communicator, which `where` names: its fibers do the same on all its
// ranks.
void operate(const communicator& c, std::uint64_t where) {
  dice plan = common(where);
  const int n = c.size(), me = c.rank();
  const auto plus = std::plus<std::string>();
  for (std::int64_t i = 0; i < knob("operations"); ++i) {
    disturb_others();
    take_time();
    const std::string mine = value_of(where, i, me), whole = joined(where, i, 0, n),
                      wrong = "operation " + text(i) + " of '" + c.name() + "' is wrong";
    const int root = static_cast<int>(plan.below(n));
    std::vector<std::string> each;
    for (int k = 0; k < n; ++k) each.push_back(value_of(where, i, k));
    switch (plan.below(9)) {
    case 0:
      TERN_HOLDS(c.allreduce(mine, plus) == whole, wrong);
      break;
    case 1: {
      const std::string got = c.reduce(mine, plus, root);
      TERN_HOLDS(me != root || got == whole, wrong);
      break;
    }
    case 2:
      TERN_HOLDS(c.broadcast(me == root ? mine : std::string(), root) == each[static_cast<std::size_t>(root)], wrong);
      break;
    case 3: {
      const auto got = c.gather(mine, root);
      TERN_HOLDS(got == (me == root ? each : std::vector<std::string>()), wrong);
      break;
    }
    case 4:
      TERN_HOLDS(c.allgather(mine) == each, wrong);
      break;
    case 5:
      TERN_HOLDS(c.scatter(me == root ? each : std::vector<std::string>(), root) == mine, wrong);
      break;
    case 6: {
      std::vector<std::string> out;
      for (int k = 0; k < n; ++k) out.push_back(mine + " for " + text(k));
      const auto in = c.alltoall(out);
      for (int k = 0; k < n; ++k)
        TERN_HOLDS(in[static_cast<std::size_t>(k)] == each[static_cast<std::size_t>(k)] + " for " + text(me), wrong);
      break;
    }
    case 7:
      TERN_HOLDS(c.scan(mine, plus) == joined(where, i, 0, me + 1), wrong);
      TERN_HOLDS(c.exscan(mine, plus, std::string("none")) == (me ? joined(where, i, 0, me) : "none"), wrong);
      break;
    default: {
      int& come = (*entered)[{where, i}];
      ++come;
      c.barrier();
      TERN_HOLDS(come == n, "a barrier let somebody through when " + text(come) + " had come");
    }
    }
  }
}

TERN_PROPERTY(collectives_agree, "ranks=1..24 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                 "operations=1..12 messages=0..5") {
  operate(communicator::world(), 0);
}

// The same on duplicates, parts and names of the world, and of these, all at once from fibers of
// their own.
TERN_PROPERTY(communicators_do_not_mix,
              "ranks=1..12 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
              "operations=1..6 messages=0..2 communicators=1..8") {
  const communicator world = communicator::world();
  std::vector<std::pair<communicator, std::uint64_t>> made{{world, 1}};
  std::vector<tern::future<void>> fibers;
  dice plan = common(1);
  for (std::int64_t i = 0; i < knob("communicators"); ++i) {
    // All ranks know of all, though they may not be in it.
    const auto colours = static_cast<std::int64_t>(1 + plan.below(3));
    switch (plan.below(3)) {
    case 0:
      made.emplace_back(world.duplicate(), 2 + i);
      break;
    case 1:
      made.emplace_back(world.named("number " + text(i)), 2 + i);
      break;
    default: {
      const std::int64_t colour = rank() % colours;
      const bool out = plan.chance(0.2) && colour == 0;
      made.emplace_back(world.split(out ? std::nullopt : std::optional(static_cast<int>(colour)), -rank()),
                        100 + 10 * i + colour);
    }
    }
  }
  for (std::size_t i = 1; i < made.size(); ++i) // the first is the world: this fiber's
    if (made[i].first.valid()) fibers.push_back(tern::async([m = made[i]] { operate(m.first, m.second); }));
  operate(world, 1);
  for (auto& f : fibers) f.get();
  TERN_HOLDS(
      std::all_of(made.begin(), made.end(), [](const auto& m) { return !m.first.valid() || m.first.size() > 0; }),
      "a communicator has no ranks");
}

// When ranks crash, what comes out is right all the same.
TERN_PROPERTY(collectives_with_crashes, "ranks=2..12 workers=1..2 faults=delay:reorder:crash deadlock=allowed "
                                        "operations=1..10 messages=0..2") {
  operate(communicator::world(), 0);
}

// Of ranks that do different things, at least one is told. No rank goes on with a wrong result. If
// all that is left waits, a rank has been told why.
per_case<int> told, through;
per_case<std::vector<communicator>> kept; // a rank that is told leaves it, and others do not

void differ(const communicator& c, std::int64_t which, int kind) {
  const int root = static_cast<int>(which % c.size());
  switch (kind) {
  case 0:
    c.barrier();
    break;
  case 1:
    static_cast<void>(c.broadcast(1, root));
    break;
  case 2:
    static_cast<void>(c.reduce(1, std::plus<>(), root));
    break;
  case 3:
    static_cast<void>(c.allreduce(1, std::plus<>()));
    break;
  case 4:
    static_cast<void>(c.gather(1, root));
    break;
  case 5:
    static_cast<void>(c.scatter(std::vector<int>(static_cast<std::size_t>(c.size())), root));
    break;
  default:
    static_cast<void>(c.scan(1.0, std::plus<>()));
  }
}
TERN_PROPERTY(different_operations_are_told,
              "ranks=2..12 workers=1..2 faults=delay:reorder deadlock=allowed operations=1..6") {
  dice plan = common();
  const communicator c = communicator::world().duplicate("the one");
  kept->push_back(c);
  const std::int64_t when = plan.below(knob("operations"));
  const int who = static_cast<int>(plan.below(size())), right = static_cast<int>(plan.below(7)),
            wrong = (right + 1 + static_cast<int>(plan.below(6))) % 7;
  if (rank() == 0)
    afterwards([ranks = size()](const ending& e) {
      TERN_HOLDS(*told > 0, "nobody was told");
      TERN_HOLDS(e.deadlock || *told + *through == ranks, "somebody neither waits nor was told");
    });
  try {
    for (std::int64_t i = 0; i < knob("operations"); ++i)
      differ(c, i, i != when ? static_cast<int>(i % 7) : rank() == who ? wrong : right);
    c.barrier(); // so that no rank leaves that has only given
    ++*through;
  } catch (const tern::error& e) {
    TERN_HOLDS(e.code() == tern::errc::invalid_state &&
                   std::string(e.what()).find("the ranks do different things together") != std::string::npos,
               e.what());
    ++*told;
  }
}

} // namespace collective_properties
