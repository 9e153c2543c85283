// SPDX-License-Identifier: Apache-2.0
#include <tern/task/tasklet/split_deque.hpp>

#include <gtest/gtest.h>

#include <tern/task/tasklet/tasklet.hpp>

namespace tern::detail {
namespace {

tasklet* pop(split_deque& deque) {
  bool sure = false, published = false;
  tasklet* const t = deque.pop_fast(sure);
  return sure ? t : deque.pop_slow(false, published);
}

// As workers do: see `worker_base::push`. Returns whether thieves got something.
bool push(split_deque& deque, tasklet& t) { return deque.push(&t) && deque.wanted() && deque.publish(); }

class deque : public testing::TestWithParam<bool> {};

TEST_P(deque, takes_its_memory_after_the_first_push) {
  split_deque d(GetParam());
  EXPECT_EQ(pop(d), nullptr);
  EXPECT_EQ(pop(d), nullptr);
  EXPECT_FALSE(d.publish()) << "there is nothing";
  tasklet some[200];
  for (int round = 0; round < 3; ++round) {
    // No thief has asked. Where `want` is never unset, each push publishes.
    for (tasklet& t : some) EXPECT_EQ(push(d, t), !GetParam());
    EXPECT_EQ(d.size(), 200u);
    for (int i = 199; i >= 0; --i) EXPECT_EQ(pop(d), &some[i]);
    EXPECT_EQ(pop(d), nullptr);
    EXPECT_EQ(d.size(), 0u);
  }
}

TEST_P(deque, that_has_its_memory_is_as_one_that_takes_it_later) {
  split_deque d(GetParam());
  d.reserve();
  tasklet some[3];
  for (tasklet& t : some) EXPECT_EQ(push(d, t), !GetParam());
  d.reserve(); // again
  d.ask();
  tasklet last;
  EXPECT_TRUE(push(d, last)) << "a thief has asked";
  tasklet* stolen[split_deque::most_stolen];
  EXPECT_GT(d.steal(stolen), 0u);
  EXPECT_EQ(stolen[0], &some[0]);
}

INSTANTIATE_TEST_SUITE_P(barriers, deque, testing::Bool());

} // namespace
} // namespace tern::detail
