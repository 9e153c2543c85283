// SPDX-License-Identifier: Apache-2.0
// Load balancing of real objects: on any number of ranks, on every transport.
#include <tern/balance/balance.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <tern/balance/policy.hpp>
#include <tern/mobile/load.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/node.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"
#include "tests/balance/support/ranks.hpp"

namespace balance_test {

using namespace std::chrono_literals;
using namespace tern::balance;
using tern::errc;
using tern::rank;
using tern::size;

struct worker_object {
  int weight = 1;
  long done = 0;
  std::vector<int> order; ///< of what it was sent
  template <class A> void serialize(A& ar) { ar(weight, done, order); }
  void work(int number) {
    compute(200us * weight);
    ++done;
    order.push_back(number);
  }
  double workload(std::size_t pending) const { return static_cast<double>(weight) * static_cast<double>(pending); }
  long count() const { return done; }
  bool in_order() const { return std::is_sorted(order.begin(), order.end()); }
  int where() const { return rank(); }
};

/// An idle rank asks the next rank, which gives half of its waiting work, now or later.
struct wish {
  template <class A> void serialize(A& ar) { ar(load); }
  double load;
};
const tern::rank_local<std::atomic<int>> wishes; // that have come here
class ask_next : public policy {
public:
  ask_next(policy_context& h, parameters& p) : policy(h), least_(p.number("least", 1, 0, 100)) {
    on(&ask_next::wished);
  }
  void dist_balance(trigger why) override {
    if (why == trigger::idle && here.size() > 1) send((here.rank() + 1) % here.size(), wish{here.load()});
  }
  void notify(object_id) override {
    if (asked_ >= 0 && here.ready() > 1) give(asked_);
  }

private:
  void wished(int from, const wish&) {
    ++*wishes;
    asked_ = from;
    if (here.ready() > 1) give(from);
  }
  void give(int to) {
    double gift = here.waiting() / 2;
    for (const object_info& o : here.objects())
      if (o.movable && o.pending > 0 && o.load <= gift && o.load >= least_) {
        here.move(o.id, to);
        gift -= o.load;
        asked_ = -1;
      }
  }
  const double least_;
  int asked_ = -1;
};
const registered_policy<ask_next> the_asking("ask-next", "idle ranks ask one other");

class throwing : public policy {
public:
  throwing(policy_context& h, parameters& p) : policy(h), at_(p.count("at", 0, 0, 100)) {}
  void dist_balance(trigger) override {
    if (here.rank() == at_ % here.size()) throw std::runtime_error("it was told to");
  }

private:
  const int at_;
};
const registered_policy<throwing> the_throwing("throwing", "fails");

/// Has a queue of its own: the last first.
class own_queue : public policy {
public:
  own_queue(policy_context& h, parameters& p) : policy(h), throws_(p.count("throws", 0, 0, 1000)) {}
  bool push(int, const ready_object& o) override {
    waiting_.push_back(o.id);
    return true;
  }
  object_id pop(int) override {
    if (waiting_.empty()) return {};
    if (throws_ > 0 && ++pops_ >= throws_) throw std::runtime_error("it was told to, when it was asked");
    const object_id next = waiting_.back();
    waiting_.pop_back();
    return next;
  }

private:
  const int throws_;
  int pops_ = 0;
  std::vector<object_id> waiting_;
};
const registered_policy<own_queue> the_queue("own-queue", "has a queue of its own");

class restless : public policy {
public:
  restless(policy_context& h, parameters&) : policy(h) { on(&restless::again); }
  void dist_balance(trigger why) override {
    if (why == trigger::start) send((here.rank() + 1) % here.size(), 0);
  }

private:
  void again(int, const int& n) { send((here.rank() + 1) % here.size(), n + 1); }
};
const registered_policy<restless> the_restless("restless", "goes on for ever");

/// 24 objects on rank 0, each with `each` invocations of different lengths. \return what was done,
/// over all ranks.
long work_through(int each, std::vector<int>* places = nullptr) {
  std::vector<tern::mobile_ptr<worker_object>> all;
  if (rank() == 0)
    for (int i = 0; i < 24; ++i) {
      all.push_back(tern::create<worker_object>(worker_object{i % 5 == 0 ? 3 : 1, 0, {}}));
      for (int n = 0; n < each; ++n) tern::send<&worker_object::work>(all.back(), n);
    }
  tern::quiesce();
  long done = 0;
  for (const auto& o : all) {
    done += tern::call<&worker_object::count>(o).get();
    TERN_EXPECT(tern::call<&worker_object::in_order>(o).get());
    if (places) places->push_back(tern::call<&worker_object::where>(o).get());
    tern::destroy(o).get();
  }
  return done;
}

TERN_RANK_TEST(idle_ranks_get_objects) {
  if (rank() == 0) use("ask-next:least=0.5").get();
  tern::barrier();
  TERN_EXPECT_EQ(in_use(), std::string("ask-next:least=0.5"));
  // Else all may be done before the other has asked.
  if (rank() == 0 && size() > 1) tern::wait_until([] { return *wishes > 0; });
  bool moved = false;
  // Where threads are more than cores, all may be done again and again before two objects wait at
  // once.
  for (int tries = 0; tries < 100 && !moved; ++tries) {
    std::vector<int> places;
    const long done = work_through(3, &places);
    TERN_EXPECT_EQ(done, rank() == 0 ? 72 : 0);
    moved = std::any_of(places.begin(), places.end(), [](int p) { return p != 0; });
    moved = tern::communicator::world().broadcast(moved || size() == 1, 0);
  }
  TERN_EXPECT(moved);
  if (rank() == 0) use("none").get();
  tern::barrier();
  TERN_EXPECT_EQ(in_use(), std::string("none"));
  tern::quiesce(); // word that the last one has arrived may be on its way
  TERN_EXPECT(rank() != 0 || size() == 1 || count().moves > 0);
}

TERN_RANK_TEST(policies_come_and_go_while_work_goes_on) {
  tern::future<void> changes = rank() == size() - 1 ? tern::async([] {
    for (int i = 0; i < 6; ++i) {
      use(i % 3 == 0 ? "ask-next" : i % 3 == 1 ? "refine" : "none").get();
      enable(false).get();
      enable(true).get();
    }
  })
                                                    : tern::future<void>();
  const long done = work_through(4);
  TERN_EXPECT(rank() != 0 || done == 96);
  if (changes.valid()) changes.get();
  tern::barrier();
  if (rank() == 0) use("none").get();
  tern::barrier();
}

TERN_RANK_TEST(a_policy_that_fails_is_none) {
  if (rank() == 0) use("throwing:at=1").get();
  tern::barrier();
  const long done = work_through(2);
  TERN_EXPECT(rank() != 0 || done == 48);
  tern::wait_until([] { return in_use() == "none"; });
  tern::barrier();
}

TERN_RANK_TEST(policies_may_have_queues_of_their_own) {
  for (const char* text : {"own-queue", "own-queue:throws=5"}) {
    const bool fails = std::string(text) != "own-queue";
    if (rank() == 0) use(text).get();
    tern::barrier();
    const long done = work_through(2); // nothing is lost with the queue
    TERN_EXPECT(rank() != 0 || done == 48);
    if (fails) tern::wait_until([] { return in_use() == "none"; });
    tern::barrier();
    if (!fails && rank() == 0) use("none").get();
    tern::barrier();
  }
}

TERN_RANK_TEST(a_policy_that_never_rests_is_none) {
  if (tern::net::node::here().simulated()) return; // would take long
  if (rank() == 0) use("restless").get();
  tern::barrier();
  tern::wait_until([] { return in_use() == "none"; });
  tern::quiesce();
}

TERN_RANK_TEST(phases_give_loads_of_objects) {
  if (rank() == 0) use("refine").get();
  tern::barrier();
  std::vector<tern::mobile_ptr<worker_object>> mine;
  for (int i = 0; i < 8; ++i) mine.push_back(tern::create<worker_object>(worker_object{rank() == 0 ? 20 : 1, 0, {}}));
  // Another rank may be slower than this one is loaded: in a simulation, or for a while on a busy
  // machine.
  const bool sure = size() > 1 && !tern::net::node::here().simulated();
  bool away = !sure;
  for (long step = 0; step < 4 || (!away && step < 100); ++step) {
    for (const auto& o : mine) tern::send<&worker_object::work>(o, static_cast<int>(step));
    phase();
    bool moved = false;
    for (const auto& o : mine) {
      TERN_EXPECT_EQ(tern::call<&worker_object::count>(o).get(), step + 1);
      moved |= tern::call<&worker_object::where>(o).get() != rank();
    }
    away |= tern::communicator::world().broadcast(moved, 0);
  }
  TERN_EXPECT(away);
  tern::barrier();
  for (const auto& o : mine) tern::destroy(o).get();
  tern::barrier();
  if (rank() == 0) use("none").get();
  tern::barrier();
}

TERN_RANK_TEST(wrong_policies_are_refused) {
  if (rank() == 0) {
    TERN_EXPECT_ERROR(use("nothing-like-it").get(), errc::invalid_option, "there is no policy \"nothing-like-it\"");
    TERN_EXPECT_ERROR(use("ask-next:most=3").get(), errc::invalid_option, "most");
    TERN_EXPECT_EQ(in_use(), std::string("none"));
    TERN_EXPECT_ERROR(charge_device(1), errc::invalid_state, "charge_device");
  }
  tern::barrier();
}

} // namespace balance_test
