// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/sim/network_model.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber/sanitizer.hpp>

namespace tern::sim::detail {
namespace {

using ps = std::int64_t;
constexpr ps us = 1'000'000, ns = 1000, G = 100, L = us, gap = 50 * ns, hop = 100 * ns; // the defaults, in ps

struct modelled {
  std::unique_ptr<network> made;
  explicit modelled(const std::string& text) : made(make_network(parse_world(text))) {}
  /// Sent and received: for messages that reach their receiver's card in the order of the calls.
  ps operator()(int from, int to, std::size_t bytes, ps now = 0) {
    return made->receive(from, to, bytes, made->deliver(from, to, bytes, now));
  }

  /// Sent, to be received by `arrive`; in order, as the transport does it. The card is reached at
  /// `messages.back().at`.
  void send(int from, int to, std::size_t bytes, ps now = 0) {
    ps& end = ends[{from, to}];
    end = std::max(end, made->deliver(from, to, bytes, now));
    messages.push_back({from, to, bytes, end});
  }
  /// All that were sent are received, in the order of time. Their `at` is then when they are there.
  /// \return the last of these.
  ps arrive() {
    std::vector<message*> order;
    for (message& m : messages) order.push_back(&m);
    std::sort(order.begin(), order.end(), [](const message* a, const message* b) {
      return a->at != b->at ? a->at < b->at : a < b; // of one array: in the order of their calls
    });
    ps last = 0;
    for (message* m : order) last = std::max(last, m->at = made->receive(m->from, m->to, m->bytes, m->at));
    return last;
  }
  struct message {
    int from, to;
    std::size_t bytes;
    ps at;
  };
  std::vector<message> messages;
  std::map<std::pair<int, int>, ps> ends;
};

TEST(network, alone_as_in_log_gp) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{2}, std::size_t{1000}, std::size_t{1} << 30}) {
    modelled flat("ranks=2");
    EXPECT_EQ(flat(0, 1, bytes, 7), 7 + L + static_cast<ps>(bytes - 1) * G);
  }
  modelled flat("ranks=2");
  EXPECT_EQ(flat(0, 1, 0), L) << "no bytes as one";
  EXPECT_EQ(flat(0, 1, 1), gap + L) << "and its card was busy for the gap";
}

TEST(network, rates_that_are_no_whole_picoseconds) {
  modelled slow("ranks=2,bandwidth=3G");
  EXPECT_EQ(slow(0, 1, 3'000'000'001), L + 1'000'000 * us); // a second, not 1'000'000'000 roundings
  modelled fast("ranks=2,bandwidth=1e15,gap=0");
  EXPECT_EQ(fast(0, 1, 1'000'001), L + 1000);
}

TEST(network, ping_pong) {
  modelled flat("ranks=2");
  ps now = 0;
  for (int i = 0; i < 1000; ++i) now = flat(i % 2, 1 - i % 2, 101, now);
  EXPECT_EQ(now, 1000 * (L + 100 * G));
}

TEST(network, one_sender_is_bound_by_gap_and_by_bandwidth) {
  modelled small("ranks=2"), large("ranks=2");
  ps last = 0;
  for (int i = 0; i < 100; ++i) last = small(0, 1, 8);
  EXPECT_EQ(last, 99 * gap + L + 7 * G);
  for (int i = 0; i < 100; ++i) last = large(0, 1, 10'000);
  EXPECT_EQ(last, 99 * 10'000 * G + L + 9999 * G);
}

TEST(network, incast_is_bound_by_the_receiver) {
  modelled flat("ranks=17");
  for (int from = 1; from < 17; ++from) flat.send(from, 0, 10'000);
  for (const modelled::message& m : flat.messages) EXPECT_EQ(m.at, L + 9999 * G) << "all reach the card at once";
  EXPECT_EQ(flat.arrive(), L + 16 * 10'000 * G - G);
}

// Each rank sends to all others at once, beginning with its successor: no message need ever wait.
// `by_rank`: one rank after the other enters all its messages. Else all ranks enter their first
// one, then all their second one, …
ps all_to_all(modelled& n, int ranks, std::size_t bytes, bool by_rank) {
  for (int i = 0; i < ranks * (ranks - 1); ++i) {
    const int from = by_rank ? i / (ranks - 1) : i % ranks, step = 1 + (by_rank ? i % (ranks - 1) : i / ranks);
    n.send(from, (from + step) % ranks, bytes);
  }
  return n.arrive();
}

TEST(network, all_to_all_is_bound_by_the_cards_in_whatever_order_it_is_asked) {
  for (const int ranks : {2, 3, 16, 100}) {
    const ps best = (ranks - 1) * 10'000 * G + L - G;
    modelled by_rank("ranks=" + std::to_string(ranks)), by_step("ranks=" + std::to_string(ranks));
    EXPECT_EQ(all_to_all(by_rank, ranks, 10'000, true), best) << ranks;
    EXPECT_EQ(all_to_all(by_step, ranks, 10'000, false), best) << ranks;
  }
}

// The calls' times are ahead of the virtual time by all that one rank sends at once: a call each 50
// ns, a message let go each 2 us.
TEST(network, all_to_all_of_bursts_leaves_no_holes) {
  constexpr int ranks = 64;
  constexpr ps wide = 2 * us;
  modelled n("ranks=64,gap=2us");
  for (int from = 0; from < ranks; ++from)
    for (int step = 1; step < ranks; ++step) n.send(from, (from + step) % ranks, 8, step * 50 * ns);
  EXPECT_EQ(n.arrive(), 50 * ns + (ranks - 2) * wide + L + 7 * G);
}

TEST(network, who_comes_first_to_a_card_is_served_first) {
  modelled flat("ranks=4");
  for (int i = 0; i < 10; ++i) flat.send(0, 1, 100'000); // the card of 0 is busy for 100 us
  flat.send(0, 2, 10'000);
  flat.send(3, 2, 10'000);
  flat.send(3, 2, 10'000, 5 * us);
  flat.send(3, 2, 900'000, 10 * us);
  flat.arrive();
  const auto at = [&](std::size_t i) { return flat.messages[i].at; };
  EXPECT_EQ(at(11), L + 9999 * G) << "rank 2 has received nothing yet";
  EXPECT_EQ(at(12), 5 * us + L + 9999 * G);
  EXPECT_EQ(at(13), 10 * us + L + 899'999 * G);
  EXPECT_EQ(at(10), 100 * us + L + 9999 * G) << "sent first, the last to come: right after the long one";
}

TEST(network, a_card_serves_one_after_the_other) {
  modelled n("ranks=8,host=2");
  EXPECT_EQ(n.made->receive(2, 0, 1, 10 * us), 10 * us) << "free";
  EXPECT_EQ(n.made->receive(4, 1, 1, 10 * us), 10 * us + gap) << "the host's ranks share it";
  EXPECT_EQ(n.made->receive(0, 1, 1000, 10 * us), 10 * us) << "memory is no card";
  EXPECT_EQ(n.made->receive(1, 1, 1000, 10 * us), 10 * us);
  EXPECT_EQ(n.made->receive(6, 0, 1001, 10 * us + 100 * ns), 10 * us + 2 * gap + 1000 * G) << "its first byte waits";
  EXPECT_EQ(n.made->receive(6, 0, 1, 10 * us + 2 * gap + 1001 * G), 10 * us + 2 * gap + 1001 * G) << "free again";
  EXPECT_EQ(n.made->receive(6, 2, 1, 0), 0) << "another";
}

TEST(network, messages_in_memory) {
  modelled n("ranks=8,host=4");
  EXPECT_EQ(n(1, 2, 1001), L / 4 + 1000 * G);
  EXPECT_EQ(n(1, 3, 1), 1001 * G + L / 4) << "each sender copies one after the other";
  EXPECT_EQ(n(2, 2, 1), L / 4) << "to itself";
  EXPECT_EQ(n(1, 5, 1), L) << "copies do not touch the card";
  EXPECT_EQ(n(2, 6, 1), gap + L) << "which the host's ranks share";
  EXPECT_EQ(n(4, 0, 1), L);
}

TEST(network, fat_tree_counts_switches) {
  modelled n("ranks=64,topology=fat-tree:4:4:4");
  EXPECT_EQ(n(0, 3, 1), L + hop);
  EXPECT_EQ(n(5, 8, 1), L + 3 * hop);
  EXPECT_EQ(n(15, 16, 1), L + 5 * hop);
  EXPECT_EQ(n(63, 1, 1), L + 5 * hop);
  modelled hosts("ranks=64,host=4,topology=fat-tree:4:4");
  EXPECT_EQ(hosts(0, 3, 1), L / 4);
  EXPECT_EQ(hosts(0, 15, 1), L + hop);
  EXPECT_EQ(hosts(63, 16, 1), L + 3 * hop);
}

TEST(network, full_bisection_holds_nobody_up) {
  modelled n("ranks=256,topology=fat-tree:16:16");
  for (int round = 0; round < 3; ++round)
    for (int from = 0; from < 256; ++from)
      EXPECT_EQ(n(from, (from + 16) % 256, 100'000), round * 10 * us + L + 3 * hop + 10 * us - G);
}

TEST(network, tapered_uplinks_are_shared) {
  for (const auto& [taper, times] : {std::pair("1", 1), std::pair("0.5", 2), std::pair("0.25", 4)}) {
    modelled n(std::string("ranks=32,topology=fat-tree:16:2,taper=") + taper);
    for (int from = 0; from < 16; ++from) n.send(from, from + 16, 1'000'000);
    EXPECT_EQ(n.arrive(), times * 100 * us + L + 3 * hop - G) << taper;
  }
  // Down links as well: all of the others to one switch.
  modelled n("ranks=32,topology=fat-tree:8:4,taper=0.5");
  for (int from = 8; from < 32; ++from) n.send(from, from % 8, 1'000'000);
  EXPECT_EQ(n.arrive(), 3 * 2 * 100 * us + L + 3 * hop - G);
}

TEST(network, a_shared_uplink_halves_the_rate) {
  modelled n("ranks=4,topology=fat-tree:2:2,taper=0.5"); // two hosts, an uplink of one host's rate
  EXPECT_EQ(n(0, 2, 10'000), L + 3 * hop + 10'000 * G - G);
  EXPECT_EQ(n(1, 3, 10'000), L + 3 * hop + 20'000 * G - G);
  EXPECT_EQ(n(2, 0, 10'000), L + 3 * hop + 10'000 * G - G) << "the other direction is free";
}

TEST(network, dragonfly_counts_routers) {
  // Two hosts on each of four routers a group, nine groups; routers 0 to 3 have ports 0 and 1, 2
  // and 3, …
  modelled n("ranks=72,topology=dragonfly:2:4:2");
  ps now = 0;
  const auto hops = [&](int from, int to) {
    now += 1000 * us;
    return (n(from, to, 1, now) - now - L) / hop;
  };
  EXPECT_EQ(hops(0, 1), 1);
  EXPECT_EQ(hops(0, 2), 2);
  EXPECT_EQ(hops(0, 7), 2);
  // Group 0 reaches group 1 by port 0, router 0; group 1 reaches group 0 by port 7, router 3.
  EXPECT_EQ(hops(0, 8 + 6), 2);
  EXPECT_EQ(hops(0, 8 + 0), 3);
  EXPECT_EQ(hops(2, 8 + 6), 3);
  EXPECT_EQ(hops(2, 8 + 0), 4);
  EXPECT_EQ(hops(8 + 6, 0), 2) << "the way back is the same";
  // Group 7 to group 2: three further than eight, port 3, router 1; back 5 further, port 4, router
  // 2.
  EXPECT_EQ(hops(7 * 8 + 2, 2 * 8 + 4), 2);
  EXPECT_EQ(hops(7 * 8 + 0, 2 * 8 + 4), 3);
  EXPECT_EQ(hops(7 * 8 + 0, 2 * 8 + 0), 4);
  for (int from = 0; from < 72; ++from)
    for (int to = 0; to < 72; ++to)
      if (from != to) {
        const auto there = hops(from, to);
        EXPECT_EQ(there, hops(to, from));
        EXPECT_LE(there, from / 8 == to / 8 ? 2 : 4);
      }
}

TEST(network, dragonfly_shares_the_link_between_two_groups) {
  modelled n("ranks=72,topology=dragonfly:2:4:2");
  for (int i = 0; i < 8; ++i) n.send(i, 8 + i, 1'000'000);
  const ps last = n.arrive();
  EXPECT_GE(last, 8 * 100 * us + L + 2 * hop - G);
  EXPECT_LE(last, 8 * 100 * us + L + 4 * hop + 100 * us);
  EXPECT_EQ(n(20, 28, 1) - L, 4 * hop) << "others are not concerned";
}

TEST(network, dragonfly_with_room_left) {
  modelled n("ranks=5,topology=dragonfly:1:2:1000000"); // group 0: 0, 1; group 1: 2, 3; group 2: 4
  EXPECT_EQ(n(0, 1, 1), L + 2 * hop);
  EXPECT_GE(n(0, 4, 1), L + 2 * hop);
  EXPECT_LT(n.made->memory(), 10'000u);
}

const char* const worlds[] = {
    "ranks=13",
    "ranks=24,host=5",
    "ranks=32,topology=fat-tree:4:8",
    "ranks=32,topology=fat-tree:4:2:4,taper=0.5",
    "ranks=9,topology=fat-tree:1:3:3,gap=0",
    "ranks=72,topology=dragonfly:2:4:2",
    "ranks=40,host=3,topology=dragonfly:1:2:4,gap=0,latency=0",
};

TEST(network, between_two_ranks_nothing_overtakes) {
  for (const char* text : worlds)
    for (unsigned seed = 0; seed < (tern::detail::sanitized ? 2 : 80); ++seed) { // no pointers, no threads
      const world w = parse_world(text);
      modelled n(text), same(text);
      std::mt19937_64 random(seed);
      ps now = 0;
      for (int i = 0; i < 10'000; ++i) {
        const auto ranks = static_cast<unsigned>(w.ranks);
        const int from = static_cast<int>(random() % ranks), to = static_cast<int>(random() % ranks);
        // Most small or empty, some large ones that they would like to overtake; bursts, pauses,
        // and clocks that lag.
        const std::size_t bytes = random() % 3 == 0 ? 0 : random() % (random() % 10 == 0 ? 1'000'000 : 200);
        if (random() % 4 == 0) now += static_cast<ps>(random() % (random() % 100 == 0 ? 1000 * us : us));
        const ps lag = std::min<ps>(now, static_cast<ps>(random() % us));
        n.send(from, to, bytes, now - lag);
        same.send(from, to, bytes, now - lag);
        const ps at = n.messages.back().at;
        ASSERT_GE(at,
                  now - lag + (from / w.network.host == to / w.network.host ? L / 4 : L) * (w.network.latency != 0));
      }
      const std::vector<modelled::message> reached = n.messages;
      n.arrive();
      same.arrive();
      std::map<std::pair<int, int>, ps> last;
      for (std::size_t i = 0; i < reached.size(); ++i) {
        const modelled::message& m = n.messages[i];
        ASSERT_GE(m.at, reached[i].at);
        ps& before = last[{m.from, m.to}];
        ASSERT_GE(m.at, before) << text << ", seed " << seed << ", message " << i;
        before = m.at;
        ASSERT_EQ(m.at, same.messages[i].at) << "the same each time";
      }
    }
}

TEST(network, serves_no_faster_than_a_card_can) {
  for (const char* text : worlds) {
    const world w = parse_world(text);
    modelled n(text);
    std::mt19937_64 random(1);
    std::size_t sum = 0;
    for (int i = 0; i < 1000; ++i) { // all to host 0, calls in no order
      const std::size_t bytes = random() % 100'000;
      const int from = w.network.host + static_cast<int>(random() % static_cast<unsigned>(w.ranks - w.network.host));
      sum += bytes;
      n.send(from, 0, bytes);
    }
    EXPECT_GE(n.arrive(), static_cast<ps>(sum - 1) * G) << text;
  }
}

TEST(network, nothing_runs_over) {
  constexpr std::size_t terabyte = 1'000'000'000'000;
  modelled one("ranks=2");
  for (int i = 1; i <= 1000; ++i) EXPECT_EQ(one(0, 1, terabyte), i * static_cast<ps>(terabyte) * G + L - G);
  constexpr ps never = ps{1} << 62;
  for (const char* text :
       {"ranks=27,bandwidth=1,latency=1000s,gap=1000s",
        "ranks=27,topology=fat-tree:3:3:3,taper=0.34,bandwidth=1,hop=1000s",
        "ranks=27,topology=dragonfly:1:3:3,bandwidth=1", "ranks=16,bandwidth=1,topology=fat-tree:1:1:1:1:1:1:1:1:1:16",
        "ranks=2,bandwidth=1e15", "ranks=4,host=2,bandwidth=1"}) {
    const world w = parse_world(text);
    modelled n(text);
    std::mt19937_64 random(1);
    for (int i = 0; i < 2000; ++i) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(w.ranks));
      const int to = static_cast<int>(random() % static_cast<unsigned>(w.ranks));
      const std::size_t bytes = random() % 4 == 0 ? std::numeric_limits<std::size_t>::max() : random() % (terabyte * 4);
      n.send(from, to, bytes, i < 1000 ? i : std::numeric_limits<ps>::max() - 2000 + i);
      ASSERT_LE(n.messages.back().at, never);
    }
    n.arrive();
    std::map<std::pair<int, int>, ps> last;
    for (const modelled::message& m : n.messages) {
      ASSERT_GE(m.at, (last[{m.from, m.to}])) << text;
      ASSERT_LE(m.at, never);
      last[{m.from, m.to}] = m.at;
    }
    EXPECT_LE(n.made->receive(0, 1, terabyte, std::numeric_limits<ps>::max()), never) << "later than never";
  }
}

TEST(network, memory_grows_with_ranks_and_links) {
  EXPECT_LT(modelled("ranks=1000000").made->memory(), 25'000'000u);
  EXPECT_LT(modelled("ranks=1000000,topology=fat-tree:32:32:32:32").made->memory(), 29'000'000u);
  EXPECT_LT(modelled("ranks=1000000,topology=dragonfly:23:46:23").made->memory(), 134'000'000u);
}

} // namespace
} // namespace tern::sim::detail
