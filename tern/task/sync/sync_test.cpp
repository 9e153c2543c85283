// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

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
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// mutex ---------------------------------------------------------------------------------------------------------------

TEST(mutex, excludes_across_suspensions) {
  everywhere([] {
    mutex m;
    int inside = 0;
    long counter = 0; // plain: a race would lose increments, and TSan would say so
    const auto body = [&] {
      for (int k = 0; k < 3; ++k) {
        std::lock_guard hold(m);
        EXPECT_EQ(++inside, 1);
        if (k == 1) this_fiber::yield(); // holding it
        ++counter;
        --inside;
      }
    };
    together(body, body, body, body);
    EXPECT_EQ(counter, 12);
  });
}

TEST(mutex, excludes_many) {
  for (const int workers : {1, 2, 4})
    on_workers(workers, [] {
      mutex m;
      long counter = 0;
      std::vector<future<void>> all;
      for (int i = 0; i < 50; ++i)
        all.push_back(async([&, i] {
          for (int k = 0; k < 400; ++k) {
            std::lock_guard hold(m);
            if ((k + i) % 70 == 0) this_fiber::yield();
            ++counter;
          }
        }));
      for (auto& f : all) f.get();
      EXPECT_EQ(counter, 50 * 400);
    });
}

// On one worker a fiber that has asked goes on until it stands in the queue.
TEST(mutex, waiters_are_first_come_first_served) {
  std::vector<int> order;
  on_workers(1, [&] {
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
        this_fiber::yield(); // so that the next comes in vain at first
      }));
      asked.wait();
    }
    m.unlock();
    for (auto& f : all) f.get();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

// A fiber that never suspends locks it again and again: the waiter must get it nevertheless.
TEST(mutex, nobody_is_overtaken_for_ever) {
  everywhere([] {
    mutex m;
    bool got_it = false; // protected by m
    m.lock();
    latch begun(1);
    auto waits = async([&] {
      begun.count_down();
      std::lock_guard hold(m);
      got_it = true;
    });
    begun.wait();
    m.unlock();
    for (bool over = false; !over;) {
      std::lock_guard hold(m);
      over = got_it;
      if (!over) sim::charge(1e-6);
    }
    waits.get();
  });
}

TEST(mutex, fibers_and_foreign_threads) {
  for (const int workers : {1, 2, 4}) {
    int sum = 0;
    on_workers(workers, [&] {
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
}

TEST(mutex, may_be_destroyed_by_the_last_who_unlocks) {
  everywhere([] {
    struct shared {
      mutex m;
      int users = 3;
    };
    auto* s = new shared;
    const auto leave = [s] {
      s->m.lock();
      const bool last = --s->users == 0;
      s->m.unlock();
      if (last) delete s;
    };
    together(leave, leave, leave);
  });
}

TEST(mutex, times_out) {
  everywhere([] {
    mutex m;
    m.lock();
    together([&] {
      const auto before = fiber_clock::now();
      EXPECT_FALSE(m.try_lock_for(3us));
      EXPECT_GE(fiber_clock::now() - before, 3us);
      EXPECT_FALSE(m.try_lock_for(-1h));
      EXPECT_FALSE(m.try_lock_until(fiber_clock::now()));
      EXPECT_FALSE(m.try_lock_until(fiber_clock::now() + 1us));
    });
    m.unlock();
    EXPECT_TRUE(m.try_lock_for(std::chrono::hours::max()));
    m.unlock();
    EXPECT_TRUE(m.try_lock_until(fiber_clock::time_point::min()));
    m.unlock();
  });
}

// The mutex becomes free at about the time when the first waiter gives up: one of the fibers must
// get it.
TEST(mutex, timeouts_race_with_unlocking) {
  everywhere([] {
    mutex m;
    int inside = 0, timed = 0, sure = 0;
    const auto have = [&](int& count) {
      EXPECT_EQ(++inside, 1);
      ++count;
      this_fiber::yield();
      --inside;
      m.unlock();
    };
    m.lock();
    auto a = async([&] {
      if (m.try_lock_for(2us)) have(timed);
    });
    auto b = async([&] {
      if (m.try_lock_for(3us)) have(timed);
    });
    auto c = async([&] {
      m.lock();
      have(sure);
    });
    this_fiber::sleep_for(2us);
    m.unlock();
    a.get(), b.get(), c.get();
    EXPECT_EQ(sure, 1);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST(mutex, other_clocks) {
  mutex m;
  m.lock();
  std::thread([&] {
    EXPECT_FALSE(m.try_lock_until(std::chrono::steady_clock::now() + 1ms));
    EXPECT_FALSE(m.try_lock_until(std::chrono::system_clock::now() - 1h));
    EXPECT_FALSE(m.try_lock_until(std::chrono::system_clock::time_point::min()));
  }).join();
  m.unlock();
  EXPECT_TRUE(m.try_lock_until(std::chrono::system_clock::time_point::max()));
  m.unlock();
  EXPECT_TRUE(m.try_lock_until(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::max()));
  m.unlock();
}

TEST(mutex, misuse_is_an_error) {
  mutex m;
  EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock(); }),
              AllOf(HasSubstr("thread "), HasSubstr(" unlocked a tern::mutex that has no owner")));
  m.lock();
  EXPECT_THAT(text_of(errc::deadlock, [&] { m.lock(); }),
              AllOf(HasSubstr("thread "), HasSubstr(" locked a tern::mutex that it owns already")));
  EXPECT_THAT(text_of(errc::deadlock, [&] { (void)m.try_lock_for(1h); }), HasSubstr("owns already"));
  EXPECT_FALSE(m.try_lock());
  std::thread([&] {
    EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock(); }),
                HasSubstr(" unlocked a tern::mutex that a thread owns"));
  }).join();
  m.unlock(); // what went wrong has changed nothing
  EXPECT_TRUE(m.try_lock());
  m.unlock();
}

TEST(mutex, errors_name_fibers) {
  on_workers(1, [] {
    mutex m;
    latch locked(1), over(1);
    fiber owner(
        [&] {
          m.lock();
          EXPECT_THAT(text_of(errc::deadlock, [&] { m.lock(); }), HasSubstr("'owner' locked a tern::mutex"));
          locked.count_down();
          over.wait();
          m.unlock();
        },
        {.name = "owner"});
    locked.wait();
    fiber other(
        [&] {
          EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock(); }),
                      AllOf(HasSubstr("'other' unlocked"), HasSubstr("'owner' owns")));
        },
        {.name = "other"});
    other.join();
    over.count_down();
    owner.join();
  });
}

TEST(mutex, destroyed_while_locked_is_logged) {
  testing::internal::CaptureStderr();
  {
    mutex m;
    m.lock();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(" destroys a tern::mutex while"), HasSubstr("locked")));
  testing::internal::CaptureStderr();
  {
    shared_mutex m;
    m.lock_shared();
    m.lock_shared();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("destroys a tern::shared_mutex while 2 share it"));
}

// shared_mutex --------------------------------------------------------------------------------------------------------

TEST(shared_mutex, readers_share_and_writers_exclude) {
  everywhere([] {
    shared_mutex m;
    std::atomic<int> readers{0}, writers{0};
    int value = 0; // plain
    const auto write = [&] {
      for (int i = 0; i < 2; ++i) {
        std::lock_guard hold(m);
        EXPECT_EQ(writers.fetch_add(1), 0);
        EXPECT_EQ(readers.load(), 0);
        ++value;
        this_fiber::yield();
        writers.fetch_sub(1);
      }
    };
    const auto read = [&] {
      for (int i = 0; i < 2; ++i) {
        std::shared_lock hold(m);
        readers.fetch_add(1);
        const int before = value;
        this_fiber::yield();
        EXPECT_EQ(value, before);
        EXPECT_EQ(writers.load(), 0);
        readers.fetch_sub(1);
      }
    };
    together(write, read, write, read);
    EXPECT_EQ(value, 4);
    // All readers are inside at once.
    latch inside(3);
    const auto meet = [&] {
      std::shared_lock hold(m);
      inside.arrive_and_wait();
    };
    together(meet, meet, meet);
  });
}

// While a writer waits, no other fiber gets a share at once: so the test sees that the writer
// stands in the queue.
void until_somebody_waits(shared_mutex& m) {
  while (m.try_lock_shared()) {
    m.unlock_shared();
    this_fiber::yield();
  }
}

TEST(shared_mutex, readers_who_come_later_wait_behind_a_writer) {
  everywhere([] {
    shared_mutex m;
    std::vector<char> order; // protected by m, by the writer; by `o` among readers
    mutex o;
    m.lock_shared();
    auto writer = async([&] {
      std::lock_guard hold(m);
      order.push_back('w');
    });
    until_somebody_waits(m);
    const auto read = [&] {
      std::shared_lock hold(m);
      std::lock_guard mine(o);
      order.push_back('r');
    };
    auto r1 = async(read), r2 = async(read);
    this_fiber::yield();
    m.unlock_shared();
    writer.get(), r1.get(), r2.get();
    EXPECT_THAT(order, ElementsAre('w', 'r', 'r'));
  });
}

TEST(shared_mutex, a_writer_who_gives_up_lets_those_behind_in) {
  everywhere([] {
    shared_mutex m;
    m.lock_shared();
    auto writer = async([&] { EXPECT_FALSE(m.try_lock_for(2us)); });
    auto reader = async([&] {
      m.lock_shared(); // before, behind or after the writer
      m.unlock_shared();
    });
    reader.get(); // although the first share is still held
    writer.get();
    m.unlock_shared();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST(shared_mutex, timeouts_race_with_unlocking) {
  everywhere([] {
    shared_mutex m;
    int value = 0;
    m.lock();
    auto a = async([&] {
      if (m.try_lock_for(2us)) {
        ++value;
        m.unlock();
      }
    });
    auto b = async([&] {
      if (m.try_lock_shared_for(2us)) m.unlock_shared();
    });
    auto c = async([&] {
      std::lock_guard hold(m);
      ++value;
    });
    auto d = async([&] { std::shared_lock hold(m, fiber_clock::now() + 1h); });
    this_fiber::sleep_for(1us);
    m.unlock();
    a.get(), b.get(), c.get(), d.get();
    EXPECT_GE(value, 1);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST(shared_mutex, foreign_threads) {
  on_workers(2, [] {
    shared_mutex m;
    int value = 0;
    const auto work = [&](int seed) {
      for (int i = 0; i < 200; ++i) {
        if ((i + seed) % 3 == 0) {
          std::lock_guard hold(m);
          ++value;
        } else {
          std::shared_lock hold(m);
          EXPECT_GE(value, 0);
        }
      }
    };
    std::thread t([&] { work(0); }), u([&] { work(1); });
    together([&] { work(2); }, [&] { work(0); });
    t.join(), u.join();
    EXPECT_EQ(value, 67 + 67 + 66 + 67);
  });
}

TEST(shared_mutex, misuse_is_an_error) {
  shared_mutex m;
  EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock(); }), HasSubstr("a tern::shared_mutex that has no owner"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock_shared(); }), HasSubstr("that is not shared"));
  m.lock();
  EXPECT_THAT(text_of(errc::deadlock, [&] { m.lock(); }),
              HasSubstr("locked a tern::shared_mutex that it owns already"));
  EXPECT_THAT(text_of(errc::deadlock, [&] { m.lock_shared(); }), HasSubstr("owns already"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock_shared(); }), HasSubstr("is not shared; it is owned"));
  std::thread([&] {
    EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock(); }), HasSubstr("that a thread owns"));
  }).join();
  m.unlock();
  EXPECT_TRUE(m.try_lock_shared());
  EXPECT_FALSE(m.try_lock());
  m.unlock_shared();
}

} // namespace
} // namespace tern
