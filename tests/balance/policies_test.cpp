// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policies that act while work goes on, in the model; those that work in rounds:
/// round_policies_test.cpp.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/balance/support/model.hpp"
#include <tern/balance/model.hpp>
#include <tern/balance/policies/shared/transfer_planner.hpp>
#include <tern/balance/policy.hpp>
#include <tern/base/error.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::balance {
namespace {

using model_test::any_small_machine;
using model_test::run;
using model_test::small_run;
using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> all_policies = {"diffusion", "steal", "hierarchical", "master-worker"};

model_settings planned(std::uint64_t seed = 1) {
  model_settings m;
  m.order = "plan";
  m.seed = seed;
  return m;
}

// Without them 1.35 and 1.9.
TEST(asynchronous, all_ranks_end_at_about_the_same_time) {
  const std::map<std::string, double> most = {
      {"diffusion", 1.04}, {"steal", 1.07}, {"hierarchical", 1.06}, {"master-worker", 1.05}};
  for (const char* placement : {"literature", "clustered"}) {
    for (const auto& [ranks, workers] : {std::pair{10, 31}, {30, 10}}) {
      if (tern::detail::sanitized && ranks > 10) continue; // twice as long, and no other code
      const workload w = make({.placement = placement, .ranks = ranks, .workers = workers});
      for (const auto& [policy, ratio] : most) {
        const model_result r = run(w, policy, planned());
        const std::string of = policy + " " + placement + " " + std::to_string(ranks);
        EXPECT_LE(r.makespan / w.bound(), ratio) << of;
        EXPECT_LE(r.most_moves, 6u) << of;
        EXPECT_LE(r.returns, r.moves / 100) << of;
        EXPECT_LE(static_cast<double>(r.messages), 5 * r.makespan * ranks)
            << of << ": messages for each rank and second";
        EXPECT_LE(r.moves, w.objects.size() * 6 / 10) << of;
      }
    }
  }
}

// The heaviest first leaves ranks less even, but they need no plan.
TEST(asynchronous, any_order_will_do) {
  const workload w = make({.placement = "literature", .ranks = 12, .workers = 12});
  for (const char* order : {"fifo", "lifo", "heavy", "locality"}) {
    if (tern::detail::sanitized && order[0] == 'f') continue;
    model_settings m;
    m.order = order;
    for (const std::string& policy : all_policies) {
      EXPECT_LE(run(w, policy, m).makespan, 1.2 * w.bound()) << policy << " " << order;
    }
  }
}

// Whatever the loads: hardly ever worse than nothing, and much better where something can be done.
TEST(asynchronous, other_loads) {
  const std::map<std::string, double> most = {
      {"pareto", 1.01}, {"burst", 1.1}, {"slow", 1.15}, {"rare", 1.01}, {"talk", 1.1}};
  for (const auto& [placement, ratio] : most) {
    const workload w =
        make({.placement = placement, .ranks = 12, .workers = 12, .phases = placement == "burst" ? 3 : 1});
    const double alone = run(w, "none", planned()).makespan;
    for (const std::string& policy : all_policies) {
      const model_result r = run(w, policy, planned());
      EXPECT_LE(r.makespan, 1.001 * alone) << policy << " " << placement;
      EXPECT_LE(r.makespan, ratio * w.bound()) << policy << " " << placement;
    }
  }
}

// A program with short invocations: it ends long before the period (1 s) could have an effect.
TEST(asynchronous, short_invocations) {
  const workload w = make({.placement = "clustered", .ranks = 12, .workers = 4, .per_worker = 60, .seconds = 1e-3});
  for (const std::string& policy : all_policies) {
    const double ratio = run(w, policy, planned()).makespan / w.bound();
    EXPECT_LE(ratio, 1.25) << policy << "; 1.9 without";
  }
}

TEST(asynchronous, the_same_each_time) {
  const workload w = make({.placement = "talk", .ranks = 12, .workers = 4, .per_worker = 6, .phases = 2});
  model_settings m = planned(3);
  m.delay = 0.5;
  m.fails = 0.1;
  for (const std::string& policy : all_policies) {
    const model_result a = run(w, policy, m), b = run(w, policy, m);
    EXPECT_EQ(a.makespan, b.makespan) << policy;
    EXPECT_EQ(a.moves, b.moves) << policy;
    EXPECT_EQ(a.messages, b.messages) << policy;
    EXPECT_EQ(a.message_bytes, b.message_bytes) << policy;
    EXPECT_EQ(a.events, b.events) << policy;
  }
}

TEST(asynchronous, a_single_rank_needs_none) {
  const workload w = make({.placement = "literature", .ranks = 1, .workers = 3, .phases = 2});
  for (const std::string& policy : all_policies) EXPECT_EQ(run(w, policy).messages, 0u) << policy;
}

// One rank has all, many have never had anything.
TEST(asynchronous, all_on_one_rank) {
  workload w = make({.placement = "literature", .ranks = 1, .workers = 64, .per_worker = 10});
  w.ranks = 16;
  w.workers = 4;
  for (const std::string& policy : all_policies)
    EXPECT_LE(run(w, policy, planned()).makespan, 1.25 * w.bound()) << policy << "; 16 without";
}

TEST(asynchronous, no_work_at_all) {
  workload w = make({.placement = "literature", .ranks = 8, .workers = 2});
  for (workload::object& x : w.objects) x.seconds = {0, 0};
  for (const std::string& policy : all_policies) EXPECT_EQ(run(w, policy).moves, 0u) << policy;
}

TEST(asynchronous, hierarchy_of_several_levels) {
  const workload w = make({.placement = "clustered", .ranks = 64, .workers = 7});
  EXPECT_LE(run(w, "hierarchical:group=4", planned()).makespan, 1.15 * w.bound());
  EXPECT_LE(run(w, "hierarchical:group=2,slower=1", planned()).makespan, 1.25 * w.bound());
}

TEST(asynchronous, refuse_wrong_parameters) {
  for (const std::string& policy : all_policies) {
    EXPECT_NO_THROW(check_policy(policy + ":moves=2,hold=5ms"));
    for (const char* wrong : {":moves=0", ":hold=soon", ":arity=4", ":slack=-1"})
      EXPECT_THROW(check_policy(policy + wrong), error) << policy << wrong;
  }
  EXPECT_NO_THROW(check_policy("diffusion:limit=2,neighbours=8,tries=1,slack=0.1,rest=1ms"));
  EXPECT_NO_THROW(check_policy("steal:early=0,share=1,victims=2,lifelines=3,slack=0,rest=1"));
  EXPECT_NO_THROW(check_policy("hierarchical:group=8,slower=4,slack=0.05,batch=1ms"));
  EXPECT_NO_THROW(check_policy("master-worker:threshold=2,change=0.5,batch=1ms"));
}

TEST(asynchronous, any_small_machine) {
  any_small_machine({"diffusion", "steal", "hierarchical", "master-worker", "hierarchical:group=2",
                     "hierarchical:group=3,slower=1", "diffusion:neighbours=1,tries=1", "steal:victims=1,lifelines=1"},
                    9, {0.0, 1.0, 10.0}, [](const small_run& x) {
                      const auto phases = static_cast<double>(x.work.phases());
                      const double makespan = x.result.makespan;
                      EXPECT_LE(x.result.most_moves, 3 * (1 + makespan / 300)) << x.described; // for each `hold`
                      // A phase ends when all messages have come to rest.
                      const bool first_things_first = x.how.order == "heavy" || x.how.order == "plan";
                      EXPECT_LE(makespan, (first_things_first ? 1.1 : 1.35) * x.alone + x.how.delay * 15 * phases)
                          << x.described;
                      // In a second, and in what is left when nothing moves any more.
                      EXPECT_LE(static_cast<double>(x.result.messages), (20 * makespan + 400 * phases) * x.work.ranks)
                          << x.described;
                      return true;
                    });
}

// What one rank gives to another
// -----------------------------------------------------------------------------------

struct thing {
  object_id id;
  double load = 1;
  bool movable = true;
};

/// A rank of two workers, both of which run something that takes 10 more seconds.
class small_rank final : public policy_context {
public:
  explicit small_rank(std::vector<double> loads) {
    for (const double load : loads) things.push_back({object_id(0, things.size() + 1), load});
  }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 4; }
  int workers() const noexcept override { return 2; }
  double now() const noexcept override { return time; }
  double pace() const noexcept override { return 1; }
  double load() const noexcept override { return waiting() + std::accumulate(runs.begin(), runs.end(), 0.0); }
  double waiting() const noexcept override {
    double all = 0;
    for (const thing& x : things) all += x.load;
    return all;
  }
  std::size_t ready() const noexcept override { return things.size(); }
  std::vector<double> running() const override { return runs; }
  std::vector<object_info> objects() const override {
    std::vector<object_info> all;
    for (const thing& x : things) all.push_back({.id = x.id, .load = x.load, .pending = 1, .movable = x.movable});
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.load != b.load ? a.load > b.load : a.id < b.id; });
    return all;
  }
  double cost(object_id) const override { return 0; }
  std::vector<contact> contacts(object_id) const override { return {}; }
  void move(object_id id, int, std::function<void(bool)> done) override {
    std::erase_if(things, [&](const thing& x) { return x.id == id; });
    moves.push_back(std::move(done));
  }
  void after(double, std::function<void()>) override {}
  void fiber(std::function<void()>) override {}
  void enter(const std::function<void()>&) override {}
  std::uint64_t random(std::uint64_t) noexcept override { return 0; }
  void place(object_id, int) override {}
  void note(std::string_view, double) override {}
  void post(int, byte_buffer) override {}

  std::vector<thing> things;
  std::vector<double> runs = {10, 10};
  std::vector<std::function<void(bool)>> moves;
  double time = 0;
};

detail::load_report other(double ahead, std::uint32_t ready, std::uint32_t idle = 0) {
  detail::load_report s;
  s.ahead = s.ends = ahead;
  s.rate = 0.5;
  s.each = 5;
  s.workers = 2;
  s.ready = ready;
  s.idle = idle;
  return s;
}

std::vector<double> loads(const std::vector<object_info>& objects) {
  std::vector<double> all;
  for (const object_info& x : objects) all.push_back(x.load);
  return all;
}

TEST(transfer_planner, how_a_rank_stands) {
  small_rank h({8, 4, 4, 4});
  const detail::transfer_planner g(h, 100, 3);
  const detail::load_report s = g.mine();
  EXPECT_EQ(s.ahead, 20); // 40 for two workers
  EXPECT_EQ(s.ends, 22);  // 8 + 4 and 4 + 4 after the 10
  EXPECT_EQ(s.rate, 0.5);
  EXPECT_EQ(s.each, 5);
  EXPECT_EQ(s.ready, 4u);
  EXPECT_EQ(s.idle, 0u);
  EXPECT_EQ(g.ends_with(4, 4), 22); // fills the gap
  EXPECT_TRUE(g.short_of(2.1));
  EXPECT_FALSE(g.short_of(2));
  h.things.clear();
  h.runs = {0, 3};
  EXPECT_EQ(g.mine().idle, 1u);
  EXPECT_EQ(g.mine().ends, 3);
}

TEST(transfer_planner, so_much_that_both_end_together) {
  small_rank h({9, 9, 9, 9, 9, 9, 9, 9, 3, 3, 3, 3});
  const detail::transfer_planner g(h, 100, 3);
  EXPECT_EQ(g.mine().ahead, 52);
  EXPECT_EQ(detail::evens_out(g.mine(), other(30, 20)), 22);
  // The heaviest that fit, and then what comes nearest: 24 would make this the poorer one.
  EXPECT_THAT(loads(g.choose(1, other(30, 20), 100)), ElementsAre(9, 9, 3));
  EXPECT_THAT(loads(g.choose(1, other(30, 20), 12)), ElementsAre(9, 3));
  // One that is itself short of light ones.
  detail::load_report heavy = other(30, 20);
  heavy.each = 30;
  EXPECT_THAT(loads(g.choose(1, heavy, 12)), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(g.choose(1, other(60, 20), 100), IsEmpty());
}

TEST(transfer_planner, nothing_that_would_end_later_there) {
  small_rank h({9, 9, 9, 9});
  const detail::transfer_planner g(h, 100, 3);
  EXPECT_EQ(g.mine().ends, 28);
  // It has nothing else: there the 9 would begin when it has done all that it has.
  EXPECT_THAT(g.choose(1, other(17, 0), 100), IsEmpty());
  EXPECT_THAT(loads(g.choose(1, other(10, 0), 100)), ElementsAre(9, 9));
  // As many as it has idle workers.
  EXPECT_THAT(loads(g.choose(1, other(0, 0, 2), 100)), ElementsAre(9, 9, 9));
  // Its workers are four times as slow.
  detail::load_report slow = other(0, 0, 2);
  slow.rate = 2;
  EXPECT_THAT(g.choose(1, slow, 100), IsEmpty());
}

TEST(transfer_planner, only_what_can_move) {
  small_rank h({9, 9, 9, 9, 9, 9});
  h.things[0].movable = h.things[2].movable = false;
  const detail::transfer_planner g(h, 100, 3);
  for (const object_info& x : g.choose(1, other(0, 0, 2), 100)) EXPECT_TRUE(x.id.number() != 1 && x.id.number() != 3);
}

TEST(transfer_planner, none_goes_where_it_has_been) {
  small_rank h({9, 9, 9, 9, 9, 9, 9, 9});
  detail::transfer_planner g(h, 100, 3);
  std::vector<detail::migrating_object> came;
  for (std::size_t i = 0; i < 7; ++i) came.push_back({h.things[i].id, {1}});
  g.coming({came});
  // Only the last has not been on rank 1.
  EXPECT_THAT(g.choose(1, other(0, 0, 2), 100), testing::SizeIs(1));
  EXPECT_GT(g.choose(2, other(0, 0, 2), 100).size(), 2u);
  const detail::announced told = g.announce(g.choose(2, other(0, 0, 2), 100));
  ASSERT_GT(told.objects.size(), 1u);
  EXPECT_EQ(told.objects[0].id.number(), 8u) << "what has not moved goes first";
  EXPECT_THAT(told.objects[0].left, ElementsAre(0));
  EXPECT_THAT(told.objects[1].left, ElementsAre(1, 0));
  h.time = 101;
  EXPECT_GT(g.choose(1, other(0, 0, 2), 100).size(), 2u);
}

TEST(transfer_planner, none_moves_for_ever) {
  small_rank h({9, 9, 9, 9, 9, 9});
  detail::transfer_planner g(h, 100, 2);
  std::vector<detail::migrating_object> came;
  for (const thing& x : h.things) came.push_back({x.id, {2, 3}});
  g.coming({came});
  EXPECT_THAT(g.choose(1, other(0, 0, 2), 100), IsEmpty());
  g.forget();
  EXPECT_FALSE(g.choose(1, other(0, 0, 2), 100).empty());
}

TEST(transfer_planner, what_cannot_move_is_not_tried_again) {
  small_rank h({9, 9, 9, 9, 9, 9});
  detail::transfer_planner g(h, 100, 3);
  const std::vector<object_info> chosen = g.choose(1, other(0, 0, 2), 100);
  ASSERT_GT(chosen.size(), 1u);
  const std::vector<thing> before = h.things;
  std::vector<detail::settled> said;
  g.move(chosen, 1, 17, [&](const detail::settled& s) { said.push_back(s); });
  ASSERT_EQ(h.moves.size(), chosen.size());
  h.things.push_back(before[chosen[0].id.number() - 1]);
  for (std::size_t i = 0; i < h.moves.size(); ++i) {
    EXPECT_THAT(said, IsEmpty());
    h.moves[i](i > 0);
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].number, 17u);
  EXPECT_EQ(said[0].moved, chosen.size() - 1);
  EXPECT_EQ(said[0].failed, 1u);
  for (const object_info& x : g.choose(2, other(0, 0, 2), 100)) EXPECT_NE(x.id, chosen[0].id);
  g.move({}, 1, 18, [&](const detail::settled& s) { said.push_back(s); });
  EXPECT_EQ(said.back().number, 18u);
  EXPECT_EQ(said.back().moved, 0u);
}

// Five of 30 for two workers: one of these will work 90, the other 60, and 75 would be fair.
TEST(transfer_planner, what_cannot_be_divided_well) {
  small_rank h({30, 30, 30, 30, 30});
  h.runs = {0.1, 0.1};
  const detail::transfer_planner g(h, 100, 3);
  EXPECT_NEAR(g.mine().ahead, 75.1, 1e-9);
  EXPECT_NEAR(g.mine().ends, 90.1, 1e-9);
  EXPECT_TRUE(detail::uneven(g.mine(), other(70, 30), 1));
  EXPECT_FALSE(detail::uneven(g.mine(), other(85, 30), 1));
  EXPECT_THAT(loads(g.choose(1, other(60, 30), 0)), ElementsAre(30));
  // There it would disturb as much as here.
  EXPECT_THAT(g.choose(1, other(70, 0), 0), IsEmpty());
}

} // namespace
} // namespace tern::balance
