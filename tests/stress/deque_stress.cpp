// SPDX-License-Identifier: Apache-2.0
/// \file
/// The split deque alone: one owner that pushes and pops, thieves that steal, ask and force. Each
/// tasklet must come out exactly once.
#include <tern/task/tasklet/split_deque.hpp>
#include <tern/task/wait/waiting.hpp>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/tasklet/tasklet.hpp>

#include "stress.hpp"

namespace {

using tern::detail::asymmetric_barrier;
using tern::detail::split_deque;
using tern::detail::tasklet;

struct mark : tasklet {
  std::atomic<int> taken{0};
};

// `fill`: how many are in the deque before the owner begins to pop. Few: every pop meets thieves at
// the split.
void storm(bool fenceless, int thieves, int fill, int rounds, unsigned seed) {
  const asymmetric_barrier barrier(asymmetric_barrier::available(fenceless));
  const auto deque = std::make_unique<split_deque>(barrier.usable());
  deque->reserve(); // before others use it
  std::vector<mark> marks(static_cast<std::size_t>(rounds));
  std::atomic<bool> done{false};
  std::atomic<int> taken{0};
  const auto take = [&](tasklet* t) {
    EXPECT_EQ(static_cast<mark*>(t)->taken.fetch_add(1), 0) << "taken twice";
    taken.fetch_add(1);
  };
  std::vector<std::thread> all;
  for (int i = 0; i < thieves; ++i)
    all.emplace_back([&, i] {
      std::mt19937 random(seed + static_cast<unsigned>(i));
      tasklet* stolen[split_deque::most_stolen];
      while (!done.load() || deque->has_public()) {
        for (unsigned k = 0, n = deque->steal(stolen); k < n; ++k) take(stolen[k]);
        if (random() % 4 == 0)
          if (const auto v = deque->prepare_force()) {
            barrier();
            deque->force(v);
          }
        if (random() % 8 == 0) std::this_thread::yield();
      }
    });
  std::mt19937 random(seed * 31);
  int next = 0, popped = 0;
  const auto pop = [&] {
    bool sure = false, published = false;
    tasklet* t = deque->pop_fast(sure);
    if (!sure) t = deque->pop_slow(true, published);
    if (t) {
      take(t);
      ++popped;
    }
    return t != nullptr;
  };
  while (next < rounds) {
    const int burst = 1 + static_cast<int>(random() % static_cast<unsigned>(fill));
    for (int k = 0; k < burst && next < rounds && deque->size() < split_deque::high_watermark; ++k)
      if (deque->push(&marks[static_cast<std::size_t>(next++)]) && deque->wanted()) deque->publish();
    const int out = static_cast<int>(random() % static_cast<unsigned>(fill + 1));
    for (int k = 0; k < out; ++k)
      if (!pop()) break;
    if (random() % 64 == 0) // the owner in a long body: only `force` gets at what is private
      for (int spin = 0; spin < 200; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  while (pop()) {
  }
  done.store(true);
  for (auto& t : all) t.join();
  EXPECT_EQ(taken.load(), rounds);
  EXPECT_GT(popped, 0);
}

TEST(deque, each_tasklet_comes_out_once) {
  stress::repeat(stress::some(40), [](int round) {
    for (const bool fenceless : {true, false})
      for (const int fill : {1, 2, 3, 20, 200})
        storm(fenceless, 1 + round % 3, fill, stress::some(20'000), static_cast<unsigned>(round + 1));
  });
}

} // namespace
