// SPDX-License-Identifier: Apache-2.0
// What a policy may count on, and what becomes of one that does what it must not.
#include <tern/balance/balance.hpp>

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <tern/balance/policy.hpp>
#include <tern/mobile/load.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "rank_test.hpp"
#include "tests/balance/support/ranks.hpp"

namespace balance_test {

using namespace std::chrono_literals;
using namespace tern::balance;
using tern::rank;
using tern::size;

struct seen {
  std::atomic<int> phases{0}, idle{0}, gone{0}, touched{0};
  std::atomic<bool> go{false}, armed{false};
  std::atomic<int> count{0}, urgent_at{-1};
};
const tern::rank_local<seen> here_seen;

/// The policy on all ranks, then none again, or it has failed.
template <class F> void with(const std::string& name, bool fails, F&& body) {
  if (rank() == 0) use(name).get();
  tern::barrier();
  if (!fails) TERN_EXPECT_EQ(in_use(), name);
  body();
  tern::quiesce();
  if (fails) tern::wait_until([] { return in_use() == "none"; });
  tern::barrier();
  if (!fails) TERN_EXPECT_EQ(in_use(), name);
  tern::barrier();
  if (rank() == 0) use("none").get();
  tern::barrier();
}

/// What policies look at and move.
struct thing {
  double weight = 1;
  tern::mobile_ptr<thing> other;
  template <class A> void serialize(A& ar) { ar(weight, other); }
  double workload(std::size_t pending) const { return weight * static_cast<double>(pending); }
  void work() { compute(100us); }
  void work_and_arm() {
    compute(3ms);
    here_seen->armed = true;
  }
  void count() {
    compute(1ms);
    ++here_seen->count;
  }
  void tell_other() {
    tern::send<&thing::urgent>({.priority = tern::priority::high}, other);
    compute(5ms);
  }
  void urgent() { here_seen->urgent_at = here_seen->count++; }
  // Takes long at first, and then is quick; the last one tells another something, and ends it.
  void becomes_quick(int number) {
    if (number >= 0 && number < 300) compute(6us);
    if (number != 530) return;
    tern::send<&thing::becomes_quick>(other, 1);
    (void)tern::destroy(other);
  }
};

class holds : public policy {
public:
  holds(policy_context& h, parameters&) : policy(h) {}
  ~holds() override { ++here_seen->gone; }
  void dist_balance(trigger why) override {
    if (why != trigger::start) return;
    here_seen->gone = 0; // one was made to see whether it can be
    here.fiber([this] {
      tern::wait_until([] { return here_seen->go.load(); });
      TERN_EXPECT_EQ(here_seen->gone.load(), 0);
      ++here_seen->touched;
      here.enter([] { TERN_EXPECT(!"a policy that is no more was entered"); });
    });
  }
};
const registered_policy<holds> the_holding("test-holds", "has a fiber that lives longer than it is in use");

TERN_RANK_TEST(fibers_of_a_policy_keep_it) {
  if (rank() == 0) use("test-holds").get();
  tern::barrier();
  if (rank() == 0) use("none").get();
  tern::barrier();
  here_seen->go = true;
  tern::quiesce();
  TERN_EXPECT_EQ(here_seen->touched.load(), 1);
  TERN_EXPECT_EQ(here_seen->gone.load(), 1);
  tern::barrier();
}

class slow : public policy {
public:
  slow(policy_context& h, parameters&) : policy(h) {}
  void dist_balance(trigger why) override {
    if (why == trigger::idle) compute(3ms); // and another worker finds it busy
    if (why == trigger::phase) ++here_seen->phases;
  }
};
const registered_policy<slow> the_slow("test-slow", "takes its time");

TERN_RANK_TEST(phases_are_over_when_the_policy_has_been_told) {
  with("test-slow", false, [] {
    const auto one = tern::create<thing>();
    for (int phase = 1; phase <= 10; ++phase) {
      tern::send<&thing::work>(one);
      tern::balance::phase();
      TERN_EXPECT_EQ(here_seen->phases.load(), phase);
    }
  });
}

class placer : public policy {
public:
  placer(policy_context& h, parameters&) : policy(h) {}
  void notify(object_id object) override { here.place(object, here.workers()); }
};
const registered_policy<placer> the_placer("test-placer", "places objects on workers that there are not");

TERN_RANK_TEST(no_such_worker_ends_the_policy) {
  with("test-placer", true, [] {
    const auto one = tern::create<thing>();
    for (int i = 0; i < 5; ++i) tern::send<&thing::work>(one);
  });
}

class peek : public policy {
public:
  peek(policy_context& h, parameters&) : policy(h) {}
  bool push(int, const ready_object& o) override {
    waiting_.push_back(o.id);
    return true;
  }
  object_id pop(int) override { return waiting_.empty() ? object_id() : waiting_.front(); } // and does not remove it

private:
  std::vector<object_id> waiting_;
};
const registered_policy<peek> the_peeking("test-peek", "gives the same again and again");

TERN_RANK_TEST(giving_what_does_not_wait_ends_the_policy) {
  with("test-peek", true, [] {
    for (int i = 0; i < 5; ++i) tern::send<&thing::work>(tern::create<thing>());
  });
}

class giver : public policy {
public:
  giver(policy_context& h, parameters&) : policy(h) {}
  void dist_balance(trigger why) override {
    if (why == trigger::idle && here_seen->armed) ++here_seen->idle;
  }
  void notify(object_id) override {
    if (!here_seen->armed || here.size() == 1) return;
    for (const object_info& o : here.objects())
      if (o.movable && o.pending > 0) here.move(o.id, (here.rank() + 1) % here.size());
  }
};
const registered_policy<giver> the_giver("test-giver", "gives away all that it has");

// Whether it has done the last that waited or has given it away.
TERN_RANK_TEST(who_has_nothing_left_is_told_so) {
  with("test-giver", false, [] {
    for (int i = 0; i < 3; ++i) tern::send<&thing::work_and_arm>(tern::create<thing>());
    tern::wait_until([] { return here_seen->idle > 0; });
  });
}

class still : public policy {
public:
  still(policy_context& h, parameters&) : policy(h) {}
  void dist_balance(trigger why) override {
    if (why == trigger::idle && here.ready() == 0) ++here_seen->idle;
  }
};
const registered_policy<still> the_still("test-still", "moves nothing");

// Also than what had come to the same object before, from another rank.
TERN_RANK_TEST(more_urgent_ones_come_first_whenever_they_come) {
  if (!tern::net::node::here().simulated() || tern::scheduler::current()->workers() > 1 || size() == 1)
    return; // elsewhere others might be done with all meanwhile
  with("test-still", false, [] {
    const auto one = tern::create<thing>();
    const auto all = tern::communicator::world().allgather(one);
    const auto next = all[static_cast<std::size_t>((rank() + 1) % size())];
    tern::send<&thing::tell_other>(tern::create<thing>(thing{1, next}));
    tern::send<&thing::count>({.priority = tern::priority::low}, one);
    for (int i = 0; i < 20; ++i) tern::send<&thing::count>(tern::create<thing>());
    tern::quiesce();
    TERN_EXPECT_EQ(here_seen->count.load(), 22);
    TERN_EXPECT(here_seen->urgent_at < 20); // those of the same urgency as the other object's
  });
}

TERN_RANK_TEST(what_ends_while_it_waits_is_not_counted) {
  with("test-still", false, [] {
    auto all = tern::create<thing>(thing{100, {}});
    const auto last = tern::create<thing>();
    all = tern::create<thing>(thing{100, last});
    for (int i = 0; i <= 530; ++i) {
      tern::send<&thing::becomes_quick>(all, i);
      if (i == 290) tern::send<&thing::becomes_quick>(last, -1);
    }
    tern::quiesce();
    here_seen->idle = 0;
    tern::send<&thing::work>(tern::create<thing>());
    tern::wait_until([] { return here_seen->idle > 0; }); // never, if something still seemed to wait
  });
}

TERN_RANK_TEST(loads_that_are_no_numbers_count_as_nothing) {
  with("test-still", false, [] {
    const auto odd = tern::create<thing>(thing{std::numeric_limits<double>::infinity(), {}});
    tern::send<&thing::work>(odd);
    tern::call<&thing::work>(odd).get();
    tern::destroy(odd).get();
    TERN_EXPECT_EQ(tern::mobile::load(), 0.0);
  });
}

} // namespace balance_test
