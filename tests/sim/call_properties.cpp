// SPDX-License-Identifier: Apache-2.0
// What the net layer promises beyond plain messages: limited calls, promises that travel, messages
// to many ranks.
#include <algorithm>
#include <chrono>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace call_properties {

using namespace tern::property;
using tern::rank;
using tern::size;

int any_rank() { return static_cast<int>(rolls().below(size())); }
std::string text(std::int64_t n) { return std::to_string(n); }
std::chrono::microseconds some_time(std::int64_t most) { return std::chrono::microseconds(rolls().below(most + 1)); }

// Of the answer, the end of the time and the request to stop exactly one comes, and the others do
// no harm.
per_case<std::map<std::int64_t, int>> runs; // by call

std::int64_t answer(std::int64_t x, std::int64_t us) {
  ++(*runs)[x];
  tern::this_fiber::sleep_for(std::chrono::microseconds(us));
  if (x % 5 == 0) throw tern::error(tern::errc::io, "no " + text(x));
  return 3 * x;
}
struct open_call {
  std::int64_t x;
  bool timed, stoppable;
  std::stop_source stop;
  tern::future<std::int64_t> answer;
};
// \return whether its answer came.
bool check(open_call& c) {
  try {
    const std::int64_t y = c.answer.get();
    TERN_HOLDS(y == 3 * c.x && c.x % 5 != 0, "the call of " + text(c.x) + " was answered " + text(y));
    return true;
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::timeout)
      TERN_HOLDS(c.timed, "a call without a limit timed out");
    else if (e.code() == tern::errc::cancelled)
      TERN_HOLDS(c.stoppable && c.stop.stop_requested(), "a call was cancelled by nobody");
    else
      TERN_HOLDS(e.code() == tern::errc::io && c.x % 5 == 0, std::string("unexpected: ") + e.what());
    return e.code() == tern::errc::io;
  }
}

TERN_PROPERTY(one_end_of_each_call, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any fibers=1..3 "
                                    "calls=1..30 time=1..200") {
  std::int64_t answered = 0, made = 0;
  const auto fiber = [&](std::int64_t f) {
    std::vector<open_call> open;
    for (std::int64_t i = 0; i < knob("calls"); ++i) {
      open_call c{(rank() * 10 + f) * 1000 + i, rolls().chance(0.7), rolls().chance(0.5), {}, {}};
      tern::call_options limit;
      if (c.timed) limit.timeout = some_time(2 * knob("time")) + std::chrono::nanoseconds(1);
      if (c.stoppable) limit.stop = c.stop.get_token();
      c.answer = tern::call<&answer>(limit, any_rank(), c.x, rolls().below(knob("time")));
      ++made;
      open.push_back(std::move(c));
      if (rolls().chance(0.4)) {
        auto& one = open[static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(open.size())))];
        if (rolls().chance(0.5)) tern::this_fiber::sleep_for(some_time(knob("time")));
        one.stop.request_stop();
      }
      take_time();
    }
    for (auto& c : open) answered += check(c) ? 1 : 0;
  };
  std::vector<tern::future<void>> fibers;
  for (std::int64_t f = 1; f < knob("fibers"); ++f) fibers.push_back(tern::async([&, f] { fiber(f); }));
  fiber(0);
  for (auto& f : fibers) f.get();
  tern::quiesce();
  auto& calls = tern::net::node::here().calls();
  TERN_HOLDS(calls.size() == 0, text(static_cast<std::int64_t>(calls.size())) + " calls are left over");
  TERN_HOLDS(static_cast<std::int64_t>(calls.late()) + answered == made, "an answer was lost, or came twice");
  for (const auto& [x, n] : *runs) TERN_HOLDS(n == 1, "the call of " + text(x) + " ran " + text(n) + " times");
  tern::barrier();
}

// Shares of a promise go about; the future gets the one value that was set, or learns that none
// will be.
struct fate {
  std::int64_t shares = 0, set = 0;
  bool taken = false; // a share has been chosen to set it
};
per_case<std::map<std::int64_t, fate>> fates; // by promise
const tern::rank_local<std::vector<tern::remote_promise<std::int64_t>>> kept;

void wander(std::int64_t which, int left, tern::remote_promise<std::int64_t> p) {
  fate& f = (*fates)[which];
  ++f.shares;
  take_time();
  std::vector<tern::remote_promise<std::int64_t>> more;
  for (std::int64_t n = rolls().below(3); left > 0 && n > 0; --n) {
    switch (rolls().below(3)) {
    case 0:
      tern::send<&wander>(any_rank(), which, left - 1, p);
      break;
    case 1:
      tern::call<&wander>(any_rank(), which, left - 1, p.share()).get();
      break;
    default:
      more.push_back(p.share());
    }
    take_time();
  }
  if (!std::exchange(f.taken, f.taken || rolls().chance(0.2))) {
    if (f.taken) {
      ++f.set;
      if (rolls().chance(0.2))
        p.set_exception(std::make_exception_ptr(tern::error(tern::errc::io, "no " + text(which))));
      else
        p.set_value(3 * which);
    }
  }
  for (auto& m : more) {
    take_time();
    if (rolls().chance(0.5))
      tern::send<&wander>(any_rank(), which, left - 1, std::move(m));
    else if (rolls().chance(0.5))
      kept->push_back(std::move(m));
  }
}
void check(std::int64_t which, tern::future<std::int64_t>& answer) {
  const fate& f = (*fates)[which];
  try {
    const std::int64_t y = answer.get();
    TERN_HOLDS(f.set == 1 && y == 3 * which, "promise " + text(which) + " brought " + text(y));
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::broken_promise)
      TERN_HOLDS(f.set == 0 && !f.taken, "promise " + text(which) + " was set, and is broken");
    else
      TERN_HOLDS(e.code() == tern::errc::io && f.set == 1, std::string("unexpected: ") + e.what());
  }
}

TERN_PROPERTY(promises_that_travel,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any promises=1..10 "
              "hops=0..6") {
  std::vector<std::pair<std::int64_t, tern::future<std::int64_t>>> answers;
  for (std::int64_t i = 0; i < knob("promises"); ++i) {
    const std::int64_t which = 1000 * rank() + i;
    tern::remote_promise<std::int64_t> p;
    answers.emplace_back(which, p.get_future());
    for (std::int64_t n = rolls().below(3); n > 0; --n)
      tern::send<&wander>(any_rank(), which, static_cast<int>(knob("hops")), p);
    take_time();
  }
  tern::quiesce();
  for (auto& [which, f] : answers) {
    // A share that still exists may set it. Once it is set, the future must be ready.
    TERN_HOLDS(!(*fates)[which].set || f.ready(), "promise " + text(which) + " was set, and its future is not ready");
  }
  tern::barrier();
  kept->clear();
  tern::quiesce();
  for (auto& [which, f] : answers) {
    TERN_HOLDS(f.ready(), "nobody has promise " + text(which) + ", and its future is not ready");
    if (f.ready()) check(which, f);
  }
  tern::barrier();
}

// Exactly once on each rank of the group, and quiesce waits for all of it.
per_case<std::map<std::pair<std::int64_t, int>, int>> arrived; // by multicast and rank
per_case<std::map<std::int64_t, std::vector<int>>> groups;
per_case<std::int64_t> multicasts;

void arrive(std::int64_t which, int left, const std::vector<char>& load);
void cast_one(int left) {
  const std::int64_t which = (*multicasts)++;
  const std::vector<char> load(static_cast<std::size_t>(rolls().chance(0.1) ? rolls().below(20'000) : 0));
  std::vector<int> group;
  const std::int64_t kind = rolls().below(3);
  for (int r = 0; r < size(); ++r)
    if (kind == 0 || (kind == 1 && r != rank()) || (kind == 2 && rolls().chance(0.6))) group.push_back(r);
  for (std::size_t i = group.size(); i > 1; --i)
    std::swap(group[i - 1], group[static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(i)))]);
  (*groups)[which] = group;
  if (kind == 0)
    tern::multicast<&arrive>(tern::all_ranks, which, left, load);
  else if (kind == 1)
    tern::multicast<&arrive>(tern::other_ranks, which, left, load);
  else
    tern::multicast<&arrive>(group, which, left, load);
}
void arrive(std::int64_t which, int left, const std::vector<char>&) {
  ++(*arrived)[{which, rank()}];
  take_time();
  if (left > 0 && rolls().chance(1.0 / static_cast<double>(size()))) cast_one(left - 1);
}

TERN_PROPERTY(multicast_once_each, "ranks=1..24 workers=1..3 faults=delay:reorder:slow:pause network=any messages=1..8 "
                                   "hops=0..4") {
  for (std::int64_t i = 0; i < knob("messages"); ++i) {
    cast_one(static_cast<int>(knob("hops")));
    take_time();
  }
  tern::quiesce();
  std::size_t due = 0;
  for (const auto& [which, group] : *groups) {
    due += group.size();
    for (const int r : group) {
      const int times = (*arrived)[{which, r}];
      TERN_HOLDS(times == 1, "multicast " + text(which) + " ran " + text(times) + " times on rank " + text(r));
    }
  }
  TERN_HOLDS(arrived->size() == due, "a multicast ran on a rank that is not in its group");
  tern::barrier();
}

} // namespace call_properties
