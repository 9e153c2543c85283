// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <deque>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/future.hpp>

namespace tern {
namespace {

class sync : public testing::TestWithParam<int> {
protected:
  template <class F> void run(F f) {
    scheduler s({.workers = GetParam(), .name = "test"});
    EXPECT_EQ(s.run(f), 0u);
  }
};

TEST_P(sync, mutex_excludes_across_suspensions) {
  long counter = 0; // plain: a race would lose increments, and TSan would say so
  int inside = 0;
  run([&] {
    mutex m;
    std::vector<future<void>> all;
    for (int i = 0; i < 50; ++i)
      all.push_back(async([&] {
        for (int k = 0; k < 40; ++k) {
          std::lock_guard hold(m);
          EXPECT_EQ(++inside, 1);
          if (k % 7 == 0) this_fiber::yield(); // holding it
          ++counter;
          --inside;
        }
      }));
    for (auto& f : all) f.get();
  });
  EXPECT_EQ(counter, 50 * 40);
}

TEST_P(sync, mutex_is_first_come_first_served) {
  std::vector<int> order;
  run([&] {
    mutex m;
    m.lock();
    EXPECT_FALSE(m.try_lock());
    std::vector<future<void>> all;
    for (int i = 0; i < 5; ++i) {
      latch asked(1);
      all.push_back(async([&, i] {
        asked.count_down();
        std::lock_guard hold(m);
        order.push_back(i);
      }));
      asked.wait();
      for (int k = 0; k < 50; ++k) this_fiber::yield(); // until it stands in the queue
    }
    m.unlock();
    for (auto& f : all) f.get();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
  if (GetParam() == 1)
    EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 4));
  else
    EXPECT_EQ(order.size(), 5u);
}

TEST_P(sync, condition_variable_passes_items) {
  long sum = 0;
  run([&] {
    mutex m;
    condition_variable filled, emptied;
    std::deque<int> items;
    const auto produce = [&] {
      for (int i = 1; i <= 500; ++i) {
        std::unique_lock hold(m);
        emptied.wait(hold, [&] { return items.size() < 3; });
        items.push_back(i);
        filled.notify_one();
      }
    };
    const auto consume = [&] {
      for (int i = 0; i < 500; ++i) {
        std::unique_lock hold(m);
        filled.wait(hold, [&] { return !items.empty(); });
        sum += items.front();
        items.pop_front();
        emptied.notify_one();
      }
    };
    auto a = async(produce), b = async(produce), c = async(consume), d = async(consume);
    a.get(), b.get(), c.get(), d.get();
  });
  EXPECT_EQ(sum, 2 * 500 * 501 / 2);
}

TEST_P(sync, latch_and_mutex_work_from_foreign_threads) {
  int sum = 0;
  run([&] {
    mutex m;
    latch both(2), start(1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        start.wait();
        for (int i = 0; i < 200; ++i) {
          std::lock_guard hold(m);
          ++sum;
        }
        both.count_down();
      });
    start.count_down();
    for (int i = 0; i < 200; ++i) {
      std::lock_guard hold(m);
      ++sum;
      this_fiber::yield();
    }
    both.wait();
    for (auto& t : threads) t.join();
  });
  EXPECT_EQ(sum, 600);
}

INSTANTIATE_TEST_SUITE_P(workers, sync, testing::Values(1, 2, 4));

TEST(sync, misuse_is_an_error) {
  EXPECT_THROW(latch(-1), error);
  latch two(2);
  two.count_down();
  try {
    two.count_down(2);
    FAIL();
  } catch (const error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("1 left was counted down by 2"));
  }
  mutex m;
  EXPECT_THROW(m.unlock(), error);
  condition_variable c;
  std::unique_lock<mutex> none;
  EXPECT_THROW(c.wait(none), error);
}

} // namespace
} // namespace tern
