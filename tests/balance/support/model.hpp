// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A policy that does what a test says, and machines drawn by lot for the others.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/balance/model.hpp>
#include <tern/balance/policies/shared/random.hpp>
#include <tern/balance/policy.hpp>

namespace tern::balance::model_test {

// What the policy of a test does.
class scripted;
struct script {
  std::function<void(scripted&, trigger)> balance;
  std::function<void(scripted&, object_id)> notified;
  std::function<void(scripted&, int from, int what)> got;
  std::function<bool(scripted&, int worker, const ready_object&)> push;
  std::function<object_id(scripted&, int worker)> pop;
};
inline script* playing = nullptr;

class scripted : public policy {
public:
  scripted(policy_context& h, parameters&) : policy(h), rank(h) { on(&scripted::taken); }
  void dist_balance(trigger why) override {
    if (playing->balance) playing->balance(*this, why);
  }
  void notify(object_id id) override {
    if (playing->notified) playing->notified(*this, id);
  }
  bool push(int worker, const ready_object& x) override { return playing->push && playing->push(*this, worker, x); }
  object_id pop(int worker) override { return playing->pop ? playing->pop(*this, worker) : object_id(); }
  bool wants_contacts() const noexcept override { return true; }
  void say(int to, int what) { send(to, what); }
  // The object's number: from 1, as in the workload.
  void move(std::uint64_t number, int to, std::function<void(bool)> done = {}) {
    for (const object_info& x : rank.objects())
      if (x.id.number() == number) return rank.move(x.id, to, std::move(done));
    ADD_FAILURE() << "no such object here: " << number;
  }
  policy_context& rank;

private:
  void taken(int from, const int& what) {
    if (playing->got) playing->got(*this, from, what);
  }
};
inline const registered_policy<scripted> entered("test-scripted", "does what the test says");

inline model_result play(const workload& w, script s, model_settings m = {}) {
  playing = &s;
  m.policy = "test-scripted";
  return run_model(w, m);
}

// Objects as {rank, seconds}.
inline workload work(int ranks, int workers, const std::vector<std::pair<int, double>>& objects, double bytes = 0) {
  workload w;
  w.ranks = ranks;
  w.workers = workers;
  for (const auto& [rank, seconds] : objects) w.objects.push_back({.rank = rank, .bytes = bytes, .seconds = {seconds}});
  return w;
}

inline model_settings free_network() {
  model_settings m;
  m.latency = m.overhead = 0;
  m.bandwidth = 1e18;
  return m;
}

/// The workload under the policy, which must not fail.
inline model_result run(const workload& w, const std::string& policy, model_settings m = {}) {
  m.policy = policy;
  model_result r = run_model(w, m);
  EXPECT_EQ(r.error, "") << policy;
  return r;
}

/// One small machine with a workload, drawn by lot, and what became of it with and without a
/// policy.
struct small_run {
  workload work;
  model_settings how;
  double alone = 0; ///< the makespan without a policy
  model_result result;
  std::string described;
};

/// Draws \p policies and machines of up to \p ranks ranks, TERN_BALANCE_SEEDS of them (default 200;
/// 5000 take half a minute). Fails unless each run does its work, all of it and once; \p more looks
/// at what else must hold. In the end each policy must have been of use; runs for which \p more
/// says false do not count for that.
inline void any_small_machine(std::initializer_list<std::string> policies, std::uint64_t ranks,
                              std::initializer_list<double> periods,
                              const std::function<bool(const small_run&)>& more) {
  const char* const given = std::getenv("TERN_BALANCE_SEEDS");
  const std::uint64_t seeds = given ? std::strtoull(given, nullptr, 10) : 200;
  std::map<std::string, double> shares;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    detail::random_numbers random(seed);
    const auto any = [&](const auto& all) { return *(all.begin() + random.below(all.size())); };
    const auto one_of = [&]<class T>(std::initializer_list<T> all) { return any(all); };
    const auto upto = [&](std::uint64_t n) { return 1 + static_cast<int>(random.below(n)); };
    const synthetic s{.placement = one_of({"literature", "clustered", "pareto", "burst", "slow", "talk", "rare"}),
                      .ranks = upto(ranks),
                      .workers = upto(5),
                      .per_worker = upto(12),
                      .phases = upto(3),
                      .seed = seed};
    small_run r{.work = make(s)};
    r.how.seed = seed;
    r.how.order = one_of({"fifo", "lifo", "heavy", "locality", "plan"});
    r.how.delay = one_of({0.0, 1e-3, 1.0});
    r.how.fails = one_of({0.0, 0.1});
    r.how.apart = one_of({true, false});
    r.how.period = any(periods);
    const std::string policy = any(policies);
    r.described = policy + " seed " + std::to_string(seed) + " " + s.placement + " " + std::to_string(s.ranks) +
                  " ranks " + r.how.order;
    r.how.policy = "none";
    r.alone = run_model(r.work, r.how).makespan;
    r.how.policy = policy;
    r.result = run_model(r.work, r.how);
    ASSERT_EQ(r.result.error, "") << r.described;
    double work = 0;
    const double busy = std::accumulate(r.result.busy.begin(), r.result.busy.end(), 0.0);
    for (const workload::object& x : r.work.objects) work = std::accumulate(x.seconds.begin(), x.seconds.end(), work);
    ASSERT_GE(busy, 0.999999 * work) << r.described;
    ASSERT_LE(busy, (r.work.slow.empty() ? 1.01 : 4.01) * work) << r.described;
    ASSERT_EQ(r.result.phase_ends.size(), r.work.phases()) << r.described;
    const bool counts = more(r);
    if (testing::Test::HasFatalFailure()) return;
    if (counts) shares[policy.substr(0, policy.find(':'))] += r.result.makespan / r.alone - 0.95;
  }
  for (const auto& [policy, share] : shares) EXPECT_LT(share, 0) << policy << " is hardly better than nothing";
}

} // namespace tern::balance::model_test
