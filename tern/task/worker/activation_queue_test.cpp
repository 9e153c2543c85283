// SPDX-License-Identifier: Apache-2.0
#include <tern/task/worker/activation_queue.hpp>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tern::detail {
namespace {

struct numbered final : activation {
  explicit numbered(int n, int priority = run_queue::normal) noexcept
      : activation([](activation&) noexcept {}, [](activation&) noexcept {}), number(n) {
    level = static_cast<std::uint8_t>(priority);
  }
  const int number;
};

int number_of(const activation* a) { return a ? static_cast<const numbered*>(a)->number : -1; }

TEST(activation_queue, the_most_urgent_come_first_and_of_those_the_oldest) {
  numbered late(1, run_queue::low), first(2), second(3), urgent(4, run_queue::high);
  activation_queue q;
  unsigned n = 0;
  for (numbered* a : {&late, &first, &second, &urgent}) EXPECT_EQ(q.push(a), ++n);
  EXPECT_TRUE(q.any(run_queue::soon));
  EXPECT_TRUE(q.any(run_queue::later));
  EXPECT_FALSE(q.any(run_queue::last));
  for (const int expected : {4, 2, 3, -1}) EXPECT_EQ(number_of(q.pop(run_queue::soon)), expected);
  EXPECT_EQ(q.count(), 1u);
  EXPECT_FALSE(q.any(run_queue::soon));
  EXPECT_EQ(number_of(q.pop(run_queue::all)), 1);
  EXPECT_EQ(q.count(), 0u);
  EXPECT_EQ(q.pop(run_queue::all), nullptr);
}

TEST(activation_queue, gives_the_older_half_and_one_at_least) {
  std::deque<numbered> all;
  for (int i = 0; i < 5; ++i) all.emplace_back(i);
  activation_queue from, to;
  EXPECT_EQ(from.give_half(to), nullptr);
  for (numbered& a : all) from.push(&a);
  EXPECT_EQ(number_of(from.give_half(to)), 0); // of three, two lie in `to`
  EXPECT_EQ(to.count(), 2u);
  EXPECT_EQ(from.count(), 2u);
  EXPECT_EQ(number_of(to.pop(run_queue::all)), 1);
  EXPECT_EQ(number_of(to.pop(run_queue::all)), 2);
  EXPECT_EQ(number_of(from.give_half(to)), 3);
  EXPECT_EQ(number_of(from.give_half(to)), 4);
  EXPECT_EQ(to.count() + from.count(), 0u);
}

TEST(activation_queue, each_is_taken_once_whoever_pushes_and_takes) {
  constexpr int each = 2000, threads = 4;
  std::deque<numbered> all;
  for (int i = 0; i < each * threads; ++i) all.emplace_back(i, i % 3);
  std::vector<std::atomic<int>> taken(all.size());
  activation_queue queues[2];
  std::atomic<int> left{each * threads};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      const auto take = [&](const activation* a) {
        if (!a) return;
        ++taken[static_cast<std::size_t>(number_of(a))];
        --left;
      };
      activation_queue &mine = queues[t % 2], &other = queues[1 - t % 2];
      for (int i = 0; i < each; ++i) {
        mine.push(&all[static_cast<std::size_t>(t * each + i)]);
        take(i % 3 == 0 ? other.give_half(mine) : mine.pop(run_queue::all));
      }
      while (left > 0) {
        take(mine.pop(run_queue::all));
        std::this_thread::yield();
      }
    });
  for (auto& t : running) t.join();
  for (const auto& n : taken) EXPECT_EQ(n, 1);
}

} // namespace
} // namespace tern::detail
