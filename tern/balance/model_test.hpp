// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A policy that does what a test says.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/balance/model.hpp>
#include <tern/balance/policy.hpp>

namespace tern::balance::model_test {

// What the policy of a test does.
class scripted;
struct script {
  std::function<void(scripted&, occasion)> balance;
  std::function<void(scripted&, object_id)> notified;
  std::function<void(scripted&, int from, int what)> got;
  std::function<bool(scripted&, int worker, const ready_object&)> push;
  std::function<object_id(scripted&, int worker)> pop;
};
inline script* playing = nullptr;

class scripted : public policy {
public:
  scripted(host& h, parameters&) : policy(h), rank(h) { on(&scripted::taken); }
  void dist_balance(occasion why) override {
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
  host& rank;

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

} // namespace tern::balance::model_test
