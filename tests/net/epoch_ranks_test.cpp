// SPDX-License-Identifier: Apache-2.0
// Epochs: over when all has ended that they caused, on any number of ranks, on every transport.
#include <tern/net/epoch.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/buffer.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/coro.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/parallel.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/task_graph.hpp>
#include <tern/task/task_group.hpp>

#include "rank_test.hpp"

namespace epoch_test {

using namespace std::chrono_literals;
using tern::errc;
using tern::rank;
using tern::size;

// What has been done on this rank, by the case it was done for and the rank that asked.
struct tallies {
  std::mutex guard;
  std::map<int, std::int64_t> of;
};
const tern::rank_local<tallies> done;
void note(int whose) {
  const std::lock_guard hold(done->guard);
  ++done->of[whose];
}
std::int64_t noted(int whose) {
  const std::lock_guard hold(done->guard);
  return done->of[whose];
}
int mine(int which) { return 1000 * which + rank(); }

// All that has been noted for `whose`, everywhere. Outside the epoch: its calls belong to no epoch.
std::int64_t noted_everywhere(int whose) {
  std::int64_t all = 0;
  for (int r = 0; r < size(); ++r) all += tern::call<&noted>(r, whose).get();
  return all;
}

int other(int i) { return (rank() + i) % size(); }

// Passes on a tree of 2^depth - 1 visits, and takes different ways to do so.
void visit(int whose, int depth);
tern::coro<void> visit_later(int whose, int depth) {
  co_await tern::async([] { tern::this_fiber::yield(); });
  for (int i = 0; i < 2; ++i) tern::send<&visit>(other(i), whose, depth);
}
void visit(int whose, int depth) {
  note(whose);
  if (--depth == 0) return;
  const auto both = [=] {
    for (int i = 0; i < 2; ++i) tern::send<&visit>(other(i + depth), whose, depth);
  };
  switch (depth % 6) {
  case 0:
    return both();
  case 1: { // a fiber without a waiter, which sleeps first
    tern::fiber([=] {
      tern::this_fiber::sleep_for(20us);
      both();
    }).detach();
    return;
  }
  case 2: { // tasklets
    tern::task_group g;
    for (int i = 0; i < 2; ++i) g.run([=] { tern::send<&visit>(other(i), whose, depth); });
    g.wait();
    return;
  }
  case 3: // what comes after a future
    static_cast<void>(tern::async([] { tern::this_fiber::yield(); }).then(both));
    return;
  case 4:
    static_cast<void>(tern::spawn(visit_later(whose, depth)));
    return;
  default: // the second one from within a handler that waits
    tern::send<&visit>(other(1), whose, depth);
    tern::call<&visit>(other(2), whose, depth).get();
  }
}

TERN_RANK_TEST(waits_for_all_that_is_caused) {
  constexpr int depth = 9;
  for (int round = 1; round <= 3; ++round) {
    tern::finish([&] { tern::send<&visit>(other(round), mine(1), depth); });
    TERN_EXPECT_EQ(noted_everywhere(mine(1)), round * ((1 << depth) - 1));
  }
  tern::barrier();
}

TERN_RANK_TEST(nothing_to_wait_for) {
  TERN_EXPECT_EQ(tern::finish([] { return 7; }), 7);
  tern::epoch e("empty");
  TERN_EXPECT_EQ(e.name(), "empty");
  TERN_EXPECT(!e.finished());
  e.wait();
  TERN_EXPECT(e.finished());
  e.wait();
  e.close();
}

struct closed_gate {
  tern::semaphore open{0};
};
const tern::rank_local<closed_gate> gate;
void wait_at_the_gate(int whose) {
  gate->open.acquire();
  note(whose);
}
void open_the_gate() { gate->open.release(1); }

// One that goes on keeps no other one waiting.
TERN_RANK_TEST(several_at_once) {
  const int to = other(1);
  tern::epoch slow("slow"), quick("quick");
  slow.run([&] { tern::send<&wait_at_the_gate>(to, 10'000); });
  quick.run([&] { tern::send<&visit>(to, mine(11), 5); });
  quick.wait();
  TERN_EXPECT_EQ(noted_everywhere(mine(11)), 31);
  TERN_EXPECT(!slow.finished());
  bool told = false;
  const auto after = slow.done().then([&] { told = true; });
  tern::barrier(); // all have seen that theirs waits
  tern::send<&open_the_gate>(to);
  after.wait();
  TERN_EXPECT(told);
  TERN_EXPECT(slow.finished());
  tern::barrier();
  TERN_EXPECT_EQ(noted(10'000), 1);
}

void begin_an_inner_one(int to) {
  tern::epoch inner("inner");
  inner.run([&] { tern::send<&wait_at_the_gate>(to, 20'000); });
  inner.close(); // no fiber waits for it
}

// An epoch that is made within belongs to the outer one, whichever fiber waits for it.
TERN_RANK_TEST(inner_ones_belong_to_outer_ones) {
  const int to = other(1);
  tern::epoch outer("outer");
  outer.run([&] {
    tern::finish([&] { tern::send<&visit>(to, mine(21), 6); }); // may be waited for within
    begin_an_inner_one(to);
  });
  TERN_EXPECT_EQ(noted_everywhere(mine(21)), 63);
  const auto over = outer.done();
  tern::barrier();
  TERN_EXPECT(!over.ready());
  tern::send<&open_the_gate>(to);
  over.wait();
  tern::barrier();
  TERN_EXPECT_EQ(noted(20'000), 1);
}

void take_all(std::vector<double> values, const std::string& text, int whose) {
  if (values.size() == text.size()) note(whose);
}
void take_buffer(tern::buffer<double> values, int whose) {
  if (std::accumulate(values.begin(), values.end(), 0.0) == static_cast<double>(values.size())) note(whose);
}
void take_span(std::span<const double> values, const std::string& text, int whose) {
  if (values.size() == text.size()) note(whose);
}

// Messages of every kind: small, larger than a head, with a body, both.
TERN_RANK_TEST(of_any_size) {
  const std::size_t sizes[] = {0, 1, 50, 60, 100, 470, 500, 512, 1000, 2000, 4000, 5000, 70'000};
  for (const std::size_t n : sizes) {
    const std::vector<double> values(n, 1.0);
    const std::int64_t before = noted_everywhere(mine(30));
    tern::finish([&] {
      tern::send<&take_all>(other(1), values, std::string(n, 'x'), mine(30));
      tern::send<&take_buffer>(other(1), tern::buffer<double>(std::vector<double>(values)), mine(30));
      tern::send<&take_span>(other(1), std::vector<double>(values), std::string(n, 'x'), mine(30));
      tern::multicast<&take_all>(tern::all_ranks, values, std::string(n, 'x'), mine(30));
    });
    TERN_EXPECT_EQ(noted_everywhere(mine(30)) - before, 3 + size());
  }
  tern::barrier();
}

// More messages of one handler than a credit can be halved; each is answered with as many.
void spread(int whose, int n) {
  note(whose);
  if (n > 0)
    for (int i = 0; i < n; ++i) tern::send<&spread>(other(i), whose, 0);
}
void hop(int whose, int left) {
  note(whose);
  if (left > 0) tern::send<&hop>(other(1), whose, left - 1);
}
TERN_RANK_TEST(credit_is_never_used_up) {
  const int n = size() > 8 ? 70 : 100;
  tern::finish([&] {
    for (int i = 0; i < n; ++i) tern::send<&spread>(other(i), mine(40), i < 10 ? n : 0);
  });
  TERN_EXPECT_EQ(noted_everywhere(mine(40)), n + 10 * n);
  tern::finish([] { tern::send<&hop>(other(1), mine(44), 300); });
  TERN_EXPECT_EQ(noted_everywhere(mine(44)), 301);
  tern::barrier();
}

// A fiber that does not belong to the epoch sets a future of the epoch.
TERN_RANK_TEST(continuations_wait_in_their_epoch) {
  tern::promise<int> p;
  auto value = p.get_future();
  tern::epoch e;
  e.run(
      [&] { static_cast<void>(std::move(value).then([to = other(1)](int x) { tern::send<&note>(to, 50'000 + x); })); });
  e.close();
  tern::barrier();
  TERN_EXPECT(!e.finished());
  tern::finish([&] { p.set_value(rank()); }); // does not wait for what belongs to another
  e.wait();
  TERN_EXPECT_EQ(noted_everywhere(mine(50)), 1);
  tern::barrier();
}

// Tasks are of the epoch in which they were spawned, though their group is waited for elsewhere.
TERN_RANK_TEST(task_groups_that_are_waited_for_later) {
  tern::epoch e;
  tern::task_group g;
  std::atomic<int> ran{0};
  const auto task = [&, to = other(1)] {
    ++ran;
    tern::send<&note>(to, mine(54));
  };
  g.run(task);
  e.run([&] {
    for (int i = 0; i < 3; ++i) g.run(task);
  });
  g.run(task);
  e.close();
  TERN_EXPECT(!e.finished() || ran.load() >= 3);
  g.wait();
  TERN_EXPECT_EQ(ran.load(), 5);
  e.wait();
  TERN_EXPECT(noted_everywhere(mine(54)) >= 3);
  tern::task_graph graph;
  graph.add(task);
  graph.add(task);
  tern::finish([&] {
    graph.run();
    tern::parallel_for(0, 10, [&](int) { task(); });
  });
  tern::quiesce(); // the two that belong to no epoch
  TERN_EXPECT_EQ(noted_everywhere(mine(54)), 17);
  tern::barrier();
}

TERN_RANK_TEST(of_all_ranks_together) {
  const auto world = tern::communicator::world();
  for (int round = 1; round <= 4; ++round) {
    const int own = tern::finish(world, [&] {
      if (rank() % 2 == 0) tern::send<&visit>(other(round), 58'000, 7);
      return rank();
    });
    TERN_EXPECT_EQ(own, rank());
    TERN_EXPECT_EQ(noted_everywhere(58'000), round * 127 * ((size() + 1) / 2));
    tern::barrier();
  }
}

TERN_RANK_TEST(an_exception_comes_after_the_rest) {
  TERN_EXPECT_ERROR(tern::finish([&] {
                      tern::send<&visit>(other(1), mine(59), 6);
                      throw tern::error(errc::invalid_argument, "no good");
                    }),
                    errc::invalid_argument, "no good");
  TERN_EXPECT_EQ(noted_everywhere(mine(59)), 63);
  tern::barrier();
}

// A fiber inside the epoch keeps it from being over.
TERN_RANK_TEST(may_be_closed_from_within) {
  tern::epoch e;
  tern::shared_future<void> over;
  e.run([&] {
    over = e.done();
    TERN_EXPECT(!over.ready());
    tern::send<&note>(other(1), mine(60));
    TERN_EXPECT_ERROR(e.run([] {}), errc::invalid_state, "an epoch has been closed");
  });
  over.wait();
  TERN_EXPECT_EQ(noted_everywhere(mine(60)), 1);
  tern::barrier();
}

TERN_RANK_TEST(wrong_use_is_told) {
  tern::epoch e("of mine");
  e.run([&] {
    TERN_EXPECT_ERROR(e.wait(), errc::invalid_state, "waits for epoch 'of mine', which it belongs to");
    const tern::epoch inner;
    tern::epoch within("within");
    within.run([&] { TERN_EXPECT_ERROR(e.wait(), errc::invalid_state, "neither could end"); });
    within.wait(); // this fiber belongs to the outer one only
  });
  tern::async([&] { TERN_EXPECT_EQ(e.finished(), false); }).get();
  e.wait();
  TERN_EXPECT_ERROR(e.run([] {}), errc::invalid_state, "epoch 'of mine' has been closed");
  tern::epoch moved(std::move(e));
  TERN_EXPECT(moved.finished());
  TERN_EXPECT_ERROR(e.wait(), errc::invalid_state, "was moved away"); // NOLINT(bugprone-use-after-move)
  TERN_EXPECT_ERROR(e.run([] {}), errc::invalid_state, "was moved away");
  TERN_EXPECT_ERROR(static_cast<void>(e.done()), errc::invalid_state, "was moved away");
}

} // namespace epoch_test
