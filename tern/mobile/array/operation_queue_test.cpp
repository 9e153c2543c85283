// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/array/operation_queue.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tern::mobile::detail {
namespace {

TEST(operation_queue, each_senders_come_in_order) {
  std::mt19937_64 random(7);
  for (int turn = 0; turn < 100; ++turn) {
    operation_queue queue;
    std::vector<std::pair<int, std::uint64_t>> all;
    for (int sender = 0; sender < 3; ++sender)
      for (std::uint64_t n = 0; n < 10; ++n) all.emplace_back(sender, n);
    std::shuffle(all.begin(), all.end(), random);
    std::vector<std::vector<std::uint64_t>> ran(3);
    std::size_t entered = 0;
    const std::size_t opens = random() % all.size();
    for (const auto& [sender, number] : all) {
      if (entered++ == opens) queue.open();
      queue.enter(sender, number, {},
                  [&ran, s = sender, n = number] { ran[static_cast<std::size_t>(s)].push_back(n); });
      if (entered <= opens) {
        EXPECT_TRUE(ran[0].empty() && ran[1].empty() && ran[2].empty()) << "it is not open";
      }
    }
    for (const auto& one : ran) {
      ASSERT_EQ(one.size(), 10u);
      EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
    }
    EXPECT_EQ(queue.describe(), "");
  }
}

// What an operation enters runs after it, not within.
TEST(operation_queue, one_after_the_other) {
  operation_queue queue;
  queue.open();
  std::string order;
  queue.enter({}, [&] {
    order += "a";
    queue.enter({}, [&] { order += "c"; });
    queue.enter(4, 1, {}, [&] { order += "e"; });
    queue.enter(4, 0, {}, [&] { order += "d"; });
    order += "b";
  });
  EXPECT_EQ(order, "abcde");
  queue.enter(4, 3, {}, [] {});
  EXPECT_EQ(queue.describe(), "of rank 4, operation 2 is due, and 1 after it have come");
}

// Then it begins anew.
TEST(operation_queue, that_is_closed_drops_what_waits_and_what_comes) {
  operation_queue queue;
  queue.open();
  std::string order;
  const auto note = [&](char what) { return [&order, what] { order += what; }; };
  queue.enter(4, 0, {}, note('a'));
  queue.enter(4, 2, {}, note('x'));
  queue.close();
  EXPECT_EQ(queue.describe(), "");
  queue.enter(4, 1, {}, note('x'));
  queue.enter({}, note('x'));
  queue.reopen();
  queue.enter(4, 1, {}, note('c'));
  queue.enter(4, 0, {}, note('b'));
  EXPECT_EQ(order, "abc");
}

} // namespace
} // namespace tern::mobile::detail
