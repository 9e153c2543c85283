// SPDX-License-Identifier: Apache-2.0
#include <tern/net/sim_world.hpp>

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_world(text);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_option) << text;
    EXPECT_FALSE(e.hint().empty()) << text;
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

// Whether two worlds are the same, to the last bit of each number.
void expect_equal(const world& a, const world& b, const std::string& text) {
  SCOPED_TRACE(text);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.workers, b.workers);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.preempt, b.preempt);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.network.latency, b.network.latency);
  EXPECT_EQ(a.network.overhead, b.network.overhead);
  EXPECT_EQ(a.network.gap, b.network.gap);
  EXPECT_EQ(a.network.bandwidth, b.network.bandwidth);
  EXPECT_EQ(a.network.topology, b.network.topology);
  EXPECT_EQ(a.network.taper, b.network.taper);
  EXPECT_EQ(a.network.hop, b.network.hop);
  EXPECT_EQ(a.network.host, b.network.host);
  EXPECT_EQ(a.network.jitter, b.network.jitter);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.faults.delay, b.faults.delay);
  EXPECT_EQ(a.faults.reorder, b.faults.reorder);
  ASSERT_EQ(a.faults.slow.size(), b.faults.slow.size());
  for (std::size_t i = 0; i < a.faults.slow.size(); ++i) {
    EXPECT_EQ(a.faults.slow[i].rank, b.faults.slow[i].rank);
    EXPECT_EQ(a.faults.slow[i].factor, b.faults.slow[i].factor);
  }
  ASSERT_EQ(a.faults.pause.size(), b.faults.pause.size());
  for (std::size_t i = 0; i < a.faults.pause.size(); ++i) {
    EXPECT_EQ(a.faults.pause[i].rank, b.faults.pause[i].rank);
    EXPECT_EQ(a.faults.pause[i].at, b.faults.pause[i].at);
    EXPECT_EQ(a.faults.pause[i].seconds, b.faults.pause[i].seconds);
  }
  ASSERT_EQ(a.faults.crash.size(), b.faults.crash.size());
  for (std::size_t i = 0; i < a.faults.crash.size(); ++i) {
    EXPECT_EQ(a.faults.crash[i].rank, b.faults.crash[i].rank);
    EXPECT_EQ(a.faults.crash[i].at, b.faults.crash[i].at);
  }
}

TEST(sim_world, reads_every_word) {
  const world w = parse_world("ranks=256,workers=4,seed=18446744073709551615,preempt=0.5,step=1us,latency=1.5us,"
                              "overhead=0,gap=20ns,bandwidth=12.5G,topology=fat-tree:16:8,taper=0.5,hop=0s,host=2,"
                              "jitter=0,slots=17,faults=delay:reorder=5us:slow=3@7.5:pause=1@2ms+1e+1us:crash=3@2ms");
  EXPECT_EQ(w.ranks, 256);
  EXPECT_EQ(w.workers, 4);
  EXPECT_EQ(w.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(w.preempt, 0.5);
  EXPECT_EQ(w.step, 1e-6);
  EXPECT_EQ(w.network.latency, 1.5e-6);
  EXPECT_EQ(w.network.overhead, 0);
  EXPECT_EQ(w.network.gap, 20e-9);
  EXPECT_EQ(w.network.bandwidth, 12.5e9);
  EXPECT_EQ(w.network.topology, "fat-tree:16:8");
  EXPECT_EQ(w.network.taper, 0.5);
  EXPECT_EQ(w.network.hop, 0);
  EXPECT_EQ(w.network.host, 2);
  EXPECT_EQ(w.network.jitter, 0);
  EXPECT_EQ(w.slots, 17);
  EXPECT_EQ(w.faults.delay, default_delay);
  EXPECT_EQ(w.faults.reorder, 5e-6);
  ASSERT_EQ(w.faults.slow.size(), 1u);
  EXPECT_EQ(w.faults.slow[0].rank, 3);
  EXPECT_EQ(w.faults.slow[0].factor, 7.5);
  ASSERT_EQ(w.faults.pause.size(), 1u);
  EXPECT_EQ(w.faults.pause[0].at, 2e-3);
  EXPECT_EQ(w.faults.pause[0].seconds, 10e-6);
  ASSERT_EQ(w.faults.crash.size(), 1u);
  EXPECT_EQ(w.faults.crash[0].rank, 3);
  EXPECT_EQ(w.faults.crash[0].at, 2e-3);
}

TEST(sim_world, what_faults_leave_out_the_seed_chooses) {
  const world w = parse_world("ranks=9,faults=slow:slow=2:slow=@3:pause:pause=4:pause=@0:pause=+1s:pause=4@1s:crash:"
                              "crash=8:crash=@5ns");
  ASSERT_EQ(w.faults.slow.size(), 3u);
  EXPECT_EQ(w.faults.slow[0].rank, -1);
  EXPECT_EQ(w.faults.slow[0].factor, 0);
  EXPECT_EQ(w.faults.slow[1].rank, 2);
  EXPECT_EQ(w.faults.slow[2].rank, -1);
  EXPECT_EQ(w.faults.slow[2].factor, 3);
  ASSERT_EQ(w.faults.pause.size(), 5u);
  EXPECT_EQ(w.faults.pause[1].rank, 4);
  EXPECT_EQ(w.faults.pause[1].at, -1);
  EXPECT_EQ(w.faults.pause[2].at, 0);
  EXPECT_EQ(w.faults.pause[3].at, -1);
  EXPECT_EQ(w.faults.pause[3].seconds, 1);
  EXPECT_EQ(w.faults.pause[4].seconds, -1);
  ASSERT_EQ(w.faults.crash.size(), 3u);
  EXPECT_EQ(w.faults.crash[2].at, 5e-9);
  expect_equal(parse_world(to_string(w)), w, to_string(w));
}

TEST(sim_world, on_top_of_a_base) {
  const world base = parse_world("ranks=4,latency=5us,faults=delay:crash=1");
  EXPECT_EQ(parse_world("", base).network.latency, 5e-6);
  const world w = parse_world("ranks=8,faults=reorder", base);
  EXPECT_EQ(w.ranks, 8);
  EXPECT_EQ(w.network.latency, 5e-6);
  EXPECT_EQ(w.faults.delay, 0);
  EXPECT_TRUE(w.faults.crash.empty());
  EXPECT_EQ(parse_world("faults=none", base).faults.delay, 0);
  EXPECT_THROW(parse_world("ranks=1", base), error) << "its crash names rank 1";
}

TEST(sim_world, texts) {
  EXPECT_EQ(to_string({}), "ranks=1,seed=1");
  for (const char* text : {"ranks=256,workers=4,seed=7,topology=fat-tree:16:16,faults=delay:reorder:crash=3@2ms",
                           "ranks=2,seed=0,latency=1.5us,overhead=0s,gap=1ns,bandwidth=12.5G,hop=1.25ms",
                           "ranks=2,seed=1,bandwidth=1M,faults=delay=1s:reorder=20us:slow=1:pause=0@1s+1us",
                           "ranks=64,seed=1,bandwidth=1.5k,topology=dragonfly:2:4:2,host=8,jitter=0.125,slots=1",
                           "ranks=8,seed=1,latency=123.456us,bandwidth=17,topology=fat-tree:8,taper=0.3"})
    EXPECT_EQ(to_string(parse_world(text)), text);
}

TEST(sim_world, units_are_powers_of_ten_of_the_text_not_of_the_number) {
  for (int i = 1; i < 5000; ++i) {
    const std::string digits = std::to_string(i);
    EXPECT_EQ(parse_world("latency=" + digits + "ns").network.latency, std::stod(digits + "e-9"));
    EXPECT_EQ(parse_world("latency=0." + digits + "us").network.latency, std::stod("0." + digits + "e-6"));
    EXPECT_EQ(parse_world("latency=" + digits + "e-3ms").network.latency, std::stod(digits + "e-6"));
  }
}

TEST(sim_world, random_worlds_come_back) {
  std::mt19937_64 random(42);
  const auto real = [&](double least, double most) { // evenly over magnitudes; sometimes a bound
    const double u = std::uniform_real_distribution<double>(0, 1)(random);
    if (random() % 8 == 0) return random() % 2 ? least : most;
    const double low = std::max(least, 1e-15);
    return std::min(most, std::max(low, low * std::pow(most / low, u)));
  };
  for (int i = 0; i < 3000; ++i) {
    world w;
    w.ranks = 1 + static_cast<int>(random() % 500);
    w.workers = 1 + static_cast<int>(random() % 64);
    w.seed = random();
    w.preempt = real(0, 0.99);
    w.step = real(1e-9, 0.1);
    network_settings& n = w.network;
    for (double* time : {&n.latency, &n.overhead, &n.gap, &n.hop}) *time = real(0, 1000);
    n.bandwidth = real(1, 1e15);
    n.jitter = real(0, 100);
    n.host = 1 + static_cast<int>(random() % 8);
    w.slots = static_cast<int>(random() % 3 * (random() % 500'000));
    if (random() % 2)
      n.topology = "fat-tree:32:16", n.taper = real(0.04, 1);
    else if (random() % 2)
      n.topology = "dragonfly:4:8:4";
    w.faults.delay = real(0, 1000);
    w.faults.reorder = real(0, 1000);
    const auto moment = [&] { return random() % 2 ? -1 : real(0, 1e6); };
    for (int r = -1; r < w.ranks; r += 1 + static_cast<int>(random() % 100)) {
      if (w.ranks > 3 && random() % 2) w.faults.slow.push_back({r, random() % 2 ? 0 : real(1, 1e6)});
      if (random() % 2) w.faults.pause.push_back({r, moment(), moment()});
      if (r >= 0 && random() % 2) w.faults.crash.push_back({r, moment()});
    }
    const std::string text = to_string(w);
    expect_equal(parse_world(text), w, text);
    EXPECT_EQ(to_string(parse_world(text)), text);
  }
}

TEST(sim_world, refusals_say_what_to_do) {
  EXPECT_THAT(refusal("latncy=5us"), AllOf(HasSubstr("there is no word \"latncy\""), HasSubstr("did you mean latency?"),
                                           HasSubstr("ranks, workers, apart, seed"), HasSubstr("faults")));
  EXPECT_THAT(refusal("latency=5"),
              AllOf(HasSubstr("latency cannot be \"5\""), HasSubstr("ns, us, ms or s"), HasSubstr("0s to 1000s")));
  EXPECT_THAT(refusal("ranks"), AllOf(HasSubstr("ranks has no value"), HasSubstr("a whole number from 1 to 1000000")));
  EXPECT_THAT(refusal("ranks=2,ranks=2"), HasSubstr("ranks is given twice"));
  EXPECT_THAT(refusal("ranks=2,,seed=3"), HasSubstr("an item is empty in \"ranks=2,,seed=3\""));
  EXPECT_THAT(refusal("topology=torus:3"), AllOf(HasSubstr("torus:3"), HasSubstr("dragonfly:P:A:H")));
  EXPECT_THAT(refusal("ranks=4,faults=crsh"), AllOf(HasSubstr("no fault \"crsh\""), HasSubstr("did you mean crash?"),
                                                    HasSubstr("delay, reorder, slow, pause, crash")));
  EXPECT_THAT(refusal("ranks=4,faults=crash=4"), AllOf(HasSubstr("crash names rank 4"), HasSubstr("ranks are 0 to 3")));
  EXPECT_THAT(refusal("ranks=4,faults=slow=1@0.5"), HasSubstr("from 1 to 1000000"));
  EXPECT_THAT(refusal("ranks=4,faults=delay:delay"), HasSubstr("delay is given twice"));
  EXPECT_THAT(refusal("ranks=4,faults=delay::slow"), HasSubstr("empty item"));
  EXPECT_THAT(refusal("ranks=4,faults=crash=2:crash=2@1s"), HasSubstr("names rank 2 twice"));
  EXPECT_THAT(refusal("ranks=2,faults=crash:crash:crash"), HasSubstr("3 times for 2 ranks"));
  EXPECT_THAT(refusal("ranks=129,topology=fat-tree:16:8"),
              AllOf(HasSubstr("room for 128 hosts"), HasSubstr("129 ranks need 129"), HasSubstr("host=")));
  EXPECT_THAT(refusal("ranks=73,topology=dragonfly:2:4:2"), HasSubstr("room for 72 hosts"));
  EXPECT_THAT(refusal("topology=fat-tree:2:4:2,taper=0.4"),
              AllOf(HasSubstr("taper=0.4"), HasSubstr("uplinks of level 1"), HasSubstr("slower than a network card")));
  EXPECT_NO_THROW(parse_world("topology=fat-tree:3:4,taper=0.3333333333333333"));
  EXPECT_THAT(refusal("taper=0.5"), HasSubstr("topology flat has no uplinks"));
  EXPECT_THAT(refusal("ranks=100000,topology=dragonfly:1:1:100000"), HasSubstr("more than 16000000 links"));
  EXPECT_THAT(refusal("topology=dragonfly:1000000:1000000:1000000"), HasSubstr("links"));
}

TEST(sim_world, room_is_counted_in_hosts) {
  EXPECT_NO_THROW(parse_world("ranks=256,host=2,topology=fat-tree:16:8"));
  EXPECT_THROW(parse_world("ranks=257,host=2,topology=fat-tree:16:8"), error);
  EXPECT_NO_THROW(parse_world("ranks=1000000,topology=fat-tree:1000000:1000000:1000000"));
}

TEST(sim_world, hostile_texts) {
  for (const char* text : {",",
                           "=",
                           "=1",
                           "ranks=",
                           "ranks=1,",
                           ",ranks=1",
                           " ranks=1",
                           "ranks =1",
                           "ranks= 1",
                           "ranks=1 ",
                           "ranks=0",
                           "ranks=-1",
                           "ranks=+1",
                           "ranks=1x",
                           "ranks=1.5",
                           "ranks=1e3",
                           "ranks=0x10",
                           "ranks=1000001",
                           "ranks=99999999999999999999999",
                           "ranks=4294967297",
                           "seed=-1",
                           "seed=18446744073709551616",
                           "seed=1.0",
                           "workers=0",
                           "apart=2",
                           "apart=1",
                           "workers=100000",
                           "preempt=1",
                           "preempt=-0",
                           "preempt=nan",
                           "preempt=inf",
                           "preempt=0x1p-3",
                           "preempt=0,5",
                           "preempt=.",
                           "preempt=e",
                           "preempt=1e",
                           "preempt=",
                           "step=0s",
                           "step=1s",
                           "latency=-1us",
                           "latency=nan",
                           "latency=nans",
                           "latency=infs",
                           "latency=1e999s",
                           "latency=1e99999999999999999999s",
                           "latency=1e-99999999999999999999ns",
                           "latency=1001s",
                           "latency=1us ",
                           "latency=1 us",
                           "latency=us",
                           "latency=s",
                           "latency=1uss",
                           "latency=1m",
                           "latency=1h",
                           "latency=1e",
                           "latency=1eus",
                           "latency=1e+us",
                           "latency=1e+-1us",
                           "latency=1e--1us",
                           "latency=1.2.3us",
                           "latency=1e2e3us",
                           "latency=1\xc2\xb5s",
                           "latency=\xd9\xa1us",
                           "bandwidth=0",
                           "bandwidth=0G",
                           "bandwidth=1T",
                           "bandwidth=1g",
                           "bandwidth=1GB",
                           "bandwidth=1e16",
                           "bandwidth=-1",
                           "bandwidth=",
                           "bandwidth=G",
                           "taper=0",
                           "taper=2",
                           "host=0",
                           "slots=-1",
                           "slots=1000001",
                           "slots=1.5",
                           "jitter=-1",
                           "jitter=101",
                           "hop=1e300s",
                           "topology=",
                           "topology=flat:1",
                           "topology=Flat",
                           "topology=fat-tree",
                           "topology=fat-tree:",
                           "topology=fat-tree:0",
                           "topology=fat-tree:-4",
                           "topology=fat-tree:4:",
                           "topology=fat-tree:4::4",
                           "topology=fat-tree:1.5",
                           "topology=fat-tree:99999999999",
                           "topology=fat-tree:2:2:2:2:2:2:2:2:2:2:2:2:2:2:2:2:2",
                           "topology=dragonfly",
                           "topology=dragonfly:1:1",
                           "topology=dragonfly:1:1:1:1",
                           "topology=dragonfly:1:0:1",
                           "faults=",
                           "faults=:",
                           "faults=delay=",
                           "faults=delay=1",
                           "faults=delay=-1s",
                           "faults=delay=2000s",
                           "faults=none:delay",
                           "faults=none=1",
                           "faults=crash=",
                           "faults=crash=@",
                           "faults=crash=-1",
                           "faults=crash=x",
                           "faults=crash=0@",
                           "faults=crash=0@1",
                           "faults=crash=0@1s+1s",
                           "faults=crash=0@2000000s",
                           "faults=crash=@@1s",
                           "faults=slow=0@",
                           "faults=slow=0@nan",
                           "faults=slow=0@0",
                           "faults=slow=0@2s",
                           "faults=slow=0@2+2",
                           "faults=slow=0@1e7",
                           "faults=pause=+",
                           "faults=pause=0@1s+",
                           "faults=pause=0+1s@1s",
                           "faults=pause=0@1s+1s+1s",
                           "faults=Crash",
                           "faults=crash,crash",
                           "\xff\xfe",
                           "ranks\xe2\x80\x8b=1",
                           "r\xc3\xa4nks=1"}) {
    const std::string what = refusal(text);
    EXPECT_LT(what.size(), 700u) << what;
  }
  EXPECT_THAT(refusal(std::string("ranks=1\0", 8)), HasSubstr("1\\x00"));
  EXPECT_THAT(refusal("ranks=\x1b[2J"), HasSubstr("\\x1b[2J"));
  EXPECT_LT(refusal("topology=" + std::string(1'000'000, ':')).size(), 500u);
  EXPECT_LT(refusal("latency=" + std::string(1'000'000, '9') + "s").size(), 500u);
  EXPECT_LT(refusal(std::string(1'000'000, ',')).size(), 500u);
  EXPECT_LT(refusal(std::string(100'000, 'x') + "=1").size(), 500u);
}

TEST(sim_world, random_texts_are_read_or_refused) {
  std::mt19937_64 random(7);
  const std::string seed = "ranks=9,seed=7,latency=1.5us,bandwidth=12.5G,topology=fat-tree:3:3,taper=0.5,"
                           "faults=delay:slow=1@2:pause=2@1ms+2ms:crash=3@2ms";
  const std::string letters = "0123456789.eE+-:,=@ GMkmnsu\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = seed;
    for (std::uint64_t changes = 1 + random() % 4; changes-- > 0;) {
      const std::size_t at = random() % text.size();
      const char letter = letters[random() % letters.size()];
      if (random() % 3 == 0)
        text[at] = letter;
      else if (random() % 2)
        text.insert(at, 1, letter);
      else
        text.erase(at, 1);
    }
    try {
      const world w = parse_world(text);
      expect_equal(parse_world(to_string(w)), w, text);
    } catch (const error& e) {
      ASSERT_EQ(e.code(), errc::invalid_option) << text;
    }
  }
}

TEST(sim_world, check_looks_at_worlds_that_no_text_made) {
  const auto refused = [](auto change) {
    world w;
    change(w);
    EXPECT_THROW(check(w), error);
  };
  EXPECT_NO_THROW(check({}));
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, inf, -1.0, -1e-300}) {
    refused([&](world& w) { w.network.latency = bad; });
    refused([&](world& w) { w.network.bandwidth = bad; });
    refused([&](world& w) { w.network.jitter = bad; });
    refused([&](world& w) { w.step = bad; });
    refused([&](world& w) { w.faults.delay = bad; });
    refused([&](world& w) { w.faults.slow = {{0, bad}}; });
    if (bad != -1) refused([&](world& w) { w.faults.pause = {{0, bad, 0}}; });
    if (bad != -1) refused([&](world& w) { w.faults.crash = {{0, bad}}; });
  }
  refused([](world& w) { w.ranks = 0; });
  refused([](world& w) { w.network.host = 0; });
  refused([](world& w) { w.slots = -1; });
  refused([](world& w) { w.network.topology = "star"; });
  refused([](world& w) { w.faults.crash = {{-2, 0}}; });
}

} // namespace
} // namespace tern::sim
