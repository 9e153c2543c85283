// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport.hpp>

#include <atomic>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>

namespace tern::net {
namespace {

byte_buffer number(int value) {
  byte_buffer b(sizeof value);
  std::memcpy(b.data(), &value, sizeof value);
  return b;
}
int number(const byte_buffer& b) {
  int value = 0;
  std::memcpy(&value, b.data(), sizeof value);
  return value;
}

TEST(inproc, refuses_no_ranks_and_unknown_ranks) {
  EXPECT_THROW(make_inproc(0), error);
  auto ends = make_inproc(2);
  EXPECT_EQ(ends[1]->rank(), 1);
  EXPECT_EQ(ends[1]->size(), 2);
  try {
    ends[0]->send(2, number(1));
    FAIL();
  } catch (const error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("there is no rank 2"));
    EXPECT_THAT(e.what(), testing::HasSubstr("ranks are 0 to 1"));
  }
}

TEST(inproc, all_to_all_in_order_with_sleeping_receivers) {
  constexpr int ranks = 4, each = 5000;
  auto ends = make_inproc(ranks);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      transport& me = *ends[static_cast<std::size_t>(r)];
      int next[ranks] = {}, got = 0;
      const auto receive = [&](int source, byte_buffer m) {
        wrong += number(m) != next[source]++;
        ++got;
      };
      for (int i = 0; i < each; ++i)
        for (int to = 0; to < ranks; ++to) me.send(to, number(i));
      while (got < ranks * each)
        if (me.poll(receive) == 0) me.wait(std::chrono::seconds(10));
      me.finish();
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(inproc, a_wake_before_the_wait_is_not_lost) {
  auto ends = make_inproc(1);
  const double start = steady_seconds();
  ends[0]->wake();
  ends[0]->wait(std::chrono::seconds(20));
  EXPECT_LT(steady_seconds() - start, 10);       // it did not sleep to the end
  ends[0]->wait(std::chrono::microseconds(100)); // used up: sleeps, and returns by itself
}

} // namespace
} // namespace tern::net
