// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <deque>
#include <new>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/sync.hpp"
#include <tern/base/error.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere;
using test_support::on_workers;
using test_support::text_of;
using test_support::together;
using testing::ElementsAre;
using testing::HasSubstr;

void pass_items(int each) {
  mutex m;
  condition_variable filled, emptied;
  std::deque<int> items;
  long sum = 0;
  const auto produce = [&] {
    for (int i = 1; i <= each; ++i) {
      std::unique_lock hold(m);
      emptied.wait(hold, [&] { return items.size() < 2; });
      items.push_back(i);
      filled.notify_one();
    }
  };
  const auto consume = [&] {
    for (int i = 0; i < each; ++i) {
      std::unique_lock hold(m);
      filled.wait(hold, [&] { return !items.empty(); });
      sum += items.front();
      items.pop_front();
      emptied.notify_one();
    }
  };
  together(produce, produce, consume, consume);
  EXPECT_EQ(sum, each * (each + 1));
}

TEST(condition_variable, passes_items) {
  everywhere([] { pass_items(3); });
  for (const int workers : {1, 2, 4}) on_workers(workers, [] { pass_items(500); });
}

TEST(condition_variable, wakes_in_the_order_of_waiting) {
  everywhere([] {
    mutex m;
    condition_variable c;
    std::vector<int> order;
    int turn = 0;
    std::vector<future<void>> all;
    for (int i = 0; i < 3; ++i) {
      latch waits(1);
      all.push_back(async([&, i] {
        std::unique_lock hold(m);
        waits.count_down();
        c.wait(hold); // no predicate: nothing but a notification ends it
        EXPECT_EQ(turn, static_cast<int>(order.size()) + 1);
        order.push_back(i);
      }));
      waits.wait();
      std::lock_guard hold(m); // free once the fiber waits
    }
    for (int i = 0; i < 3; ++i) {
      {
        std::lock_guard hold(m);
        ++turn;
      }
      c.notify_one();
      all[static_cast<std::size_t>(i)].get();
    }
    EXPECT_THAT(order, ElementsAre(0, 1, 2));
  });
}

TEST(condition_variable, notify_all_wakes_all) {
  everywhere([] {
    mutex m;
    condition_variable c;
    bool go = false;
    int woken = 0;
    const auto wait = [&] {
      std::unique_lock hold(m);
      c.wait(hold, [&] { return go; });
      ++woken;
    };
    auto a = async(wait), b = async(wait), d = async(wait);
    {
      std::lock_guard hold(m);
      go = true;
    }
    c.notify_all();
    a.get(), b.get(), d.get();
    EXPECT_EQ(woken, 3);
  });
}

TEST(condition_variable, times_out) {
  everywhere([] {
    mutex m;
    condition_variable c;
    std::unique_lock hold(m);
    const auto before = fiber_clock::now();
    EXPECT_EQ(c.wait_for(hold, 3us), std::cv_status::timeout);
    EXPECT_GE(fiber_clock::now() - before, 3us);
    EXPECT_TRUE(hold.owns_lock());
    EXPECT_EQ(c.wait_until(hold, fiber_clock::now()), std::cv_status::timeout);
    EXPECT_FALSE(c.wait_for(hold, 1us, [] { return false; }));
    EXPECT_TRUE(c.wait_until(hold, fiber_clock::now(), [] { return true; }));
  });
}

// One notification for two waiters, the first of which may be giving up: it must not be lost.
TEST(condition_variable, notifications_do_not_go_to_those_who_have_given_up) {
  everywhere([] {
    mutex m;
    condition_variable c;
    bool go = false;
    latch wait(1);
    auto first = async([&] {
      std::unique_lock hold(m);
      wait.count_down();
      if (c.wait_for(hold, 2us) == std::cv_status::no_timeout) {
        EXPECT_TRUE(go);
        c.notify_one(); // it was meant for one of us
      }
    });
    wait.wait();
    auto second = async([&] {
      std::unique_lock hold(m);
      c.wait(hold, [&] { return go; });
    });
    this_fiber::sleep_for(2us);
    {
      std::lock_guard hold(m);
      go = true;
    }
    c.notify_one();
    first.get(), second.get();
  });
}

TEST(condition_variable, stop_tokens) {
  everywhere([] {
    mutex m;
    condition_variable c;
    std::stop_source stop;
    int notified = 0, stopped = 0;
    bool go = false;
    const auto wait = [&] {
      std::unique_lock hold(m);
      c.wait(hold, stop.get_token(), [&] { return go; }) ? ++notified : ++stopped;
    };
    auto a = async(wait), b = async(wait);
    auto d = async([&] {
      {
        std::lock_guard hold(m);
        go = true;
      }
      c.notify_one();
    });
    stop.request_stop(); // for the waiter that the notification does not reach
    a.get(), b.get(), d.get();
    EXPECT_EQ(notified + stopped, 2);
    std::unique_lock hold(m);
    go = false;
    EXPECT_FALSE(c.wait(hold, stop.get_token(), [&] { return go; }));
    EXPECT_FALSE(c.wait_for(hold, stop.get_token(), 1h, [&] { return go; }));
    EXPECT_FALSE(c.wait_until(hold, std::stop_token(), fiber_clock::now() + 1us, [&] { return go; }));
  });
}

TEST(condition_variable, foreign_threads) {
  on_workers(2, [] {
    mutex m;
    condition_variable c;
    int turn = 0;
    const auto play = [&](int me) {
      for (int i = 0; i < 100; ++i) {
        std::unique_lock hold(m);
        c.wait(hold, [&] { return turn % 3 == me; });
        ++turn;
        c.notify_all();
      }
    };
    std::thread t([&] { play(0); });
    together([&] { play(1); }, [&] { play(2); });
    t.join();
    EXPECT_EQ(turn, 300);
  });
}

TEST(condition_variable, misuse_is_an_error) {
  condition_variable c;
  std::unique_lock<mutex> none;
  EXPECT_THAT(text_of(errc::invalid_state, [&] { c.wait(none); }), HasSubstr("needs a lock that owns its mutex"));
  mutex m;
  std::unique_lock hold(m);
  std::thread([&] {
    EXPECT_THAT(text_of(errc::invalid_state, [&] { c.wait(hold); }),
                HasSubstr("waits with a tern::mutex that a thread owns"));
  }).join();
  EXPECT_TRUE(hold.owns_lock());
}

TEST(condition_variable, destroyed_while_waited_for_is_logged) {
  on_workers(1, [] {
    // Its memory outlives it, so that the waiter can leave.
    alignas(condition_variable) std::byte memory[sizeof(condition_variable)];
    auto* c = new (memory) condition_variable;
    mutex m;
    latch waits(1);
    std::stop_source stop;
    auto f = async([&] {
      std::unique_lock hold(m);
      waits.count_down();
      EXPECT_FALSE(c->wait(hold, stop.get_token(), [] { return false; }));
    });
    waits.wait();
    m.lock(); // free once it waits
    m.unlock();
    testing::internal::CaptureStderr();
    c->~condition_variable();
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("destroys a tern::condition_variable while a context waits for it"));
    stop.request_stop();
    f.get();
  });
}

} // namespace
} // namespace tern
