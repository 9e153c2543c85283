// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policies that work in rounds: in the model, and on ranks that do not answer.

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/balance/support/model.hpp"
#include <tern/balance/model.hpp>
#include <tern/balance/policies/shared/random.hpp>
#include <tern/balance/policy.hpp>
#include <tern/base/error.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::balance {
namespace {

using model_test::any_small_machine;
using model_test::small_run;
using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::Le;

const std::vector<std::string> round_policies = {"greedy", "refine", "gossip", "communication", "curve"};

model_result run_planned(const workload& w, const std::string& policy, model_settings m = {}) {
  if (m.order == "fifo") m.order = "plan";
  return model_test::run(w, policy, m);
}

// In the model --------------------------------------------------------------------------------------------------------

struct target {
  const char* policy;
  double at_most; // of the makespan that no schedule can beat
};

TEST(rounds, come_close_to_what_is_possible) {
  const auto close = [](const char* placement, int ranks, int workers, std::initializer_list<target> targets) {
    const workload w = make({.placement = placement, .ranks = ranks, .workers = workers});
    for (const target& t : targets) {
      const model_result r = run_planned(w, t.policy);
      EXPECT_LE(r.makespan, t.at_most * w.bound()) << t.policy << ' ' << placement << ' ' << ranks;
      EXPECT_LE(r.most_moves, 2u) << t.policy << ' ' << placement << ' ' << ranks;
      EXPECT_LE(r.failed, r.moves / 20) << t.policy << ' ' << placement << ' ' << ranks;
    }
  };
  close("literature", 10, 31, {{"refine", 1.01}, {"greedy", 1.02}, {"gossip", 1.02}, {"communication", 1.02}});
  close("clustered", 10, 31, {{"refine", 1.02}, {"greedy", 1.02}, {"gossip", 1.03}, {"communication", 1.02}});
  close("clustered", 40, 31, {{"refine", 1.02}, {"gossip", 1.03}});
  if (tern::detail::sanitized) return; // the same code, for ten seconds
  close("literature", 200, 15, {{"refine", 1.01}, {"greedy", 1.02}});
  close("clustered", 200, 15, {{"refine", 1.02}, {"gossip", 1.03}});
}

TEST(rounds, find_out_who_is_slow) {
  const workload w = make({.placement = "slow", .ranks = 10, .workers = 31});
  for (const target& t : {target{"refine", 1.04}, target{"greedy", 1.04}, target{"gossip", 1.06}})
    EXPECT_LE(run_planned(w, t.policy).makespan, t.at_most * w.bound()) << t.policy;
}

TEST(rounds, follow_loads_that_move) {
  const workload w = make({.placement = "burst", .ranks = 10, .workers = 15, .phases = 6});
  const double alone = run_planned(w, "none").makespan;
  for (const std::string& policy : round_policies) {
    // A curve is cut, and its pieces exchange nothing.
    EXPECT_LE(run_planned(w, policy).makespan, (policy == "curve" ? 1.06 : 1.04) * w.bound()) << policy;
    // Without rounds inside phases the last phase has to do for the next, and does not.
    EXPECT_LE(run_planned(w, policy + ":inside=no").makespan, 1.1 * alone) << policy;
  }
  const workload constant = make({.placement = "clustered", .ranks = 10, .workers = 15, .phases = 6});
  for (const std::string& policy : round_policies)
    EXPECT_LE(run_planned(constant, policy + ":inside=no").makespan, 1.03 * constant.bound()) << policy;
}

TEST(rounds, bring_together_what_talks) {
  workload w = make({.placement = "talk", .ranks = 20, .workers = 15, .phases = 3});
  for (workload::object& x : w.objects) x.bytes = 1000;
  model_settings dear; // what objects say to each other takes a tenth as long as what they do
  dear.bandwidth = 4e5;
  const model_result refine = run_planned(w, "refine", dear),
                     together = run_planned(w, "communication:byte=2.5e-6", dear);
  EXPECT_LT(together.remote_bytes, 0.35 * refine.remote_bytes);
  EXPECT_LT(together.makespan, 0.95 * refine.makespan);
  const model_result cheap = run_planned(w, "communication");
  EXPECT_LT(cheap.remote_bytes, 0.35 * refine.remote_bytes);
  EXPECT_LT(cheap.makespan, 1.02 * w.bound());
}

TEST(rounds, are_the_same_for_the_same_seed) {
  const workload w = make({.placement = "talk", .ranks = 12, .workers = 4, .per_worker = 6, .phases = 2});
  model_settings m;
  m.delay = 0.5;
  m.fails = 0.1;
  for (const std::string& policy : round_policies) {
    const model_result a = run_planned(w, policy, m), b = run_planned(w, policy, m);
    EXPECT_EQ(a.makespan, b.makespan) << policy;
    EXPECT_EQ(a.moves, b.moves) << policy;
    EXPECT_EQ(a.messages, b.messages) << policy;
    EXPECT_EQ(a.message_bytes, b.message_bytes) << policy;
  }
}

TEST(rounds, any_small_machine) {
  any_small_machine({"greedy", "refine", "gossip", "communication", "greedy:arity=2", "refine:tolerance=1",
                     "gossip:fanout=1,known=1,tries=2", "gossip:rounds=2,tolerance=1.2"},
                    12, {0.0, 1.0}, [](const small_run& x) {
                      EXPECT_LE(x.result.most_moves, 10u) << x.described;
                      EXPECT_LE(x.result.returns, x.work.objects.size() * x.work.phases()) << x.described;
                      // A delay of a second is as much as some phases: rounds wait for a dozen of
                      // them at the end.
                      const double waits = x.how.delay * 60 * static_cast<double>(x.work.phases());
                      EXPECT_LE(x.result.makespan, 1.35 * x.alone + waits) << x.described;
                      return x.how.delay < 1;
                    });
}

TEST(rounds, mend_only_so_often_what_does_not_come_as_foreseen) {
  const workload w = make({.placement = "clustered", .ranks = 10, .workers = 4, .per_worker = 7, .seed = 2774});
  model_settings m;
  m.seed = 2774;
  m.delay = 1e-3;
  m.fails = 0.1; // each round leaves something behind
  for (const std::string policy : {"greedy", "refine:tolerance=1", "gossip", "communication"})
    EXPECT_LE(run_planned(w, policy, m).most_moves, 6u) << policy;
}

TEST(rounds, a_single_rank_needs_none) {
  const workload w = make({.placement = "literature", .ranks = 1, .workers = 3});
  for (const std::string& policy : round_policies) EXPECT_EQ(run_planned(w, policy).messages, 0u) << policy;
}

TEST(rounds, refuse_wrong_parameters) {
  for (const std::string& policy : round_policies) {
    EXPECT_NO_THROW(check_policy(policy + ":arity=4,distance=5ms,gain=0.01,inside=no"));
    for (const char* wrong : {":arity=1", ":gain=2", ":inside=perhaps", ":limit=3", ":distance=soon"})
      EXPECT_THROW(check_policy(policy + wrong), error) << policy << wrong;
  }
  EXPECT_NO_THROW(check_policy("greedy:keep=0"));
  EXPECT_NO_THROW(check_policy("refine:tolerance=1.1"));
  EXPECT_NO_THROW(check_policy("gossip:fanout=2,rounds=3,tries=4,known=5,tolerance=1.2"));
  EXPECT_NO_THROW(check_policy("communication:byte=1ns,message=1us,phases=3"));
}

// On ranks that tests can hold by the hand
// -----------------------------------------------------------------------------

struct held_object {
  double load = 1;
  bool runs = false;
};

class small_machine {
public:
  class one_rank final : public policy_context {
  public:
    one_rank(small_machine& of, int number) : of_(of), number_(number) {}
    int rank() const noexcept override { return number_; }
    int size() const noexcept override { return static_cast<int>(of_.ranks.size()); }
    int workers() const noexcept override { return 1; }
    double now() const noexcept override { return of_.now; }
    double pace() const noexcept override { return 1; }
    double load() const noexcept override {
      double all = 0;
      for (const auto& [id, x] : things) all += x.load;
      return all;
    }
    double waiting() const noexcept override {
      double all = 0;
      for (const auto& [id, x] : things) all += x.runs ? 0 : x.load;
      return all;
    }
    std::size_t ready() const noexcept override { return things.size(); }
    std::vector<object_info> objects() const override {
      std::vector<object_info> all;
      for (const auto& [id, x] : things) all.push_back({.id = id, .load = x.load, .pending = 1, .movable = !x.runs});
      std::sort(all.begin(), all.end(), [](const object_info& a, const object_info& b) {
        return a.load != b.load ? a.load > b.load : a.id < b.id;
      });
      return all;
    }
    double cost(object_id) const override { return 100; }
    std::vector<contact> contacts(object_id) const override { return {}; }
    void move(object_id object, int to, std::function<void(bool)> done) override {
      const auto x = things.find(object);
      const bool goes = x != things.end() && !x->second.runs;
      if (goes) {
        of_.ranks[static_cast<std::size_t>(to)]->things.insert(*x);
        things.erase(x);
      }
      ++(goes ? of_.moved : of_.refused);
      of_.later.emplace(of_.now, [=] { done(goes); });
    }
    void after(double seconds, std::function<void()> what) override { of_.later.emplace(of_.now + seconds, what); }
    void fiber(std::function<void()> what) override { after(0, std::move(what)); }
    void enter(const std::function<void()>& what) override { what(); }
    std::uint64_t random(std::uint64_t n) noexcept override { return of_.numbers.below(n); }
    void place(object_id, int) override {}
    void note(std::string_view, double) override {}
    void post(int to, byte_buffer message) override { of_.messages.push_back({number_, to, std::move(message)}); }

    std::map<object_id, held_object> things;
    std::unique_ptr<policy> balancer;
    bool deaf = false;

  private:
    small_machine& of_;
    int number_;
  };
  struct message {
    int from, to;
    byte_buffer bytes;
  };

  // All objects on the last rank.
  small_machine(const std::string& policy, int size, int objects) {
    for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<one_rank>(*this, r));
    for (const auto& r : ranks) r->balancer = make_policy(policy, *r);
    for (int i = 1; i <= objects; ++i) ranks.back()->things[object_id(size - 1, static_cast<std::uint64_t>(i))] = {};
  }
  void tell(trigger why) {
    for (const auto& r : ranks)
      if (!r->deaf) r->balancer->dist_balance(why);
  }
  /// So many seconds. \param watch is called before each message. \return messages that were taken.
  int pass(double seconds, const std::function<void(const message&)>& watch = {}) {
    const double end = now + seconds;
    for (int taken = 0; taken < 10'000;) {
      if (!messages.empty()) {
        const message m = std::move(messages.front());
        messages.pop_front();
        if (watch) watch(m);
        one_rank& to = *ranks[static_cast<std::size_t>(m.to)];
        if (to.deaf) continue;
        ++taken;
        to.balancer->receive(m.from, m.bytes);
      } else if (!later.empty() && later.begin()->first <= end) {
        const auto next = later.begin();
        now = std::max(now, next->first);
        const auto what = std::move(next->second);
        later.erase(next);
        what();
      } else {
        now = end;
        return taken;
      }
    }
    ADD_FAILURE() << "does not come to rest";
    return 10'000;
  }
  std::vector<std::size_t> counts() const {
    std::vector<std::size_t> all;
    for (const auto& r : ranks) all.push_back(r->things.size());
    return all;
  }

  std::vector<std::unique_ptr<one_rank>> ranks;
  std::deque<message> messages;
  std::multimap<double, std::function<void()>> later;
  detail::random_numbers numbers{1};
  double now = 0;
  int moved = 0, refused = 0;
};

TEST(rounds, even_out) {
  for (const std::string& policy : round_policies)
    for (const int size : {2, 5, 12}) {
      small_machine m(policy, size, 10 * size);
      m.tell(trigger::start);
      m.pass(1);
      EXPECT_THAT(m.counts(), Each(AllOf(Ge(policy == "gossip" ? 8u : 10u), Le(policy == "gossip" ? 12u : 10u))))
          << policy << ' ' << size;
      EXPECT_EQ(m.refused, 0);
      // An idle rank now asks in vain, and less and less often: finally every 2.5 seconds.
      const int moved = m.moved;
      int messages = 0;
      for (int i = 0; i < 200; ++i) {
        m.tell(trigger::idle);
        messages += m.pass(0.05);
      }
      EXPECT_LE(m.moved, moved + 2) << policy << ' ' << size;
      EXPECT_LE(messages, (policy == "gossip" ? 250 : 40) * size) << policy << ' ' << size;
    }
}

TEST(rounds, wait_for_all_at_the_end_of_a_phase) {
  for (const std::string& policy : round_policies) {
    small_machine m(policy, 4, 40);
    m.ranks[0]->balancer->dist_balance(trigger::phase);
    m.ranks[1]->balancer->dist_balance(trigger::phase);
    m.ranks[3]->balancer->dist_balance(trigger::phase);
    m.pass(1);
    EXPECT_EQ(m.moved, 0) << policy;
    m.ranks[2]->balancer->dist_balance(trigger::phase); // it has heard of the round before
    m.pass(1);
    EXPECT_THAT(m.counts(), Each(AllOf(Ge(9u), Le(11u)))) << policy;
  }
}

TEST(rounds, give_up_ranks_that_do_not_answer) {
  for (const std::string& policy : round_policies) {
    small_machine m(policy, 6, 60);
    m.ranks[2]->deaf = true;
    for (int i = 0; i < 200; ++i) { // as long as this lasts, hardly anything happens
      m.tell(trigger::idle);
      m.tell(trigger::period);
      EXPECT_LE(m.pass(1), 50) << policy;
    }
    EXPECT_EQ(m.moved, 0) << policy;
    m.ranks[2]->deaf = false;
    m.tell(trigger::idle);
    m.pass(400); // twice as long as it had waited last
    EXPECT_GT(m.moved, 40) << policy;
    EXPECT_LE(m.pass(10'000), 200) << policy;
    // At the end of a phase there is no reason to wait: what is lost is lost.
    small_machine next(policy, 6, 60);
    next.ranks[2]->deaf = true;
    next.tell(trigger::phase);
    next.pass(1);
    EXPECT_EQ(next.moved, 0) << policy;
    next.ranks[2]->deaf = false;
    next.tell(trigger::phase);
    next.pass(1);
    EXPECT_GT(next.moved, 40) << policy;
  }
}

TEST(rounds, move_something_else_if_an_object_has_begun) {
  for (const std::string& policy : round_policies) {
    small_machine m(policy, 2, 20);
    int messages = 0;
    m.tell(trigger::start);
    m.pass(1, [&](const small_machine::message& first) { // five begin as soon as they have been reported
      if (first.from != 1 || messages++ > 0) return;
      int n = 0;
      for (auto& [id, x] : m.ranks[1]->things) x.runs = ++n <= 5;
    });
    EXPECT_THAT(m.counts(), Each(AllOf(Ge(8u), Le(12u)))) << policy;
    EXPECT_EQ(m.refused, 0) << policy;
  }
}

TEST(rounds, objects_may_vanish) {
  for (const std::string& policy : round_policies) {
    small_machine m(policy, 3, 30);
    int messages = 0;
    m.tell(trigger::start);
    m.pass(1, [&](const small_machine::message& first) {
      if (first.from == 2 && messages++ == 0) m.ranks[2]->things.clear();
    });
    EXPECT_EQ(m.moved, 0) << policy;
    m.ranks[0]->things[object_id(0, 1)] = {.load = 5}; // and the next round goes on from there
    m.ranks[0]->things[object_id(0, 2)] = {.load = 5};
    m.pass(100);
    m.tell(trigger::period);
    m.pass(1);
    EXPECT_EQ(m.moved, 1) << policy;
  }
}

TEST(rounds, refuse_what_cannot_be_right) {
  const auto garbage = [](policy& p, int from, std::initializer_list<int> bytes) {
    byte_buffer message;
    for (const int b : bytes) {
      const auto byte = static_cast<std::byte>(b);
      message.append(&byte, 1);
    }
    p.receive(from, message);
  };
  for (const std::string& policy : round_policies) {
    small_machine m(policy, 12, 12);
    EXPECT_THROW(garbage(*m.ranks[0]->balancer, 1, {}), error);
    EXPECT_THROW(garbage(*m.ranks[0]->balancer, 1, {200}), error);
    EXPECT_THROW(garbage(*m.ranks[0]->balancer, 1, {0, 1}), error);          // too short for a wish
    EXPECT_THROW(garbage(*m.ranks[3]->balancer, 9, {0, 0, 0, 0, 0}), error); // rank 9 is nowhere below rank 3
    EXPECT_NO_THROW(garbage(*m.ranks[3]->balancer, 9, {1, 1, 0, 0, 0, 0}));  // nor is it above: no round begins
    EXPECT_NO_THROW(garbage(*m.ranks[3]->balancer, 9, {2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})); // an unknown round
    EXPECT_EQ(m.pass(1), 0) << policy;
  }
}

} // namespace
} // namespace tern::balance
