// SPDX-License-Identifier: Apache-2.0
#include <tern/task/worker/handed_ring.hpp>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tern::detail {
namespace {

struct thing : handed {
  thing() : handed([](handed& x) noexcept { ++static_cast<thing&>(x).times; }) {}
  std::size_t number = 0;
  int times = 0;
};

void take_it(handed& x) noexcept { x.take(x); }

TEST(handed_ring, gives_what_was_written_in_order) {
  handed_ring ring(nullptr);
  std::array<thing, 3> all;
  EXPECT_FALSE(ring.any());
  for (thing& t : all) EXPECT_TRUE(ring.push(t));
  EXPECT_TRUE(ring.any());
  EXPECT_EQ(ring.written(), 3u);
  EXPECT_TRUE(ring.has_passed(0));
  EXPECT_FALSE(ring.has_passed(1));
  std::vector<handed*> taken;
  EXPECT_EQ(ring.take_all([&](handed& x) {
    EXPECT_FALSE(ring.has_passed(static_cast<std::uint32_t>(taken.size()) + 1)) << "before it has been taken";
    taken.push_back(&x);
  }),
            3u);
  EXPECT_EQ(taken, (std::vector<handed*>{&all[0], &all[1], &all[2]}));
  EXPECT_TRUE(ring.has_passed(3));
  EXPECT_FALSE(ring.any());
}

TEST(handed_ring, refuses_when_it_is_full_and_goes_on_round_after_round) {
  handed_ring ring(nullptr);
  std::vector<thing> all(handed_ring::capacity + 1);
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < handed_ring::capacity; ++i) ASSERT_TRUE(ring.push(all[i]));
    EXPECT_FALSE(ring.push(all.back()));
    EXPECT_EQ(ring.take_all(take_it), handed_ring::capacity);
    EXPECT_EQ(ring.take_all(take_it), 0u) << "what the round before has left";
  }
  for (std::size_t i = 0; i < handed_ring::capacity; ++i) EXPECT_EQ(all[i].times, 5);
  EXPECT_EQ(all.back().times, 0);
}

TEST(handed_ring, is_read_by_several_threads_and_each_thing_is_taken_once_and_in_order) {
  constexpr std::size_t count = 20'000;
  static std::atomic<std::size_t> next;
  static std::atomic<bool> disordered;
  next = 0;
  disordered = false;
  struct link : handed {
    link()
        : handed([](handed& x) noexcept {
            // Under the ring's lock: one at a time.
            if (next.load(std::memory_order_relaxed) != static_cast<link&>(x).number) disordered = true;
            next.store(static_cast<link&>(x).number + 1, std::memory_order_relaxed);
          }) {}
    std::size_t number = 0;
  };
  std::vector<link> all(count);
  handed_ring ring(nullptr);
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (next.load(std::memory_order_relaxed) < count && !disordered)
        if (!ring.any() || ring.take_all(take_it) == 0) std::this_thread::yield();
    });
  for (std::size_t i = 0; i < count && !disordered; ++i) {
    all[i].number = i;
    while (!ring.push(all[i]) && !disordered) std::this_thread::yield();
    if (i % 97 == 0) { // what has been handed to the ring is there when this returns
      const std::uint32_t upto = ring.written();
      if (!ring.has_passed(upto)) ring.take_all(take_it);
      EXPECT_GE(next.load(std::memory_order_relaxed), i + 1);
      EXPECT_TRUE(ring.has_passed(upto));
    }
  }
  for (auto& r : readers) r.join();
  EXPECT_FALSE(disordered);
  EXPECT_EQ(next, count);
}

TEST(handed_inbox, has_a_few_rings_and_takes_from_all) {
  handed_inbox box;
  EXPECT_FALSE(box.any());
  std::vector<handed_ring*> rings;
  for (int i = 0; i < handed_inbox::most_rings; ++i) rings.push_back(box.add());
  for (const handed_ring* r : rings) ASSERT_TRUE(r);
  EXPECT_EQ(box.add(), nullptr);
  EXPECT_FALSE(box.any());
  std::array<thing, 2> all;
  rings.front()->push(all[0]);
  rings.back()->push(all[1]);
  EXPECT_TRUE(box.any());
  box.take_all(take_it);
  EXPECT_FALSE(box.any());
  EXPECT_EQ(all[0].times + all[1].times, 2);
}

} // namespace
} // namespace tern::detail
