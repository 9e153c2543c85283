// SPDX-License-Identifier: Apache-2.0
// The simulated transport by itself: heads and bodies, and space. The rest of it:
// simulate_test.cpp.
#include <tern/net/transport/sim/sim_job.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::sim {
namespace {

byte_buffer filled(std::size_t size, int with) {
  byte_buffer b(size);
  for (std::size_t i = 0; i < size; ++i) b[i] = static_cast<std::byte>(with + static_cast<int>(i));
  return b;
}

// One rank: sends `to_send` messages to the last rank as space comes, and receives.
struct rank_events final : event_source {
  polled poll() override {
    bool some = false;
    net::arrival a;
    while (end->receive(a)) {
      some = true;
      const int n = next[static_cast<std::size_t>(a.source)]++;
      wrong += a.head != filled(head_size(n), n) || a.body != filled(body_size(n), n);
      --*unread;
      // Some are kept, and come back in another order.
      if (n % 3 == 0) kept.push_back(std::move(a));
      if (kept.size() > 5) kept.erase(kept.begin() + n % 5);
      if (++received == expected) all.set_value();
    }
    return send() || some ? polled::something : polled::nothing;
  }
  bool send() {
    bool some = false;
    for (; sent < to_send; ++sent, some = true) {
      byte_buffer body = filled(body_size(sent), sent);
      if (!end->send(destination, filled(head_size(sent), sent).bytes(), body)) {
        wrong += body != filled(body_size(sent), sent);
        ++refused;
        return some;
      }
      wrong += !body.empty();
      most_unread = std::max(most_unread, ++*unread);
    }
    if (to_send > 0 && !told) told = true, all_sent.set_value();
    return some;
  }
  static std::size_t head_size(int n) { return static_cast<std::size_t>(n * 37 % 400); }
  static std::size_t body_size(int n) { return n % 4 == 1 ? static_cast<std::size_t>(n * 11 % 1000) : 0; }
  void wait(std::chrono::microseconds at_most) override { end->wait(at_most); }
  void wake() noexcept override { end->wake(); }

  std::unique_ptr<net::transport> end;
  int destination = 0, to_send = 0, sent = 0, refused = 0, expected = 0, received = 0, wrong = 0, most_unread = 0;
  int* unread = nullptr; // of all senders together
  bool told = false;
  std::vector<int> next;
  std::deque<net::arrival> kept;
  promise<void> all, all_sent;
};

scheduler::settings of(simulation& s, rank_events& e) {
  scheduler::settings settings;
  settings.events = &e;
  settings.simulation = &s;
  return settings;
}

struct result {
  std::uint64_t hash = 0;
  int refused = 0, most_unread = 0;
  double seconds = 0;
};

result stream(const world& w, int messages) {
  simulation s({.seed = w.seed, .preempt = w.preempt, .step_seconds = w.step});
  detail::sim_job job(w, s);
  const int last = w.ranks - 1;
  int unread = 0;
  std::vector<std::unique_ptr<rank_events>> ranks;
  std::vector<std::unique_ptr<scheduler>> schedulers;
  std::vector<simulation::member> members;
  for (int r = 0; r < w.ranks; ++r) {
    auto e = std::make_unique<rank_events>();
    e->end = job.end(r);
    e->unread = &unread;
    e->destination = last;
    e->next.resize(static_cast<std::size_t>(w.ranks));
    if (r == last && w.ranks > 1)
      e->expected = messages * last;
    else
      e->to_send = messages;
    if (w.ranks == 1) e->expected = messages;
    ranks.push_back(std::move(e));
    schedulers.push_back(std::make_unique<scheduler>(of(s, *ranks.back())));
    job.connect(r, *schedulers.back());
    rank_events* const mine = ranks.back().get();
    members.push_back({schedulers.back().get(), [mine] {
                         mine->end->wake(); // the events begin to send
                         if (mine->to_send > 0) mine->all_sent.get_future().get();
                         if (mine->expected > 0) mine->all.get_future().get();
                       }});
  }
  for (const auto& failure : s.run(members)) EXPECT_FALSE(failure);
  result r{s.trace_hash(), 0, 0, s.seconds()};
  for (const auto& e : ranks) {
    EXPECT_EQ(e->wrong, 0);
    EXPECT_EQ(e->received, e->expected);
    r.refused += e->refused;
    r.most_unread = std::max(r.most_unread, e->most_unread);
  }
  EXPECT_EQ(job.messages(), static_cast<std::uint64_t>(messages) * static_cast<std::uint64_t>(std::max(last, 1)));
  while (!ranks.empty()) { // as simulate.cpp: all before the job
    schedulers.pop_back();
    ranks.pop_back();
  }
  return r;
}

TEST(sim_job, heads_and_bodies_arrive_whole_and_in_order) {
  const result r = stream(parse_world("ranks=3,seed=5,faults=delay:reorder"), 500);
  EXPECT_EQ(r.refused, 0);
}

TEST(sim_job, room_is_limited_and_comes_back) {
  for (const int seed : {1, 2, 3}) {
    world w = parse_world("ranks=3,slots=4,faults=delay:reorder");
    w.seed = static_cast<std::uint64_t>(seed);
    const result r = stream(w, 500);
    EXPECT_GT(r.refused, 10);
    EXPECT_LE(r.most_unread, 8); // 4 of each of two senders
    const result again = stream(w, 500);
    EXPECT_EQ(again.hash, r.hash);
    EXPECT_EQ(again.seconds, r.seconds);
    w.slots = 0;
    EXPECT_LT(stream(w, 500).seconds, r.seconds) << "a message without room waits a latency and longer";
  }
}

TEST(sim_job, a_rank_without_room_for_itself) { stream(parse_world("ranks=1,slots=2"), 100); }

TEST(sim_job, urgent_messages_have_more_room) {
  const world w = parse_world("ranks=2,slots=3");
  simulation s({.seed = 1});
  detail::sim_job job(w, s);
  int unread = 0;
  rank_events ranks[2];
  for (int r = 0; r < 2; ++r) {
    ranks[r].end = job.end(r);
    ranks[r].next.resize(2);
    ranks[r].unread = &unread;
  }
  scheduler first(of(s, ranks[0])), second(of(s, ranks[1]));
  job.connect(0, first);
  job.connect(1, second);
  net::transport* const a = ranks[0].end.get();
  byte_buffer none;
  EXPECT_GE(a->head_limit(), 96u);
  EXPECT_TRUE(a->any_thread_sends());
  std::vector<simulation::member> members;
  members.push_back({&first, [&] {
                       const auto send = [&](bool urgent) { return a->send(1, filled(8, 0).bytes(), none, urgent); };
                       for (int i = 0; i < 3; ++i) EXPECT_TRUE(send(false));
                       EXPECT_FALSE(send(false));
                       for (int i = 0; i < 4; ++i) EXPECT_TRUE(send(true));
                       EXPECT_FALSE(send(true));
                     }});
  members.push_back({&second, [] {}});
  for (const auto& failure : s.run(members)) EXPECT_FALSE(failure);
  EXPECT_THROW(a->send(2, {}, none), error);
  EXPECT_THROW(a->send(1, filled(a->head_limit() + 1, 0).bytes(), none), error);
  EXPECT_EQ(unread, -7); // all that was taken was received
}

} // namespace
} // namespace tern::sim
