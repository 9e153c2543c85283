// SPDX-License-Identifier: Apache-2.0
// What the net layer promises: messages, calls, collectives, termination, the end of a job.
#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace net_properties {

using namespace tern::property;
using tern::rank;
using tern::size;

int any_rank() { return static_cast<int>(rolls().below(size())); }
std::string text(std::int64_t n) { return std::to_string(n); }
std::vector<char> ballast() { // most messages are small
  return std::vector<char>(static_cast<std::size_t>(rolls().chance(0.1) ? rolls().below(20'000) : 0));
}

// Messages of one pair start in the order in which they were sent, each once.
using pairs = std::map<std::pair<int, int>, std::int64_t>;
per_case<pairs> sent, started;

void arrive(int from, std::int64_t number, const std::vector<char>&) {
  auto& due = (*started)[{from, rank()}];
  TERN_HOLDS(number == due, "message " + text(number) + " from " + text(from) + " to " + text(rank()) +
                                " started when " + text(due) + " was due");
  due = std::max(due, number + 1);
  take_time();
}
void send_many() {
  for (std::int64_t i = 0; i < knob("messages"); ++i) {
    const int to = any_rank();
    tern::send<&arrive>(to, rank(), (*sent)[{rank(), to}]++, ballast());
    if (rolls().chance(0.3)) take_time();
  }
}

TERN_PROPERTY(order_of_pairs, "ranks=1..16 workers=1..3 faults=delay:reorder:slow:pause network=any messages=1..150") {
  send_many();
  tern::quiesce();
  TERN_HOLDS(*started == *sent, "not all that was sent has started");
  tern::barrier();
}

// The same for what arrives at all when ranks crash; and no rank hangs.
TERN_PROPERTY(order_with_crashes,
              "ranks=1..16 workers=1..3 faults=delay:reorder:crash deadlock=allowed messages=1..100") {
  if (rank() == 0)
    afterwards([](const ending& e) {
      TERN_HOLDS(e.deadlock || *started == *sent, "the job has ended, but something that was sent is missing");
      for (const auto& [pair, n] : *started) TERN_HOLDS(n <= sent->at(pair), "more was started than sent");
    });
  send_many();
  tern::quiesce();
}

// Each call has its own answer, or its own error.
std::int64_t expected(int depth, std::int64_t x) { return depth == 0 ? 3 * x : 2 * expected(depth - 1, x + 1) + 1; }
bool fails(int depth, std::int64_t x) { return (x + depth) % 7 == 0; } // at its innermost
std::int64_t work(int depth, std::int64_t x, const std::vector<char>& load) {
  take_time();
  if (depth > 0) {
    const std::int64_t inner = tern::call<&work>(any_rank(), depth - 1, x + 1, load).get();
    take_time();
    return 2 * inner + 1;
  }
  if (x % 7 == 0) {
    if (x % 2) throw std::out_of_range("no " + text(x));
    throw tern::error(tern::errc::io, "no " + text(x), "be happy");
  }
  return 3 * x;
}
void check_answer(tern::future<std::int64_t>& f, int depth, std::int64_t x) {
  const std::int64_t innermost = x + depth;
  try {
    const std::int64_t y = f.get();
    TERN_HOLDS(!fails(depth, x), "the call of " + text(x) + " should have failed");
    TERN_HOLDS(y == expected(depth, x), "the call of " + text(x) + " was answered " + text(y));
  } catch (const tern::error& e) {
    TERN_HOLDS(fails(depth, x), std::string("unexpected: ") + e.what());
    TERN_HOLDS(e.code() == (innermost % 2 ? tern::errc::remote : tern::errc::io), "another error's code");
    TERN_HOLDS(std::string(e.what()).find("no " + text(innermost) + " ") != std::string::npos,
               std::string("another call's error: ") + e.what());
  }
}
struct open_call {
  tern::future<std::int64_t> answer;
  int depth;
  std::int64_t x;
};
void call_many(std::int64_t salt) {
  std::vector<open_call> open;
  const auto close_one = [&] {
    auto& one = open[static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(open.size())))];
    std::swap(one, open.back());
    check_answer(open.back().answer, open.back().depth, open.back().x);
    open.pop_back();
  };
  for (std::int64_t i = 0; i < knob("calls"); ++i) {
    const int depth = static_cast<int>(rolls().below(4));
    const std::int64_t x = 1'000'000 * salt + 1000 * rank() + i;
    open.push_back({tern::call<&work>(any_rank(), depth, x, ballast()), depth, x});
    while (static_cast<std::int64_t>(open.size()) > knob("open")) close_one();
    take_time();
  }
  while (!open.empty()) close_one();
}

TERN_PROPERTY(answers_match, "ranks=1..12 workers=1..3 faults=delay:reorder:slow:pause network=any fibers=1..4 "
                             "calls=1..40 open=0..20") {
  std::vector<tern::future<void>> fibers;
  for (std::int64_t f = 1; f < knob("fibers"); ++f) fibers.push_back(tern::async([f] { call_many(f); }));
  call_many(0);
  for (auto& f : fibers) f.get();
}

// Nothing is under way after quiesce.
struct traffic {
  std::int64_t sent = 0, handled = 0, calls = 0;
};
per_case<traffic> all;

std::int64_t answer() {
  take_time();
  return ++all->calls;
}
// Mostly one: so that there is little under way, but for long. Then wrong sums are right by chance
// most easily.
std::int64_t successors() {
  const std::int64_t n = rolls().below(10);
  return n == 0 ? 0 : n == 1 ? 2 : 1;
}
void hop(int left, const std::vector<char>& load) {
  take_time();
  if (rolls().chance(0.2)) tern::call<&answer>(any_rank()).get();
  for (std::int64_t n = left > 0 ? successors() : 0; n > 0; --n) {
    ++all->sent;
    tern::send<&hop>(any_rank(), left - 1, load);
    take_time();
  }
  ++all->handled;
}
void start_hops() {
  if (rolls().chance(0.5)) return;
  for (std::int64_t n = rolls().below(knob("messages") + 1); n > 0; --n) {
    ++all->sent;
    tern::send<&hop>(any_rank(), static_cast<int>(rolls().between(0, knob("hops"))), ballast());
    take_time();
  }
}

TERN_PROPERTY(quiesce_means_quiet, "ranks=2..16 workers=1..3 faults=delay:reorder:slow:pause network=any rounds=2..16 "
                                   "messages=1..4 hops=10..60") {
  for (std::int64_t round = 0; round < knob("rounds"); ++round) {
    start_hops();
    if (rolls().chance(0.5)) tern::this_fiber::sleep_for(std::chrono::microseconds(rolls().below(200)));
    tern::quiesce();
    TERN_HOLDS(all->sent == all->handled,
               "quiesce returned when " + text(all->sent) + " had been sent and " + text(all->handled) + " handled");
    tern::barrier();
  }
}

// Nor does any fiber go on.
struct doings {
  std::int64_t go_on = 0, sleep = 0, sent = 0, handled = 0;
};
per_case<doings> fibers_of_all;

void do_more(int left);
void go_on() { // not take_time, which may sleep
  if (rolls().chance(0.5)) tern::this_fiber::yield();
  if (rolls().chance(0.2)) tern::sim::charge(1e-6 * static_cast<double>(rolls().below(20)));
}
void do_something(int left) {
  doings& d = *fibers_of_all;
  go_on();
  if (rolls().chance(0.3) && knob("sleeps") != 0) {
    --d.go_on, ++d.sleep;
    tern::this_fiber::sleep_for(std::chrono::microseconds(rolls().below(500)));
    ++d.go_on, --d.sleep;
  }
  if (left > 0) {
    for (std::int64_t n = rolls().below(3); n > 0; --n) {
      ++d.go_on;
      tern::scheduler::current()->spawn([left] { do_something(left - 1); });
    }
    if (rolls().chance(0.4)) {
      ++d.sent;
      tern::send<&do_more>(any_rank(), left - 1);
    }
  }
  go_on();
  --d.go_on;
}
void do_more(int left) {
  ++fibers_of_all->handled;
  ++fibers_of_all->go_on;
  do_something(left);
}

TERN_PROPERTY(quiesce_of_fibers_means_quiet,
              "ranks=2..12 workers=1..3 faults=delay:reorder:slow:pause network=any rounds=1..8 left=0..8 sleeps=0..1 "
              "meetings=0..6") {
  const doings& d = *fibers_of_all;
  tern::semaphore later(0);
  for (std::int64_t round = 0; round < knob("rounds"); ++round) {
    if (rolls().chance(0.5)) {
      ++fibers_of_all->go_on;
      do_something(static_cast<int>(knob("left")));
    }
    // Of ranks that come to it late: they go on by themselves, though for a while all may wait for
    // a part.
    const auto among_us = tern::communicator::world().named("among us");
    auto meet = [&]() -> tern::future<void> {
      if (knob("meetings") == 0) return tern::make_ready_future();
      ++fibers_of_all->go_on;
      return tern::async([&] {
        for (std::int64_t i = 0; i < knob("meetings"); ++i) {
          go_on();
          const auto got = among_us.allgather(std::vector<std::int64_t>(static_cast<std::size_t>(i % 2 * 600), i));
          TERN_HOLDS(got.size() == static_cast<std::size_t>(size()), "not all have come");
        }
        --fibers_of_all->go_on;
      });
    }();
    auto waits = tern::async([&] { later.acquire(); });  // for ever, as far as quiesce can tell
    const bool timers = (round + knob("left")) % 2 == 0; // the same on all ranks
    tern::quiesce(timers ? tern::quiescence::timers : tern::quiescence::fibers);
    TERN_HOLDS(timers || knob("sleeps") == 0 ? d.go_on == 0 && d.sleep == 0 && d.sent == d.handled : true,
               "quiesce returned while " + text(d.go_on) + " fibers went on, " + text(d.sleep) + " slept, and " +
                   text(d.sent - d.handled) + " messages were under way");
    tern::barrier();
    later.release();
    waits.get();
    meet.get();
    if (!timers) tern::quiesce(tern::quiescence::timers); // before what sleeps is counted again
    tern::barrier();
  }
}

// All that was sent has been handled when the job ends, and what belongs to a rank has lived as
// long as it.
struct ledger {
  std::map<int, int> made, dropped; // by rank
};
per_case<ledger> books;

struct resident {
  resident() : home(rank()) { ++books->made[home]; }
  resident(const resident&) = delete;
  resident& operator=(const resident&) = delete;
  ~resident() {
    TERN_HOLDS(rank() == home, "a rank_local of " + text(home) + " is destroyed on " + text(rank()));
    ++books->dropped[home];
  }
  const int home;
  std::int64_t uses = 0;
};
const tern::rank_local<resident> first_resident, second_resident;

void visit(int left) {
  take_time();
  resident& r = rolls().chance(0.5) ? *first_resident : *second_resident;
  TERN_HOLDS(r.home == rank(), "rank " + text(rank()) + " sees the rank_local of " + text(r.home));
  const std::int64_t uses = ++r.uses;
  TERN_HOLDS(uses > 0, "a rank_local was used after its end");
  for (std::int64_t n = left > 0 ? successors() : 0; n > 0; --n) {
    ++all->sent;
    tern::send<&visit>(any_rank(), left - 1);
  }
  take_time();
  ++all->handled;
}

TERN_PROPERTY(end_of_job,
              "ranks=1..16 workers=1..3 faults=delay:reorder:slow:pause network=any messages=1..4 hops=10..60") {
  if (rank() == 0)
    afterwards([](const ending& e) {
      TERN_HOLDS(all->sent == all->handled,
                 "the job ended when " + text(all->sent) + " had been sent and " + text(all->handled) + " handled");
      TERN_HOLDS(books->made == books->dropped, "a rank_local was not destroyed");
      for (const auto& [r, n] : books->made)
        TERN_HOLDS(n <= 2, "rank " + text(r) + " made " + text(n) + " of its 2 rank_locals");
      TERN_HOLDS(e.outcome.code == 0, "the exit code is " + text(e.outcome.code));
    });
  for (std::int64_t n = rolls().below(knob("messages") + 1); n > 0; --n) {
    ++all->sent;
    tern::send<&visit>(any_rank(), static_cast<int>(rolls().between(0, knob("hops"))));
    take_time();
  }
}

} // namespace net_properties
