// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/model.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/balance/support/model.hpp"
#include <tern/base/error.hpp>

namespace tern::balance {
namespace {

using namespace model_test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(model, without_a_policy_each_rank_does_its_own) {
  const model_result r = run_model(work(2, 2, {{0, 1}, {0, 2}, {0, 4}, {1, 3}}), {});
  EXPECT_EQ(r.makespan, 5);
  EXPECT_THAT(r.busy, ElementsAre(5, 2, 3, 0));
  EXPECT_THAT(r.phase_ends, ElementsAre(5));
  EXPECT_EQ(r.moves + r.failed + r.messages, 0u);
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(run_model(work(2, 2, {{0, 1}, {0, 2}, {0, 4}}), {.order = "heavy"}).makespan, 4);
  EXPECT_EQ(run_model({}, {}).makespan, 0);
  EXPECT_EQ(run_model(work(2, 1, {{0, 0}, {1, 0}}), {}).makespan, 0);
}

TEST(model, an_object_travels_for_latency_and_bytes) {
  std::vector<std::string> log;
  const auto say = [&](scripted& p, const std::string& what) {
    log.push_back(std::to_string(p.rank.rank()) + " " + what + " " + std::to_string(std::llround(p.rank.now() * 1e3)));
  };
  script s;
  s.balance = [&](scripted& p, trigger why) {
    if (p.rank.rank() != 0 || why != trigger::start) return;
    EXPECT_EQ(p.rank.load(), 6);
    EXPECT_EQ(p.rank.waiting(), 6);
    EXPECT_EQ(p.rank.ready(), 3u);
    p.move(3, 1, [&](bool good) { say(p, good ? "moved" : "failed"); });
    EXPECT_EQ(p.rank.load(), 3);
    EXPECT_EQ(p.rank.objects().size(), 2u);
  };
  s.notified = [&](scripted& p, object_id id) { say(p, "notify " + to_string(id)); };
  const model_result r = play(work(2, 1, {{0, 1}, {0, 2}, {0, 3}}, 2e6), s, {.latency = 1e-3, .bandwidth = 1e9});
  EXPECT_THAT(log, ElementsAre("0 notify 0:3 0", "1 notify 0:3 3", "0 moved 4", "0 notify 0:1 1000",
                               "0 notify 0:2 3000", "1 notify 0:3 3003"));
  EXPECT_DOUBLE_EQ(r.makespan, 3.003);
  EXPECT_THAT(r.busy, ElementsAre(3, 3));
  EXPECT_EQ(r.moves, 1u);
  EXPECT_EQ(r.moved_bytes, 2e6);
  EXPECT_EQ(r.most_moves, 1u);
  EXPECT_EQ(r.returns, 0u);
}

TEST(model, the_card_sends_one_thing_at_a_time) {
  std::vector<double> arrived;
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (p.rank.rank() != 0 || why != trigger::start) return;
    p.move(2, 1);
    p.move(3, 1);
  };
  s.notified = [&](scripted& p, object_id) {
    if (p.rank.rank() == 1) arrived.push_back(p.rank.now());
  };
  play(work(2, 3, {{0, 1}, {0, 1}, {0, 1}}, 1e6), s, {.latency = 0.25, .bandwidth = 1e7});
  EXPECT_THAT(arrived, ElementsAre(0.35, 0.45, 1.35, 1.45));
}

TEST(model, messages_take_overheads_latency_and_bandwidth) {
  std::vector<double> at;
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (p.rank.rank() != 0 || why != trigger::start) return;
    p.say(1, 7);
    p.say(1, 8);
  };
  s.got = [&](scripted& p, int from, int what) {
    at.push_back(p.rank.now());
    if (p.rank.rank() == 1 && what == 7) p.say(1, 9); // to itself: overheads alone
    EXPECT_EQ(from, what == 9 ? 1 : 0);
  };
  // Five bytes each: 5 ms. The sender's core is free at 10 and 20 ms, its card at 15 and 25, they
  // arrive 100 ms later.
  const model_result r =
      play(work(2, 1, {{0, 1}}), s, {.latency = 0.1, .bandwidth = 1e3, .overhead = 0.01, .period = 0});
  // 115 + 10 and 125 + 10; the third is sent at 125, when the core works until 135, then until 145,
  // and until 155.
  EXPECT_THAT(at, ElementsAre(0.125, 0.135, 0.155));
  EXPECT_EQ(r.messages, 3u);
  EXPECT_EQ(r.message_bytes, 15);
}

TEST(model, a_busy_core_takes_messages_one_after_the_other) {
  std::vector<std::pair<int, double>> at;
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (why == trigger::start && p.rank.rank() > 0) p.say(0, 1);
  };
  s.got = [&](scripted& p, int from, int) { at.emplace_back(from, p.rank.now()); };
  model_settings m = free_network();
  m.latency = 1;
  m.overhead = 0.5;
  play(work(4, 1, {{0, 1}}), s, m);
  EXPECT_THAT(at, ElementsAre(std::pair(1, 2.0), std::pair(2, 2.5), std::pair(3, 3.0)));
}

TEST(model, moves_can_fail) {
  std::vector<double> back;
  script s;
  s.balance = [&](scripted& p, trigger why) {
    if (p.rank.rank() == 0 && why == trigger::start)
      p.move(2, 1, [&](bool good) {
        EXPECT_FALSE(good);
        back.push_back(p.rank.now());
      });
  };
  model_settings m = free_network();
  m.latency = 1;
  m.fails = 1;
  const model_result r = play(work(2, 2, {{0, 1}, {0, 4}}), s, m);
  EXPECT_THAT(back, ElementsAre(2));
  EXPECT_EQ(r.makespan, 6); // it runs where it was
  EXPECT_EQ(r.failed, 1u);
  EXPECT_EQ(r.moves, 0u);

  m.fails = 0.5;
  s.balance = [&](scripted& p, trigger why) {
    for (std::uint64_t i = 1; why == trigger::start && p.rank.rank() == 0 && i <= 1000; ++i) p.move(i, 1);
  };
  const model_result some = play(work(2, 2, std::vector<std::pair<int, double>>(1000, {0, 1})), s, m);
  EXPECT_EQ(some.moves + some.failed, 1000u);
  EXPECT_NEAR(static_cast<double>(some.failed), 500, 60);
  EXPECT_EQ(std::accumulate(some.busy.begin(), some.busy.end(), 0.0), 1000);
}

TEST(model, delayed_messages_stay_in_order_between_two_ranks) {
  std::vector<int> got[2];
  std::vector<double> at;
  script s;
  s.balance = [](scripted& p, trigger why) {
    for (int i = 0; why == trigger::start && p.rank.rank() < 2 && i < 100; ++i) p.say(2, i);
  };
  s.got = [&](scripted& p, int from, int what) {
    got[from].push_back(what);
    at.push_back(p.rank.now());
  };
  model_settings m = free_network();
  m.delay = 5;
  play(work(3, 1, {{0, 10}}), s, m);
  std::vector<int> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(got[0], all);
  EXPECT_EQ(got[1], all);
  EXPECT_GT(at.front(), 0);
  EXPECT_THAT(at.back(), AllOf(testing::Gt(4), testing::Le(5)));
}

// Idle ranks ask another at random for an object.
script beggars() {
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (why != trigger::idle) return;
    const auto others = static_cast<std::uint64_t>(p.rank.size() - 1);
    p.say((p.rank.rank() + 1 + static_cast<int>(p.rank.random(others))) % p.rank.size(), 1);
  };
  s.got = [](scripted& p, int from, int) {
    for (const object_info& x : p.rank.objects())
      if (x.movable && x.pending > 0) return p.rank.move(x.id, from);
  };
  return s;
}

TEST(model, same_seed_same_run) {
  const workload w = make({.ranks = 8, .workers = 4});
  const auto run = [&](std::uint64_t seed) { return play(w, beggars(), {.seed = seed, .delay = 1e-3, .fails = 0.1}); };
  const model_result a = run(3), b = run(3), c = run(4);
  EXPECT_EQ(a.busy, b.busy);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.moves, b.moves);
  EXPECT_EQ(a.failed, b.failed);
  EXPECT_GT(a.failed, 0u);
  EXPECT_GT(a.moves, 5u);
  EXPECT_NE(a.busy, c.busy);
  EXPECT_LT(a.makespan, run_model(w, {}).makespan);
  EXPECT_GE(a.makespan, w.bound());
}

TEST(model, idle_workers_help_with_tasklets) {
  workload w = work(1, 4, {{0, 8}});
  w.objects[0].tasklets = 4;
  model_result r = run_model(w, {});
  EXPECT_EQ(r.makespan, 2);
  EXPECT_THAT(r.busy, ElementsAre(2, 2, 2, 2));

  w.objects[0].tasklets = 1.5;
  EXPECT_NEAR(run_model(w, {}).makespan, 8 / 1.5, 1e-9);

  w = work(1, 2, {{0, 4}, {0, 1}}); // alone for a second, then two of them for the other three
  w.objects[0].tasklets = 8;
  r = run_model(w, {});
  EXPECT_EQ(r.makespan, 2.5);
  EXPECT_THAT(r.busy, ElementsAre(2.5, 2.5));

  // The first of two has the idle worker. It ends at 2; the second has done 2 of 4 until then, and
  // has two helpers.
  w = work(1, 3, {{0, 4}, {0, 4}});
  w.objects[0].tasklets = w.objects[1].tasklets = 3;
  r = run_model(w, {});
  EXPECT_NEAR(r.makespan, 2 + 2 / 3., 1e-8);
  EXPECT_NEAR(std::accumulate(r.busy.begin(), r.busy.end(), 0.0), 8, 1e-7);
}

TEST(model, phases_begin_when_all_is_at_rest) {
  workload w;
  w.ranks = 2;
  w.objects = {{.rank = 0, .bytes = 100, .seconds = {1, 1}},
               {.rank = 0, .bytes = 100, .seconds = {2, 2}, .device = {0.5, 0.25}},
               {.rank = 1, .bytes = 100, .seconds = {0, 3}}};
  w.links = {{0, 1, 1000, 0}, {0, 2, 10, 0}};
  std::vector<std::string> log;
  script s;
  s.balance = [&](scripted& p, trigger why) {
    if (why == trigger::phase)
      log.push_back(std::to_string(p.rank.rank()) + ": " + std::to_string(p.rank.load()) + " at " +
                    std::to_string(p.rank.now()));
    if (why != trigger::phase || p.rank.rank() != 0) return;
    const std::vector<object_info> all = p.rank.objects();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].load, 2);
    EXPECT_EQ(all[0].device, 0.5); // what it took in the phase that has ended
    EXPECT_EQ(all[0].pending, 0u);
    EXPECT_TRUE(all[0].movable);
    p.rank.move(all[0].id, 1);
    EXPECT_EQ(p.rank.load(), 1);
  };
  s.notified = [&](scripted& p, object_id id) {
    log.push_back(std::to_string(p.rank.rank()) + ": " + to_string(id) + " at " + std::to_string(p.rank.now()));
  };
  model_settings m = free_network();
  m.latency = 0.5;
  const model_result r = play(w, s, m);
  EXPECT_THAT(log,
              ElementsAre("0: 0:1 at 1.000000", "0: 0:2 at 3.000000", "0: 3.000000 at 3.000000", "0: 0:2 at 3.000000",
                          "1: 0.000000 at 3.000000", "1: 0:2 at 3.500000", "0: 0:1 at 3.500000", "1: 1:3 at 3.500000",
                          "1: 0:2 at 3.500000", "0: 0:1 at 4.500000", "1: 1:3 at 6.500000", "1: 0:2 at 8.500000"));
  EXPECT_THAT(r.phase_ends, ElementsAre(3, 8.5));
  EXPECT_EQ(r.makespan, 8.5);
  EXPECT_EQ(r.remote_bytes, 10 + 1010);
}

TEST(model, moves_of_a_phase_are_counted) {
  workload w = work(3, 1, {{0, 1}, {1, 9}});
  for (workload::object& x : w.objects) x.seconds.push_back(1);
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (p.rank.rank() == 0 && why == trigger::phase) p.move(1, 2);
    if (p.rank.rank() != 0 || why != trigger::idle) return;
    const auto id = p.rank.objects().empty() ? object_id() : p.rank.objects()[0].id;
    if (id && p.rank.now() < 2) p.rank.move(id, 1);
  };
  s.notified = [](scripted& p, object_id id) { // 0 → 1 → 0 → 2 → 0
    static int step = 0;
    const bool arrived = p.rank.now() > 1 && p.rank.now() < 9 && id.number() == 1 && p.rank.objects().size() > 0;
    if (!arrived || step == 3) return;
    for (const object_info& x : p.rank.objects())
      if (x.id == id && x.movable) p.rank.move(id, std::vector{0, 2, 0}[static_cast<std::size_t>(step++)]);
  };
  model_settings m = free_network();
  m.latency = 0.25;
  const model_result r = play(w, s, m);
  EXPECT_EQ(r.moves, 5u);
  EXPECT_EQ(r.most_moves, 4u);
  EXPECT_EQ(r.returns, 2u);
}

TEST(model, talk_with_another_rank_takes_the_senders_worker) {
  workload w = work(2, 1, {{0, 1}, {1, 1}, {0, 1}});
  w.links = {{0, 1, 2e6, 3}, {0, 2, 1e9, 1000}};
  model_settings m;
  m.bandwidth = 1e6;
  m.overhead = 0.125;
  const model_result r = run_model(w, m);
  EXPECT_THAT(r.busy, ElementsAre(1 + 2 + 0.375 + 1, 1));
  EXPECT_EQ(r.remote_bytes, 2e6);
}

TEST(model, slow_ranks) {
  workload w = work(2, 1, {{0, 1}, {1, 1}, {1, 2}});
  w.slow = {1, 4};
  double pace[2] = {}, first = 0;
  script s;
  s.balance = [&](scripted& p, trigger why) {
    if (why == trigger::start) first = p.rank.pace();
    if (why == trigger::idle) pace[p.rank.rank()] = p.rank.pace();
  };
  EXPECT_EQ(play(w, s).makespan, 12);
  EXPECT_EQ(first, 1);
  EXPECT_THAT(pace, ElementsAre(1, 4));
}

TEST(model, gives_up_when_it_is_late) {
  try {
    run_model(work(1, 1, {{0, 1}, {0, 5}}), {.most_seconds = 3});
    ADD_FAILURE();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::timeout);
    EXPECT_THAT(e.message(), HasSubstr("1 of 2 invocations"));
  }
}

TEST(model, what_cannot_be_is_refused) {
  const workload w = work(1, 1, {{0, 1}});
  const auto code = [&](const model_settings& m) {
    try {
      run_model(w, m);
    } catch (const error& e) {
      return e.code();
    }
    return errc::internal;
  };
  EXPECT_EQ(code({.policy = "nobody"}), errc::invalid_option);
  EXPECT_EQ(code({.policy = "none:x=1"}), errc::invalid_option);
  EXPECT_EQ(code({.order = "nothing"}), errc::invalid_option);
  EXPECT_EQ(code({.latency = -1}), errc::invalid_argument);
  EXPECT_EQ(code({.bandwidth = 0}), errc::invalid_argument);
  EXPECT_EQ(code({.fails = 2}), errc::invalid_argument);
  EXPECT_THROW(run_model(work(1, 1, {{0, 1e300}}), {}), error);
  EXPECT_THROW(run_model(work(1, 1, {{1, 1}}), {}), error);
}

} // namespace
} // namespace tern::balance
