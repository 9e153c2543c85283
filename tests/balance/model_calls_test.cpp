// SPDX-License-Identifier: Apache-2.0
/// \file
/// When the model calls policies, and what it makes of wrong ones.

#include <algorithm>
#include <stdexcept>

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

TEST(model, what_runs_or_is_away_does_not_move) {
  std::vector<std::string> log;
  script s;
  s.balance = [&](scripted& p, trigger why) {
    if (p.rank.rank() != 0 || why != trigger::start) return;
    const auto tell = [&](const char* what) {
      return [&log, &p, what](bool good) {
        log.push_back(what + std::string(good ? " moved " : " stayed ") + std::to_string(p.rank.now()));
      };
    };
    const std::vector<object_info> all = p.rank.objects(); // 2, 1
    p.rank.after(0.5, [&p, tell, all] {
      EXPECT_FALSE(p.rank.objects()[1].movable);
      EXPECT_EQ(p.rank.objects()[1].pending, 1u);
      EXPECT_EQ(p.rank.objects()[1].ran, 0.5f);
      EXPECT_EQ(p.rank.objects()[0].ran, 0);
      p.rank.move(all[1].id, 1, tell("running"));
      p.rank.move(all[0].id, 0, tell("to itself"));
      p.rank.move(all[0].id, 1, tell("waiting"));
      p.rank.move(all[0].id, 1, tell("away"));
    });
    p.rank.after(1.5, [&p, tell, all] {
      EXPECT_TRUE(p.rank.objects()[0].movable); // it has ended
      EXPECT_EQ(p.rank.objects()[0].pending, 0u);
      EXPECT_EQ(p.rank.objects()[0].load, 0);
      p.rank.move(all[1].id, 1, tell("ended"));
    });
  };
  model_settings m = free_network();
  m.latency = 0.25;
  const model_result r = play(work(2, 1, {{0, 1}, {0, 2}}), s, m);
  EXPECT_THAT(log, ElementsAre("running stayed 0.500000", "to itself moved 0.500000", "away stayed 0.500000",
                               "waiting moved 1.000000", "ended moved 2.000000"));
  EXPECT_EQ(r.makespan, 2.75);
  EXPECT_EQ(r.moves, 2u);
  EXPECT_EQ(r.failed, 2u);
}

TEST(model, a_policy_that_throws_is_left_out) {
  for (const char* where : {"balance", "notify", "message", "timer", "done", "fiber", "push"}) {
    const auto at = [where](const char* here) {
      if (std::string(where) == here) throw std::runtime_error("oh dear");
    };
    bool failed = false;
    script s;
    s.balance = [&](scripted& p, trigger why) {
      EXPECT_FALSE(failed);
      failed = std::string(where) == "balance";
      at("balance");
      if (why != trigger::start || p.rank.rank() != 1) return;
      p.say(1, 1);
      p.rank.after(0.1, [=] { at("timer"); });
      p.rank.fiber([=, &p] { p.rank.enter([=] { at("fiber"); }); });
      p.move(3, 1, [=](bool) { at("done"); });
    };
    s.notified = [&](scripted&, object_id) { at("notify"); };
    s.got = [&](scripted&, int, int) { at("message"); };
    s.push = [&](scripted&, int, const ready_object&) {
      at("push");
      return false;
    };
    const model_result r = play(work(2, 1, {{0, 1}, {0, 2}, {1, 1}}), s);
    EXPECT_THAT(r.error, AllOf(HasSubstr("policy 'test-scripted' on rank "), HasSubstr("oh dear"))) << where;
    EXPECT_EQ(r.makespan, 3) << where;
  }
  script s;
  s.balance = [](scripted& p, trigger) { p.say(7, 1); };
  EXPECT_THAT(play(work(2, 1, {{0, 1}}), s).error, HasSubstr("rank 7"));
  s.balance = [](scripted& p, trigger) { p.rank.move(object_id(0, 5), 1); };
  EXPECT_THAT(play(work(2, 1, {{0, 1}}), s).error, HasSubstr("0:5"));
  s.balance = [](scripted& p, trigger) { p.rank.place(p.rank.objects().at(0).id, 1); };
  EXPECT_THAT(play(work(1, 1, {{0, 1}}), s).error, HasSubstr("worker 1"));
  s.balance = [](scripted&, trigger) { throw 5; };
  EXPECT_THAT(play(work(1, 1, {{0, 1}}), s).error, HasSubstr("no std::exception"));
}

TEST(model, a_policy_that_does_not_come_to_rest_is_left_out) {
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (why == trigger::start && p.rank.rank() == 0) p.say(1, 0);
  };
  s.got = [](scripted& p, int from, int) { p.say(from, 0); };
  model_settings m;
  m.latency = 1e-3; // while there is work they may talk: 5,000 times here
  model_result r = play(work(2, 1, {{0, 10}}), s, m);
  EXPECT_EQ(r.error, "policy 'test-scripted' does not come to rest");
  EXPECT_EQ(r.makespan, 10);
  EXPECT_GT(r.messages, 9000u);

  r = play(work(2, 1, {{0, 10}}), s, free_network()); // time stands still
  EXPECT_EQ(r.error, "policy 'test-scripted' does not come to rest");
  EXPECT_EQ(r.makespan, 10);
}

TEST(model, contacts_are_both_ways_and_added_up) {
  workload w = work(2, 1, {{0, 1}, {1, 1}, {0, 1}, {1, 1}});
  w.links = {{0, 1, 20, 3}, {2, 0, 5, 1}, {1, 0, 100, 2}, {0, 0, 7, 7}};
  std::vector<contact> found;
  script s;
  s.balance = [&](scripted& p, trigger why) {
    if (why == trigger::start && p.rank.rank() == 0) found = p.rank.contacts(object_id(0, 1));
    EXPECT_EQ(p.rank.contacts(object_id(1, 4)).size(), 0u);
  };
  play(w, s);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].with, object_id(0, 3));
  EXPECT_EQ(found[0].where, 0);
  EXPECT_EQ(found[0].bytes, 5);
  EXPECT_EQ(found[1].with, object_id(1, 2));
  EXPECT_EQ(found[1].where, 1);
  EXPECT_EQ(found[1].bytes, 120);
  EXPECT_EQ(found[1].messages, 5u);
}

TEST(model, calls_for_balancing) {
  std::vector<std::string> log;
  script s;
  s.balance = [&](scripted& p, trigger why) {
    const char* const names[] = {"start", "period", "idle", "phase"};
    log.push_back(std::to_string(p.rank.rank()) + " " + names[static_cast<int>(why)] + " " +
                  std::to_string(p.rank.now()).substr(0, 4));
  };
  // Rank 0's second worker is idle at 1, its first at 2.5; rank 1 from the beginning.
  model_settings m;
  m.period = 1.2;
  play(work(2, 2, {{0, 2.5}, {0, 1}}), s, m);
  EXPECT_THAT(
      log, ElementsAre("0 start 0.00", "1 start 0.00", "1 idle 0.00", "0 idle 1.00", "0 period 1.20", "0 period 2.40"));
}

TEST(model, a_policy_that_is_not_apart_waits_for_a_worker) {
  std::vector<double> at;
  script s;
  s.balance = [&](scripted& p, trigger why) {
    if (why == trigger::start && p.rank.rank() == 1) p.rank.after(1, [&p] { p.say(0, 1); });
    if (why == trigger::start && p.rank.rank() == 0) p.rank.after(0.5, [&] { at.push_back(p.rank.now()); });
    if (why == trigger::period && p.rank.rank() == 0) at.push_back(p.rank.now());
  };
  s.got = [&](scripted& p, int, int) {
    at.push_back(p.rank.now());
    EXPECT_EQ(p.rank.ready(), 1u); // before the worker looks for what is next
    p.move(2, 1);
  };
  const workload w = work(2, 1, {{0, 2}, {0, 3}});
  model_settings m = free_network();
  m.period = 0;
  EXPECT_EQ(play(w, s, m).makespan, 4);
  EXPECT_THAT(at, ElementsAre(0.5, 1));
  at.clear();
  m.apart = false;
  EXPECT_EQ(play(w, s, m).makespan, 5);
  EXPECT_THAT(at, ElementsAre(2, 2));
  at.clear();
  m.period = 0.75;
  play(w, s, m);
  EXPECT_THAT(at, ElementsAre(2, 2, 2)); // the period once, though two have passed
}

TEST(model, a_policys_own_queue) {
  std::vector<object_id> stack;
  std::vector<std::uint64_t> ran;
  script s;
  s.push = [&](scripted&, int, const ready_object& x) {
    stack.push_back(x.id);
    return true;
  };
  s.pop = [&](scripted&, int) {
    if (stack.empty()) return object_id();
    const object_id x = stack.back();
    stack.pop_back();
    return x;
  };
  s.notified = [&](scripted&, object_id id) { ran.push_back(id.number()); };
  const workload w = work(1, 1, {{0, 1}, {0, 1}, {0, 1}});
  play(w, s);
  EXPECT_THAT(ran, ElementsAre(3, 2, 1));

  // What it does not give back at first, idle workers ask for again when it has been called.
  bool open = false;
  const auto pop = s.pop;
  s.pop = [&, pop](scripted& p, int worker) { return open ? pop(p, worker) : object_id(); };
  s.balance = [&](scripted& p, trigger why) {
    if (why == trigger::start) p.rank.after(5, [&] { open = true; });
  };
  EXPECT_EQ(play(w, s).makespan, 8);

  s.balance = {};
  open = false;
  try {
    play(w, s, {.period = 0});
    ADD_FAILURE();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::deadlock);
    EXPECT_THAT(e.message(), HasSubstr("3 invocations are left"));
  }
  s.pop = [](scripted&, int) { return object_id(0, 9); };
  EXPECT_THAT(play(w, s).error, HasSubstr("0:9"));
  s.pop = [](scripted& p, int) { return p.rank.load() == 3 ? object_id(0, 2) : object_id(0, 1); };
  s.balance = [](scripted&, trigger) {};
  EXPECT_EQ(play(w, s, {.most_seconds = 20}).makespan, 3);
}

TEST(model, placed_objects_run_on_their_worker) {
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (why != trigger::start) return;
    for (const object_info& x : p.rank.objects()) p.rank.place(x.id, x.id.number() == 3 ? 1 : 0);
  };
  EXPECT_THAT(play(work(1, 2, {{0, 1}, {0, 2}, {0, 4}}), s).busy, ElementsAre(3, 4));
}

TEST(model, notes_progress_and_samples) {
  std::vector<std::string> notes;
  std::vector<double> progress;
  model_settings m;
  m.on_note = [&](int rank, double at, std::string_view what, double value) {
    notes.push_back(std::to_string(rank) + " " + std::to_string(at).substr(0, 3) + " " + std::string(what) + " " +
                    std::to_string(value).substr(0, 3));
  };
  m.progress = [&](double done) { progress.push_back(done); };
  script s;
  s.balance = [](scripted& p, trigger why) {
    if (why == trigger::idle) p.rank.note("idle", 0.5);
  };
  const workload w = make({.placement = "clustered", .ranks = 5, .workers = 2, .variation = 0});
  const model_result r = play(w, s, m);
  EXPECT_EQ(notes.size(), 5u);
  EXPECT_EQ(notes[0], "1 358 idle 0.5");
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 1);
  EXPECT_THAT(r.over_time.size(), AllOf(testing::Ge(150u), testing::Le(300u)));
  EXPECT_DOUBLE_EQ(r.over_time[0].imbalance, 2.5 / 1.3);
  EXPECT_DOUBLE_EQ(r.over_time.back().imbalance, 5);
  for (std::size_t i = 1; i < r.over_time.size(); ++i) EXPECT_GT(r.over_time[i].at, r.over_time[i - 1].at);
}

} // namespace
} // namespace tern::balance
