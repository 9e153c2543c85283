// SPDX-License-Identifier: Apache-2.0
// latch, fiber_barrier, semaphore, once_flag.
#include <tern/task/sync.hpp>

#include <stdexcept>
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

// latch ---------------------------------------------------------------------------------------------------------------

TEST(latch, opens_once_for_all) {
  everywhere([] {
    latch l(3);
    std::atomic<int> arrived{0};
    const auto wait = [&] {
      l.wait();
      EXPECT_EQ(arrived.load(), 3);
      EXPECT_TRUE(l.try_wait());
    };
    auto a = async(wait), b = async(wait);
    ++arrived;
    l.count_down();
    EXPECT_FALSE(l.try_wait());
    arrived += 2;
    l.count_down(2);
    a.get(), b.get();
    l.wait();
  });
}

TEST(latch, may_be_destroyed_by_who_has_waited) {
  everywhere([] {
    auto* l = new latch(2);
    const auto count = [l] { l->count_down(); };
    auto a = async(count), b = async(count);
    l->wait();
    delete l;
    a.get(), b.get();
  });
}

TEST(latch, times_out) {
  everywhere([] {
    latch l(1);
    EXPECT_FALSE(l.wait_for(1us));
    EXPECT_FALSE(l.wait_until(fiber_clock::now() + 1us));
    EXPECT_FALSE(l.wait_for(0s));
    auto sure = async([&] { EXPECT_TRUE(l.wait_for(1h)); });
    auto perhaps = async([&] { (void)l.wait_for(1us); });
    this_fiber::sleep_for(1us);
    l.count_down();
    sure.get(), perhaps.get();
    EXPECT_TRUE(l.wait_for(-1s));
  });
}

TEST(latch, misuse_is_an_error) {
  EXPECT_THAT(text_of(errc::invalid_argument, [] { latch l(-1); }), HasSubstr("cannot start at -1"));
  latch two(2);
  two.count_down();
  EXPECT_THAT(text_of(errc::invalid_state, [&] { two.count_down(2); }), HasSubstr("1 left was counted down by 2"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { two.count_down(-1); }), HasSubstr("by -1"));
  EXPECT_FALSE(two.try_wait());
}

// fiber_barrier -------------------------------------------------------------------------------------------------------

TEST(fiber_barrier, nobody_is_a_phase_ahead) {
  everywhere([] {
    int completed = 0; // plain: written by the last to arrive, read by all between two arrivals
    fiber_barrier meet(3, [&]() noexcept {
      ++completed;
      this_fiber::yield(); // a completion function may wait
    });
    const auto go = [&] {
      for (int phase = 1; phase <= 4; ++phase) {
        meet.arrive_and_wait();
        EXPECT_EQ(completed, phase); // the next is not completed before this one arrives again
      }
    };
    together(go, go, go);
    EXPECT_EQ(completed, 4);
  });
}

TEST(fiber_barrier, arrives_now_and_waits_later) {
  everywhere([] {
    fiber_barrier meet(3);
    std::atomic<int> arrived{0};
    const auto go = [&] {
      for (int phase = 1; phase <= 2; ++phase) {
        ++arrived;
        auto token = meet.arrive();
        this_fiber::yield();
        meet.wait(std::move(token));
        EXPECT_GE(arrived.load(), 3 * phase);
      }
    };
    together(go, go, go);
    meet.wait(meet.arrive(3)); // does not wait
  });
}

TEST(fiber_barrier, some_drop_out) {
  everywhere([] {
    fiber_barrier meet(3);
    int last = 0;
    const auto stay = [&] {
      meet.arrive_and_wait();
      meet.arrive_and_wait();
    };
    together(stay, stay, [&] {
      last = 1;
      meet.arrive_and_drop();
    });
    EXPECT_EQ(last, 1);
    meet.arrive_and_drop();
    meet.arrive_and_drop();
    EXPECT_THAT(text_of(errc::invalid_state, [&] { meet.arrive_and_wait(); }),
                HasSubstr("1 arrived at a barrier where 0 were still expected"));
  });
}

TEST(fiber_barrier, foreign_threads) {
  on_workers(2, [] {
    int completed = 0;
    fiber_barrier meet(4, [&]() noexcept { ++completed; });
    const auto go = [&] {
      for (int phase = 1; phase <= 50; ++phase) {
        meet.arrive_and_wait();
        EXPECT_EQ(completed, phase);
      }
    };
    std::thread t(go), u(go);
    together(go, go);
    t.join(), u.join();
    EXPECT_EQ(completed, 50);
  });
}

TEST(fiber_barrier, misuse_is_an_error) {
  EXPECT_THAT(text_of(errc::invalid_argument, [] { fiber_barrier<> b(-2); }), HasSubstr("cannot have -2 participants"));
  fiber_barrier two(2);
  EXPECT_THAT(text_of(errc::invalid_state, [&] { (void)two.arrive(3); }), HasSubstr("3 arrived"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { (void)two.arrive(0); }), HasSubstr("0 arrived"));
  (void)two.arrive(2);
}

// semaphore -----------------------------------------------------------------------------------------------------------

TEST(semaphore, lets_so_many_in) {
  everywhere([] {
    semaphore s(2);
    std::atomic<int> inside{0};
    const auto go = [&] {
      for (int i = 0; i < 2; ++i) {
        s.acquire();
        EXPECT_LE(++inside, 2);
        this_fiber::yield();
        --inside;
        s.release();
      }
    };
    together(go, go, go, go);
    EXPECT_TRUE(s.try_acquire());
    EXPECT_TRUE(s.try_acquire());
    EXPECT_FALSE(s.try_acquire());
  });
}

TEST(semaphore, is_first_come_first_served) {
  std::vector<int> order;
  on_workers(1, [&] { // on one worker a fiber that has begun goes on until it stands in the queue
    semaphore s(0);
    std::vector<future<void>> all;
    for (int i = 0; i < 4; ++i) {
      latch begun(1);
      all.push_back(async([&, i] {
        begun.count_down();
        s.acquire();
        order.push_back(i);
      }));
      begun.wait();
    }
    s.release(3);
    EXPECT_FALSE(s.try_acquire()); // they belong to the waiters
    s.release();
    for (auto& f : all) f.get();
  });
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

// One unit for two waiters, the first of which may be giving up.
TEST(semaphore, nothing_is_lost_to_timeouts) {
  everywhere([] {
    semaphore s(0);
    auto first = async([&] {
      if (s.try_acquire_for(2us)) s.release();
    });
    auto second = async([&] {
      if (s.try_acquire_until(fiber_clock::now() + 3us)) s.release();
    });
    auto third = async([&] { s.acquire(); });
    this_fiber::sleep_for(2us);
    s.release();
    first.get(), second.get(), third.get();
    EXPECT_FALSE(s.try_acquire());
    EXPECT_FALSE(s.try_acquire_for(1us));
  });
}

TEST(semaphore, foreign_threads) {
  on_workers(2, [] {
    semaphore to(0), back(0);
    std::thread t([&] {
      for (int i = 0; i < 300; ++i) {
        to.acquire();
        back.release();
      }
    });
    for (int i = 0; i < 300; ++i) {
      to.release();
      back.acquire();
    }
    t.join();
  });
}

TEST(semaphore, misuse_is_an_error) {
  EXPECT_THAT(text_of(errc::invalid_argument, [] { semaphore s(-3); }), HasSubstr("cannot start at -3"));
  semaphore s(semaphore::max() - 1);
  EXPECT_THAT(text_of(errc::invalid_argument, [&] { s.release(-1); }), HasSubstr("released -1 times"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { s.release(2); }), HasSubstr("more than it can count"));
  s.release();
  EXPECT_THAT(text_of(errc::invalid_state, [&] { s.release(); }), HasSubstr("more than it can count"));
}

// call_once -----------------------------------------------------------------------------------------------------------

TEST(call_once, calls_once) {
  everywhere([] {
    once_flag flag;
    int calls = 0; // plain: later callers must see it
    const auto go = [&] {
      call_once(
          flag,
          [&](int by) {
            this_fiber::yield();
            calls += by;
          },
          1);
      EXPECT_EQ(calls, 1);
    };
    together(go, go, go);
    go();
  });
}

TEST(call_once, the_next_tries_again_after_an_exception) {
  everywhere([] {
    once_flag flag;
    int tries = 0;
    std::atomic<int> failures{0};
    const auto go = [&] {
      try {
        call_once(flag, [&] {
          this_fiber::yield();
          if (++tries < 3) throw std::runtime_error("not yet");
        });
        EXPECT_EQ(tries, 3);
      } catch (const std::runtime_error&) {
        ++failures;
      }
    };
    together(go, go, go, go);
    EXPECT_EQ(tries, 3);
    EXPECT_EQ(failures, 2);
  });
}

TEST(call_once, recursion_is_an_error) {
  once_flag flag;
  EXPECT_THAT(text_of(errc::deadlock, [&] { call_once(flag, [&] { call_once(flag, [] {}); }); }),
              HasSubstr(" called call_once from inside the call itself"));
  bool called = false;
  call_once(flag, [&] { called = true; }); // the one before has failed
  EXPECT_TRUE(called);
}

TEST(call_once, foreign_threads) {
  on_workers(2, [] {
    for (int i = 0; i < 50; ++i) {
      once_flag flag;
      int calls = 0;
      const auto go = [&] {
        call_once(flag, [&] { ++calls; });
        EXPECT_EQ(calls, 1);
      };
      std::thread t(go);
      together(go, go);
      t.join();
    }
  });
}

} // namespace
} // namespace tern
