// SPDX-License-Identifier: Apache-2.0
// What epochs promise: they end when all has ended that they caused, neither before nor never.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/coro.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/task_group.hpp>

#include "property.hpp"

namespace epoch_properties {

using namespace tern::property;
using tern::rank;
using tern::size;

std::string text(std::int64_t n) { return std::to_string(n); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

// What goes on for each epoch, by a number of ours: all ranks see it, as they are simulated by one
// thread.
struct going_on {
  std::int64_t begun = 0, ended = 0; // messages from their sending, fibers from their start
  std::int64_t outer = 0;            // which all of it belongs to as well; 0: none
  bool over = false;
};
per_case<std::map<std::int64_t, going_on>> epochs;
per_case<std::int64_t> given;

void begins(std::int64_t e) {
  for (; e != 0; e = (*epochs)[e].outer) {
    going_on& g = (*epochs)[e];
    TERN_HOLDS(!g.over, "something began of epoch " + text(e) + ", which was over");
    ++g.begun;
  }
}
struct goes_on { // from here to its end, however that comes
  explicit goes_on(std::int64_t epoch) : e(epoch) {}
  ~goes_on() {
    for (std::int64_t each = e; each != 0; each = (*epochs)[each].outer) {
      going_on& g = (*epochs)[each];
      TERN_HOLDS(!g.over, "something ended of epoch " + text(each) + ", which was over");
      ++g.ended;
    }
  }
  goes_on(const goes_on&) = delete;
  goes_on& operator=(const goes_on&) = delete;
  const std::int64_t e;
};
void is_over(std::int64_t e) {
  going_on& g = (*epochs)[e];
  TERN_HOLDS(g.begun == g.ended,
             "epoch " + text(e) + " was over when " + text(g.begun) + " had begun and " + text(g.ended) + " ended");
  g.over = true;
}

void work(std::int64_t e, std::int64_t left, const std::vector<char>& ballast);
void send_work(std::int64_t e, std::int64_t left) {
  begins(e);
  tern::send<&work>(any_rank(), e, left,
                    std::vector<char>(static_cast<std::size_t>(rolls().chance(0.05) ? rolls().below(20'000) : 0)));
}
tern::coro<void> send_later(std::int64_t e, std::int64_t left) {
  const goes_on here(e);
  co_await tern::async([] { take_time(); });
  send_work(e, left);
}
void nest(std::int64_t outer, std::int64_t left);

// Causes things in every way there is.
void cause(std::int64_t e, std::int64_t left) {
  if (left <= 0) return;
  for (std::int64_t n = rolls().below(knob("width") + 1); n > 0; --n) switch (rolls().below(9)) {
    case 0:
      begins(e);
      static_cast<void>(tern::async([e, left] {
        const goes_on here(e);
        take_time();
        cause(e, left - 1);
      }));
      break;
    case 1: {
      tern::task_group g;
      g.run([e, left] {
        take_time();
        send_work(e, left - 1);
      });
      take_time();
      g.wait();
      break;
    }
    case 2:
      begins(e);
      static_cast<void>(tern::async([] { take_time(); }).then([e, left] {
        const goes_on here(e);
        cause(e, left - 1);
      }));
      break;
    case 3:
      begins(e);
      static_cast<void>(tern::spawn(send_later(e, left - 1)));
      break;
    case 4:
      begins(e);
      tern::call<&work>(any_rank(), e, left - 1, std::vector<char>()).get();
      break;
    case 5:
      for (int r = 0; r < size(); ++r) begins(e);
      tern::multicast<&work>(tern::all_ranks, e, std::int64_t{0}, std::vector<char>());
      break;
    case 6:
      nest(e, left - 1);
      break;
    default:
      send_work(e, left - 1);
    }
}

void work(std::int64_t e, std::int64_t left, const std::vector<char>&) {
  const goes_on here(e);
  take_time();
  cause(e, left);
  take_time();
}

// An epoch within: what it causes the outer one causes, too.
void nest(std::int64_t outer, std::int64_t left) {
  const std::int64_t inner = ++*given;
  (*epochs)[inner].outer = outer;
  tern::epoch e;
  e.run([&] {
    begins(inner);
    static_cast<void>(tern::async([inner, left] {
      const goes_on here(inner);
      cause(inner, left);
    }));
  });
  if (rolls().chance(0.5)) {
    e.wait();
    is_over(inner);
  }
}

void one(std::int64_t number) {
  tern::epoch e;
  for (std::int64_t parts = 1 + rolls().below(3); parts > 0; --parts) {
    e.run([&] { cause(number, knob("depth")); });
    take_time();
  }
  if (rolls().chance(0.3)) {
    e.done().get();
  } else {
    e.wait();
  }
  TERN_HOLDS(e.finished(), "an epoch that was waited for is finished");
  is_over(number);
}

// Some that go on together on each rank.
TERN_PROPERTY(epochs_end_when_all_has, "ranks=1..16 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
                                       "aggregate=0..2 width=1..5 depth=1..6 epochs=1..4") {
  std::vector<tern::future<void>> fibers;
  for (std::int64_t i = 0; i < knob("epochs"); ++i)
    if (rolls().chance(0.7)) fibers.push_back(tern::async([] { one(++*given); }));
  for (auto& f : fibers) f.get();
}

// One of all ranks.
TERN_PROPERTY(epochs_of_all_ranks, "ranks=1..16 workers=1..2 faults=delay:reorder:slow:pause network=any room=0..8 "
                                   "width=1..3 depth=1..4 rounds=1..3") {
  const auto world = tern::communicator::world();
  for (std::int64_t i = 1; i <= knob("rounds"); ++i) {
    const std::int64_t number = -i;
    tern::finish(world, [&] {
      if (rolls().chance(0.7)) cause(number, knob("depth"));
    });
    const going_on& g = (*epochs)[number];
    TERN_HOLDS(g.begun == g.ended, "rank " + text(rank()) + " goes on when " + text(g.begun) + " had begun and " +
                                       text(g.ended) + " ended");
    world.barrier();
  }
}

// With crashes an epoch may never end; but it does not end early.
TERN_PROPERTY(epochs_with_crashes, "ranks=2..10 workers=1..2 faults=delay:reorder:crash deadlock=allowed width=1..3 "
                                   "depth=1..4 epochs=1..3") {
  for (std::int64_t i = 0; i < knob("epochs"); ++i) one(++*given);
}

} // namespace epoch_properties
