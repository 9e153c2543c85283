// SPDX-License-Identifier: Apache-2.0
// Calls with limits, promises that travel, and messages to many ranks.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sync.hpp>

#include "rank_test.hpp"

namespace calls_test {

using namespace std::chrono_literals;
using tern::call;
using tern::call_options;
using tern::errc;
using tern::rank;
using tern::remote_promise;
using tern::send;
using tern::size;

std::string text(int n) { return std::to_string(n); }
int other() { return (rank() + 1) % size(); }
std::size_t open_calls() { return tern::net::node::here().calls().size(); }
std::uint64_t late_answers() { return tern::net::node::here().calls().late(); }

// Calls with limits ---------------------------------------------------------------------------------------------------

struct gate {
  tern::semaphore open{0};
};
const tern::rank_local<gate> gates;

int square(int x) { return x * x; }
int behind_gate(int x) { // until the gate is opened
  gates->open.acquire();
  gates->open.release();
  return 2 * x;
}
void open_gate() { gates->open.release(); }
void close_gate() { gates->open.acquire(); }
double thrower(int) { throw tern::error(errc::io, "disk full", "free some space"); }

TERN_RANK_TEST(answers_that_come_in_time) {
  std::stop_source stop;
  for (int r = 0; r < size(); ++r) {
    TERN_EXPECT_EQ(call<&square>({.timeout = 1h}, r, r + 2).get(), (r + 2) * (r + 2));
    TERN_EXPECT_EQ(call<&square>({.stop = stop.get_token()}, r, 3).get(), 9);
    TERN_EXPECT_EQ(call<&square>(call_options{}, r, 4).get(), 16);
    const call_options both{.timeout = std::chrono::nanoseconds::max(), .stop = stop.get_token()};
    TERN_EXPECT_EQ(call<&square>(both, r, 5).get(), 25);
    TERN_EXPECT_ERROR(call<&thrower>(both, r, 1).get(), errc::io, "free some space");
  }
  stop.request_stop(); // no call listens any more
  TERN_EXPECT_EQ(open_calls(), 0u);
}

TERN_RANK_TEST(time_is_over_before_the_answer_comes) {
  const std::uint64_t before = late_answers();
  const std::string where = "handler 'calls_test::behind_gate' on rank " + text(other());
  TERN_EXPECT_ERROR(call<&behind_gate>({.timeout = 2ms}, other(), 1).get(), errc::timeout,
                    where + " has not answered within 2 ms");
  TERN_EXPECT_ERROR(call<&behind_gate>({.timeout = 1500us}, other(), 1).get(), errc::timeout, "within 1.5 ms");
  TERN_EXPECT_ERROR(call<&behind_gate>({.timeout = 1ns}, other(), 1).get(), errc::timeout, "within 1 ns");
  TERN_EXPECT_EQ(open_calls(), 3u); // their answers are due
  call<&open_gate>(other()).get();
  tern::quiesce();
  TERN_EXPECT_EQ(open_calls(), 0u);
  TERN_EXPECT_EQ(late_answers() - before, 3u);
  TERN_EXPECT_EQ(call<&behind_gate>({.timeout = 1h}, other(), 4).get(), 8);
  tern::barrier();
  call<&close_gate>(other()).get();
}

TERN_RANK_TEST(calls_are_cancelled) {
  const std::uint64_t before = late_answers();
  std::stop_source stop;
  auto one = call<&behind_gate>({.stop = stop.get_token()}, other(), 1);
  auto two = call<&behind_gate>({.timeout = 1h, .stop = stop.get_token()}, other(), 1);
  auto three = call<&behind_gate>({.timeout = 1h}, other(), 3);
  TERN_EXPECT(one.wait_for(1ms) == tern::future_status::timeout);
  stop.request_stop();
  const std::string where =
      "the call of handler 'calls_test::behind_gate' on rank " + text(other()) + " was cancelled by its caller";
  TERN_EXPECT(one.ready() && two.ready() && !three.ready());
  TERN_EXPECT_ERROR(one.get(), errc::cancelled, where);
  TERN_EXPECT_ERROR(two.get(), errc::cancelled, where);
  TERN_EXPECT_EQ(open_calls(), 3u);
  // No caller waits for it from the beginning: nothing is sent.
  TERN_EXPECT_ERROR(call<&behind_gate>({.stop = stop.get_token()}, other(), 1).get(), errc::cancelled, where);
  TERN_EXPECT_EQ(open_calls(), 3u);
  call<&open_gate>(other()).get();
  TERN_EXPECT_EQ(three.get(), 6);
  tern::quiesce();
  TERN_EXPECT_EQ(open_calls(), 0u);
  TERN_EXPECT_EQ(late_answers() - before, 2u);
  call<&close_gate>(other()).get();
  tern::barrier();
}

TERN_RANK_TEST(limits_that_are_none) {
  TERN_EXPECT_ERROR(call<&square>({.timeout = -1ns}, 0, 1), errc::invalid_argument, "negative time");
  TERN_EXPECT_ERROR(call<&square>({.timeout = 1ms}, size(), 1), errc::invalid_argument,
                    "there is no rank " + text(size()));
  TERN_EXPECT_EQ(open_calls(), 0u);
}

struct liar { // serializes differently the second time
  mutable int visits = 0;
  template <class A> void serialize(A& ar) {
    ar(visits);
    if (visits++ == 0) ar(visits);
  }
};
int take_liar(const liar&) { return 0; }
TERN_RANK_TEST(a_limited_call_that_cannot_be_packed_is_forgotten) {
  std::stop_source stop;
  TERN_EXPECT_ERROR(call<&take_liar>({.timeout = 1h, .stop = stop.get_token()}, 0, liar{}), errc::invalid_data, "");
  TERN_EXPECT_EQ(open_calls(), 0u);
  stop.request_stop();
}

int slow_square(int x, int us) {
  tern::this_fiber::sleep_for(std::chrono::microseconds(us));
  return x * x;
}
// Answer, time and stop race: exactly one wins, and all that remains goes away.
TERN_RANK_TEST(limits_race_answers) {
  const std::uint64_t before = late_answers();
  const int n = size() > 8 ? 10 : 150;
  std::atomic<int> in_time{0}, timed_out{0}, cancelled{0};
  std::vector<tern::future<void>> fibers;
  for (int f = 0; f < 4; ++f)
    fibers.push_back(tern::async([&, f] {
      for (int i = 0; i < n; ++i) {
        const int us = (i * 7 + f) % 40;
        std::stop_source stop;
        auto answer = call<&slow_square>({.timeout = 1us * ((i * 13) % 60), .stop = stop.get_token()},
                                         (rank() + f) % size(), i, us);
        tern::future<void> stopper; // on another worker, if there is one
        if (i % 3 == 0)
          stopper = tern::async([stop, us]() mutable {
            tern::this_fiber::sleep_for(std::chrono::microseconds(us));
            stop.request_stop();
          });
        try {
          TERN_EXPECT_EQ(answer.get(), i * i);
          ++in_time;
        } catch (const tern::error& e) {
          TERN_EXPECT(e.code() == errc::timeout || e.code() == errc::cancelled);
          ++(e.code() == errc::timeout ? timed_out : cancelled);
        }
        if (stopper.valid()) stopper.get();
      }
    }));
  for (auto& f : fibers) f.get();
  TERN_EXPECT_EQ(in_time + timed_out + cancelled, 4 * n);
  tern::quiesce();
  TERN_EXPECT_EQ(open_calls(), 0u);
  TERN_EXPECT(late_answers() - before <= static_cast<std::uint64_t>(timed_out + cancelled)); // some were never sent
}

// To many ranks -------------------------------------------------------------------------------------------------------

struct received {
  tern::mutex lock;
  std::map<std::string, int> times;
};
const tern::rank_local<received> messages;
void note(const std::string& what, const std::vector<int>& load) {
  received& m = *messages;
  std::lock_guard hold(m.lock);
  m.times[what] += std::accumulate(load.begin(), load.end(), 0);
}
int taken(const std::string& what) {
  received& m = *messages;
  std::lock_guard hold(m.lock);
  return m.times[what];
}

TERN_RANK_TEST(each_rank_of_a_group_once) {
  static_cast<void>(taken(""));
  tern::barrier();
  const std::string me = text(rank());
  std::vector<int> load(size() > 8 ? 10 : 5000, 1), even, backwards;
  const int all = static_cast<int>(load.size());
  for (int r = 0; r < size(); r += 2) even.push_back(r);
  for (int r = size(); r-- > 0;) backwards.push_back(r);
  tern::multicast<&note>(tern::all_ranks, "all" + me, load);
  tern::multicast<&note>(tern::other_ranks, "others" + me, load);
  tern::multicast<&note>(even, "even" + me, load);
  tern::multicast<&note>(std::span<const int>(backwards), "backwards" + me, load);
  tern::multicast<&note>({rank()}, "self" + me, load);
  tern::multicast<&note>({other()}, "next" + me, load);
  tern::multicast<&note>(std::vector<int>{}, "nobody" + me, load);
  tern::quiesce();
  for (int r = 0; r < size(); ++r) {
    TERN_EXPECT_EQ(taken("all" + text(r)), all);
    TERN_EXPECT_EQ(taken("others" + text(r)), r == rank() ? 0 : all);
    TERN_EXPECT_EQ(taken("even" + text(r)), rank() % 2 == 0 ? all : 0);
    TERN_EXPECT_EQ(taken("backwards" + text(r)), all);
    TERN_EXPECT_EQ(taken("self" + text(r)), r == rank() ? all : 0);
    TERN_EXPECT_EQ(taken("next" + text(r)), rank() == (r + 1) % size() ? all : 0);
    TERN_EXPECT_EQ(taken("nobody" + text(r)), 0);
  }
  tern::barrier();
}

TERN_RANK_TEST(groups_that_are_wrong) {
  const std::vector<int> load;
  TERN_EXPECT_ERROR((tern::multicast<&note>({0, size()}, "x", load)), errc::invalid_argument,
                    "there is no rank " + text(size()));
  TERN_EXPECT_ERROR((tern::multicast<&note>({0, size() - 1, 0}, "x", load)), errc::invalid_argument,
                    "rank 0 is in a group twice");
  TERN_EXPECT_ERROR((tern::multicast<&note>({-1}, "x", load)), errc::invalid_argument, "there is no rank -1");
}

struct counters {
  std::atomic<int> nothing{0}, spread{0};
};
const tern::rank_local<counters> counted;
void nothing_at_all() { ++counted->nothing; }
void spread(int depth) {
  ++counted->spread;
  if (depth > 0) tern::multicast<&spread>(tern::other_ranks, depth - 1);
}
TERN_RANK_TEST(handlers_multicast_and_quiesce_waits_for_them) {
  if (rank() == 0) {
    tern::multicast<&nothing_at_all>(tern::all_ranks);
    tern::multicast<&spread>(tern::all_ranks, 2);
  }
  tern::quiesce();
  TERN_EXPECT_EQ(counted->nothing.load(), 1);
  const int n = size() - 1;
  TERN_EXPECT_EQ(tern::allreduce(counted->spread.load(), std::plus<>()), size() * (1 + n + n * n));
}

// Which rank has sent it ----------------------------------------------------------------------------------------------

constexpr const char* no_caller = "tern::caller() was used outside a handler and outside an invocation";
struct callers {
  std::atomic<int> right{0}, wrong{0};
};
const tern::rank_local<callers> seen;

int who() { return tern::caller(); }
int who_after_others(int at) { // asks another rank meanwhile, and is asked
  const int before = tern::caller();
  return at > 0 && call<&who_after_others>(other(), at - 1).get() != rank() ? -1
         : tern::caller() == before                                         ? before
                                                                            : -1;
}
int who_in_a_fiber() {
  return tern::async([] {
           try {
             return tern::caller();
           } catch (const tern::error& e) {
             return e.code() == errc::invalid_state ? -1 : -2;
           }
         })
      .get();
}
void expect_caller(int from) { ++(tern::caller() == from ? seen->right : seen->wrong); }
void expect_caller_of(const std::string& text, int from) {
  ++(tern::caller() == from && !text.empty() ? seen->right : seen->wrong);
}

TERN_RANK_TEST(handlers_know_their_caller) {
  TERN_EXPECT_ERROR(tern::caller(), errc::invalid_state, no_caller);
  for (int r = 0; r < size(); ++r) {
    TERN_EXPECT_EQ(call<&who>(r).get(), rank());
    TERN_EXPECT_EQ(call<&who_after_others>(r, 3).get(), rank());
    TERN_EXPECT_EQ(call<&who_in_a_fiber>(r).get(), -1);
    for (int i = 0; i < 100; ++i) send<&expect_caller>(r, rank());
    send<&expect_caller_of>(r, std::string(100'000, 'x'), rank());
  }
  TERN_EXPECT_ERROR(tern::caller(), errc::invalid_state, "ask in the fiber that runs the handler");
  tern::quiesce();
  TERN_EXPECT_EQ(seen->right.load(), 101 * size());
  TERN_EXPECT_EQ(seen->wrong.load(), 0);
}

// A multicast passes through other ranks.
TERN_RANK_TEST(multicasts_have_their_origin_as_caller) {
  seen->right = seen->wrong = 0;
  tern::barrier();
  for (int i = 0; i < 10; ++i) tern::multicast<&expect_caller>(tern::all_ranks, rank());
  tern::quiesce();
  TERN_EXPECT_EQ(seen->right.load(), 10 * size());
  TERN_EXPECT_EQ(seen->wrong.load(), 0);
}

} // namespace calls_test
