// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

#include "rank_test.hpp"

namespace net_test {

using tern::call;
using tern::errc;
using tern::rank;
using tern::send;
using tern::size;

int square(int x) { return x * x; }
double half(double x) { return x / 2; }
std::string greet(const std::string& who, int from) { return "hello " + who + " from " + std::to_string(from); }
int where() { return rank(); }
void nothing() {}

TERN_RANK_TEST(calls_return_values) {
  for (int r = 0; r < size(); ++r) {
    TERN_EXPECT_EQ(call<&square>(r, r + 2).get(), (r + 2) * (r + 2));
    TERN_EXPECT_EQ(call<&half>(r, 3).get(), 1.5); // converted to the parameter's type
    TERN_EXPECT_EQ(call<&greet>(r, "you", rank()).get(), "hello you from " + std::to_string(rank()));
    TERN_EXPECT_EQ(call<&where>(r).get(), r);
    TERN_EXPECT_EQ((call<[](int a, int b) { return a - b; }>(r, 9, 4).get()), 5);
    call<&nothing>(r).get();
  }
}

struct particle {
  double x = 0, y = 0;
  std::map<std::string, std::vector<int>> tags;
  template <class A> void serialize(A& ar) { ar(x, y, tags); }
};
particle mirrored(particle p) {
  std::swap(p.x, p.y);
  p.tags["seen"].push_back(rank());
  return p;
}
double total(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TERN_RANK_TEST(user_types_and_spans_travel) {
  const int to = size() - 1;
  const auto p = call<&mirrored>(to, particle{1, 2, {{"a", {3}}}}).get();
  TERN_EXPECT(p.x == 2 && p.y == 1 && p.tags.at("a").at(0) == 3 && p.tags.at("seen").at(0) == to);
  std::vector<double> many(size() > 4 ? 100'000 : 1'000'000, 0.5); // 8 MB: not a small message
  TERN_EXPECT_EQ(call<&total>(to, many).get(), 0.5 * static_cast<double>(many.size()));
  TERN_EXPECT_EQ(call<&total>(to, std::span<const double>(many).first(10)).get(), 5.0);
  TERN_EXPECT_EQ(call<&total>(to, std::vector<double>{}).get(), 0.0);
}

int thrower(int kind) {
  if (kind == 0) throw std::out_of_range("index 7 of 5");
  if (kind == 1) throw tern::error(errc::io, "disk full", "free some space");
  if (kind == 2) throw 42;
  return kind;
}

TERN_RANK_TEST(exceptions_travel_back) {
  for (int r = 0; r < size(); ++r) {
    const std::string place = "(in handler 'net_test::thrower' on rank " + std::to_string(r) + ")";
    TERN_EXPECT_ERROR(call<&thrower>(r, 0).get(), errc::remote, "std::out_of_range: index 7 of 5 " + place);
    TERN_EXPECT_ERROR(call<&thrower>(r, 1).get(), errc::io, "disk full " + place);
    TERN_EXPECT_ERROR(call<&thrower>(r, 1).get(), errc::io, "free some space");
    TERN_EXPECT_ERROR(call<&thrower>(r, 2).get(), errc::remote, "an exception of type int");
    TERN_EXPECT_EQ(call<&thrower>(r, 3).get(), 3);
  }
}

TERN_RANK_TEST(bad_destinations_are_named) {
  TERN_EXPECT_ERROR(call<&square>(size(), 1), errc::invalid_argument, "there is no rank " + std::to_string(size()));
  TERN_EXPECT_ERROR(send<&nothing>(-1), errc::invalid_argument, "there is no rank -1");
}

const tern::rank_local<std::vector<int>> arrived;
const tern::rank_local<std::mutex> arrived_lock; // blocks the worker, so no other fiber there overtakes
void note(int from, int number) {
  auto& list = *arrived; // its first use may suspend
  std::lock_guard hold(*arrived_lock);
  list.push_back(from * 100000 + number);
}

TERN_RANK_TEST(messages_of_one_pair_start_in_order) {
  const int n = std::max(5, 2000 / std::max(1, size() * size() / 16)); // each to each
  // The first use of each may suspend, and let others overtake.
  arrived->clear();
  arrived_lock->lock();
  arrived_lock->unlock();
  tern::barrier();
  for (int i = 0; i < n; ++i)
    for (int r = 0; r < size(); ++r) send<&note>(r, rank(), i);
  tern::quiesce();
  TERN_EXPECT_EQ(arrived->size(), static_cast<std::size_t>(n * size()));
  if (tern::scheduler::current()->workers() ==
      1) { // with more, handlers start in order but may overtake each other's locks
    std::vector<int> next(static_cast<std::size_t>(size()), 0);
    for (int v : *arrived) TERN_EXPECT_EQ(v % 100000, next[static_cast<std::size_t>(v / 100000)]++);
  }
  std::sort(arrived->begin(), arrived->end());
  TERN_EXPECT(std::adjacent_find(arrived->begin(), arrived->end()) == arrived->end());
  arrived->clear();
  tern::barrier();
}

int fibonacci(int n) { // handlers that call and wait on other ranks
  if (n < 2) return n;
  auto a = call<&fibonacci>((rank() + 1) % size(), n - 1);
  return call<&fibonacci>((rank() + 2) % size(), n - 2).get() + a.get();
}
TERN_RANK_TEST(handlers_block_and_call) { TERN_EXPECT_EQ(fibonacci(12), 144); }

const tern::rank_local<std::atomic<long>> hits;
void spread(int depth) {
  ++hits.get();
  for (int r = 0; depth > 0 && r < size(); ++r) send<&spread>(r, depth - 1);
}
TERN_RANK_TEST(quiesce_waits_for_what_handlers_send) {
  const int depth = size() > 16 ? 2 : size() > 4 ? 3 : size() > 2 ? 4 : 8; // size() messages for each, at each level
  if (rank() == 0) send<&spread>(size() - 1, depth);
  tern::quiesce();
  long expected = 0, level = 1;
  for (int d = 0; d <= depth; ++d, level *= size()) expected += level;
  TERN_EXPECT_EQ(tern::allreduce(hits->load(), std::plus<>()), expected);
  *hits = 0;
  tern::quiesce(); // nothing to do: returns
  tern::quiesce();
}

TERN_RANK_TEST(collectives_agree) {
  const int n = size();
  for (int root = 0; root < n; ++root)
    TERN_EXPECT_EQ(tern::broadcast(rank() == root ? std::string("from ") + std::to_string(root) : std::string(), root),
                   "from " + std::to_string(root));
  TERN_EXPECT_EQ(tern::allreduce(rank() + 1, std::plus<>()), n * (n + 1) / 2);
  const int top = tern::reduce(rank(), [](int a, int b) { return std::max(a, b); });
  if (rank() == 0) TERN_EXPECT_EQ(top, n - 1);
  std::string order, expected; // not commutative: must combine in rank order
  for (int r = 0; r < n; ++r) expected += static_cast<char>('a' + r);
  order = tern::allreduce(std::string(1, static_cast<char>('a' + rank())), std::plus<>());
  TERN_EXPECT_EQ(order, expected);
  const auto all = tern::gather(rank() * 10);
  TERN_EXPECT_EQ(all.size(), rank() == 0 ? static_cast<std::size_t>(n) : 0u);
  for (std::size_t r = 0; r < all.size(); ++r) TERN_EXPECT_EQ(all[r], static_cast<int>(r) * 10);
  for (int root = 0; root < n; root = 2 * root + 1) { // not commutative again
    order = tern::reduce(std::string(1, static_cast<char>('a' + rank())), std::plus<>(), root);
    if (rank() == root) TERN_EXPECT_EQ(order, expected);
    const auto there = tern::gather(rank() * 10 + root, root);
    TERN_EXPECT_EQ(there.size(), rank() == root ? static_cast<std::size_t>(n) : 0u);
    for (std::size_t r = 0; r < there.size(); ++r) TERN_EXPECT_EQ(there[r], static_cast<int>(r) * 10 + root);
  }
  for (int i = 0; i < 50; ++i) tern::barrier();
  TERN_EXPECT_ERROR(tern::broadcast(1, n), errc::invalid_argument, "there is no rank");
  TERN_EXPECT_ERROR(tern::reduce(1, std::plus<>(), n), errc::invalid_argument, "there is no rank");
  TERN_EXPECT_ERROR(tern::gather(1, -1), errc::invalid_argument, "there is no rank");
}

struct counted {
  int value = 100;
};
const tern::rank_local<counted> mine;
TERN_RANK_TEST(rank_local_is_one_for_each_rank) {
  TERN_EXPECT_EQ(mine->value, 100);
  mine->value += rank();
  tern::barrier();
  TERN_EXPECT_EQ(mine->value, 100 + rank());
  TERN_EXPECT_EQ((call<[] { return mine->value; }>(size() - 1).get()), 100 + size() - 1);
  tern::barrier();
}

struct liar { // serializes differently the second time
  mutable int visits = 0;
  template <class A> void serialize(A& ar) {
    ar(visits);
    if (visits++ == 0) ar(visits);
  }
};
int take_liar(const liar&) { return 0; }
TERN_RANK_TEST(a_type_that_contradicts_itself_is_an_error) {
  TERN_EXPECT_ERROR(call<&take_liar>(0, liar{}), errc::invalid_data, "");
}

TERN_RANK_TEST(threads_that_are_no_workers_are_told) {
  std::string text;
  const tern::sim::outside_world announced; // waiting for a thread
  std::thread([&] {
    try {
      (void)rank();
    } catch (const tern::error& e) {
      text = e.what();
    }
  }).join();
  TERN_EXPECT(text.find("from inside tern::run") != text.npos);
}

TERN_RANK_TEST(large_messages_keep_their_content) {
  std::vector<std::uint32_t> big(size() > 4 ? 300'000 : 3'000'000); // of each rank, which may share a process
  std::iota(big.begin(), big.end(), 7u);
  const auto back = call<[](std::vector<std::uint32_t> v) { return v; }>((rank() + 1) % size(), big).get();
  TERN_EXPECT(back == big);
}

// Where memory that was lent is freed, nothing may be held that what its owner does then needs.
const tern::rank_local<std::atomic<int>> noted;
void note_one() { ++*noted; }
int noted_here() { return *noted; }
void look_at(std::span<const char> bytes) { TERN_EXPECT_EQ(bytes.size(), std::size_t{20'000}); }

TERN_RANK_TEST(what_is_lent_may_send_when_it_is_freed) {
  const int to = (rank() + 1) % size(), times = 200;
  std::vector<tern::future<void>> all;
  for (int f = 0; f < 4; ++f)
    all.push_back(tern::async([&] {
      for (int i = 0; i < times; ++i) {
        const auto free = [to](std::vector<char>* p) {
          delete p;
          send<&note_one>(to);
        };
        send<&look_at>(to, tern::lend(std::shared_ptr<std::vector<char>>(new std::vector<char>(20'000), free)));
      }
    }));
  for (auto& f : all) f.get();
  while (call<&noted_here>(to).get() < 4 * times) tern::this_fiber::yield(); // freed when read, perhaps after that
  tern::quiesce();
}

// Fibers that cause fibers, here and elsewhere, and sleep now and then.
struct doings {
  std::atomic<int> go_on{0}, slept{0};
};
const tern::rank_local<doings> at_work;
int still_at_work() { return at_work->go_on; }
int have_slept() { return at_work->slept; }
void do_something(int left, int sleep_ms) {
  ++at_work->go_on;
  tern::scheduler::current()->spawn([left, sleep_ms] {
    tern::this_fiber::yield();
    if (sleep_ms > 0) {
      --at_work->go_on;
      tern::this_fiber::sleep_for(std::chrono::milliseconds(sleep_ms));
      ++at_work->slept;
      ++at_work->go_on;
    }
    if (left > 0) {
      send<&do_something>((rank() + 1) % size(), left - 1, sleep_ms);
      if (left % 3 == 0) do_something(left - 2, 0);
    }
    --at_work->go_on;
  });
}

TERN_RANK_TEST(quiesce_waits_for_fibers_if_told_to) {
  tern::semaphore never(0);
  auto waits = tern::async([&] { never.acquire(); });
  for (int round = 0; round < 20; ++round) {
    do_something(12, 0);
    tern::quiesce(tern::quiescence::fibers);
    for (int r = 0; r < size(); ++r) TERN_EXPECT_EQ(call<&still_at_work>(r).get(), 0);
    tern::barrier();
  }
  TERN_EXPECT(!waits.ready());
  never.release();
  waits.get();
}

TERN_RANK_TEST(quiesce_waits_for_timers_if_told_to) {
  do_something(3, 20);
  tern::quiesce(tern::quiescence::timers);
  int slept = 0;
  for (int r = 0; r < size(); ++r) {
    TERN_EXPECT_EQ(call<&still_at_work>(r).get(), 0);
    slept += call<&have_slept>(r).get();
  }
  TERN_EXPECT_EQ(slept, 4 * size());
  tern::barrier();
}

} // namespace net_test
