// SPDX-License-Identifier: Apache-2.0
// Jobs go on after ranks have died (tern/net/failure/generation.hpp): nothing of an abandoned
// generation is seen or counted in a later one.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/node.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace survivor_properties {

using namespace tern::property;
using tern::rank;
using tern::size;
using namespace std::chrono_literals;
namespace net = tern::net;

per_case<std::map<int, std::int64_t>> open;         // by generation: messages sent and not handled to the end
per_case<std::map<std::int64_t, std::int64_t>> due; // the same by epoch
per_case<std::set<int>> dead, lasted;
per_case<std::map<int, std::set<std::pair<int, int>>>> multicasts; // by (generation, step): which rank got whose
per_case<std::int64_t> epochs;

net::node& here() { return net::node::here(); }
std::string text(std::int64_t n) { return std::to_string(n); }
int now() { return net::detail::generation_of(here()); }
int any_living() {
  const std::vector<int> all = tern::living();
  return all[static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(all.size())))];
}

// What a message is for: no rank sees one in another generation.
void check_generation(int generation, const char* what) {
  TERN_HOLDS(now() == generation && !net::detail::abandoned(here()),
             "rank " + text(rank()) + " sees " + what + " of generation " + text(generation) + " in " + text(now()));
}

void note(int generation, int hops, std::int64_t epoch) {
  check_generation(generation, "a message");
  take_time();
  // Long enough for others to agree without this rank, if they could.
  if (rolls().chance(0.02)) tern::this_fiber::sleep_for(rolls().below(2000) * 1us);
  try {
    if (hops > 0) {
      const int to = any_living();
      tern::send<&note>(to, generation, hops - 1, epoch);
      ++(*open)[generation];
      ++(*due)[epoch];
    }
  } catch (const tern::error& e) {
    TERN_HOLDS(e.code() == tern::errc::rank_lost, std::string("a handler got ") + e.what());
  }
  --(*open)[generation];
  --(*due)[epoch];
}

void start_note(int hops, std::int64_t epoch) {
  const int generation = now();
  const int to = any_living();
  tern::send<&note>(to, generation, hops, epoch);
  ++(*open)[generation];
  ++(*due)[epoch];
}

std::int64_t answer(int generation, std::int64_t x, int hops) {
  check_generation(generation, "a call");
  take_time();
  return hops > 0 ? tern::call<&answer>(any_living(), generation, x + 1, hops - 1).get() : x;
}

void keep_promise(int generation, tern::remote_promise<int> p) {
  check_generation(generation, "a promise");
  take_time();
  p.set_value(generation);
}

void hear(int generation, int step, int from) {
  check_generation(generation, "a multicast");
  (*multicasts)[1000 * generation + step].emplace(rank(), from);
}

// All of it, in which each rank does what the others do, and checks what must come of it if no rank
// was lost meanwhile.
void work(int step) {
  const int generation = now();
  const tern::communicator world = tern::communicator::world();
  const std::vector<int> living = world.allgather(rank());
  TERN_HOLDS(std::is_sorted(living.begin(), living.end()) && static_cast<int>(living.size()) == size() - generation &&
                 world.size() == size() - generation && living[static_cast<std::size_t>(world.rank())] == rank(),
             "the world of generation " + text(generation) + " has other ranks than those that live");
  tern::remote_promise<int> given;
  auto taken = given.get_future();
  tern::send<&keep_promise>(any_living(), generation, std::move(given));
  for (std::int64_t i = rolls().below(knob("messages") + 1); i > 0; --i) {
    start_note(static_cast<int>(rolls().below(4)), -1);
    take_time();
  }
  std::vector<std::pair<std::int64_t, tern::future<std::int64_t>>> calls;
  for (std::int64_t i = rolls().below(knob("calls") + 1); i > 0; --i) {
    const int hops = static_cast<int>(rolls().below(3));
    calls.emplace_back(100 * i + hops, tern::call<&answer>(any_living(), generation, 100 * i, hops));
  }
  if (rolls().chance(0.5)) {
    const std::int64_t epoch = ++*epochs;
    tern::finish([&] {
      for (std::int64_t i = rolls().below(knob("messages") + 1); i > 0; --i)
        start_note(static_cast<int>(rolls().below(3)), epoch);
    });
    TERN_HOLDS((*due)[epoch] == 0, "an epoch is over in which " + text((*due)[epoch]) + " messages are under way");
  }
  tern::multicast<&hear>(tern::all_ranks, generation, step, rank());
  for (auto& [expected, got] : calls) {
    const std::int64_t value = got.get();
    TERN_HOLDS(value == expected, "a call was answered " + text(value) + " and not " + text(expected));
  }
  TERN_HOLDS(taken.get() == generation, "a promise of another generation was kept");
  // Fibers that are to die sleep, so there is no quiescence of timers.
  tern::quiesce(step % 2 == 0 ? tern::quiescence::messages : tern::quiescence::fibers);
  TERN_HOLDS((*open)[generation] == 0, "quiesce returned when " + text((*open)[generation]) +
                                           " messages of generation " + text(generation) + " were under way");
  const auto& heard = (*multicasts)[1000 * generation + step];
  for (const int from : living)
    TERN_HOLDS(heard.contains({rank(), from}), "rank " + text(rank()) + " has not heard of " + text(from));
  const auto sum = world.allreduce(std::int64_t{rank()} * step, std::plus<>());
  TERN_HOLDS(sum == step * std::accumulate(living.begin(), living.end(), std::int64_t{0}), "a sum is wrong");
  if (step % 3 == 0) {
    const tern::communicator half = world.split(world.rank() % 2);
    static_cast<void>(half.allreduce(1, std::plus<>()));
    half.named("x").barrier();
  }
  world.barrier();
}

void die() {
  dead->insert(rank());
  net::detail::kill_for_test(here(), rank());
  tern::this_fiber::sleep_for(1h);
}

void die_after(std::chrono::nanoseconds t) {
  tern::fiber([t] {
    tern::this_fiber::sleep_for(t);
    die();
  }).detach();
}

void live() {
  net::detail::guard(here());
  tern::barrier();
  // Which ranks die, and when: at any moment, or as soon as they learn that another one has died.
  dice fate = common();
  std::vector<int> order(static_cast<std::size_t>(size()));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(fate.below(static_cast<std::int64_t>(i)))]);
  bool dies_in_recovery = false;
  const auto victims = std::min<std::int64_t>(knob("crashes"), size() - 1);
  for (std::int64_t i = 0; i < victims; ++i) {
    const bool late = i > 0 && fate.chance(0.5);
    const std::int64_t whole = 300'000 + knob("steps") * knob("pace") * 100'000;
    const auto at = std::chrono::nanoseconds(fate.below(late ? 60'000 : whole));
    if (order[static_cast<std::size_t>(i)] != rank()) continue;
    if (late)
      dies_in_recovery = true;
    else
      die_after(at);
  }
  std::int64_t done = 0;
  for (bool finished = false; !finished;) {
    try {
      while (done < knob("steps")) {
        work(static_cast<int>(done));
        ++done;
        tern::this_fiber::sleep_for(knob("pace") * 100us);
      }
      break;
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::rank_lost, std::string("work failed: ") + e.what());
      if (e.code() != tern::errc::rank_lost) throw;
      TERN_HOLDS(std::any_of(dead->begin(), dead->end(),
                             [&](int r) { return std::string(e.what()).find("rank " + text(r)) != std::string::npos; }),
                 std::string("no dead rank is named: ") + e.what());
    }
    if (dies_in_recovery) die_after(std::chrono::nanoseconds(rolls().below(60'000)));
    const net::detail::recovery all = net::detail::recover(here(), done);
    TERN_HOLDS(all.copy >= done || all.finished, "a copy is lost");
    TERN_HOLDS(static_cast<int>(all.living.size()) == size() - all.generation, "generation and survivors differ");
    for (const int r : all.living) TERN_HOLDS(r == rank() || all.generation > 0, "a generation without a death");
    done = std::max(done, all.copy);
    finished = all.finished;
  }
  lasted->insert(rank());
  if (rank() == order.back())
    afterwards([ranks = size()](const ending&) {
      for (int r = 0; r < ranks; ++r)
        TERN_HOLDS(lasted->contains(r) || dead->contains(r), "rank " + text(r) + " has not come to the end");
    });
}

TERN_PROPERTY(survivors_go_on, "ranks=2..12 workers=1..3 faults=delay:reorder crashes=1..4 steps=1..12 pace=0..20 "
                               "messages=0..12 calls=0..4") {
  live();
}

TERN_PROPERTY(survivors_go_on_with_little_room, "ranks=2..8 workers=1..2 faults=delay:slow room=1..6 network=any "
                                                "aggregate=0..2 crashes=0..3 steps=1..8 pace=0..20 messages=0..20 "
                                                "calls=0..3") {
  live();
}

} // namespace survivor_properties
