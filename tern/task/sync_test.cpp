// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <deque>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include <tern/task/executors_test.hpp>

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere;
using test_support::on_workers;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// The text of the error that `f` throws, which must have that code.
template <class F> std::string text_of(errc code, F&& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

template <class... Fs> void together(Fs&&... fs) {
  std::vector<future<void>> all;
  (all.push_back(async(std::forward<Fs>(fs))), ...);
  for (auto& f : all) f.get();
}

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

// Somebody who never suspends locks it again and again: the one who waits must get it nevertheless.
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

// The mutex becomes free at about the time when the first gives up: somebody must get it, whoever it is.
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
              AllOf(HasSubstr("thread "), HasSubstr(" unlocked a tern::mutex that nobody owns")));
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
    // All who read are inside at once.
    latch inside(3);
    const auto meet = [&] {
      std::shared_lock hold(m);
      inside.arrive_and_wait();
    };
    together(meet, meet, meet);
  });
}

// While a writer waits nobody else gets a share at once: that is how the test sees that he stands in the queue.
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
  EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock(); }), HasSubstr("a tern::shared_mutex that nobody owns"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock_shared(); }), HasSubstr("that nobody shares"));
  m.lock();
  EXPECT_THAT(text_of(errc::deadlock, [&] { m.lock(); }),
              HasSubstr("locked a tern::shared_mutex that it owns already"));
  EXPECT_THAT(text_of(errc::deadlock, [&] { m.lock_shared(); }), HasSubstr("owns already"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock_shared(); }), HasSubstr("nobody shares; it is owned"));
  std::thread([&] {
    EXPECT_THAT(text_of(errc::invalid_state, [&] { m.unlock(); }), HasSubstr("that a thread owns"));
  }).join();
  m.unlock();
  EXPECT_TRUE(m.try_lock_shared());
  EXPECT_FALSE(m.try_lock());
  m.unlock_shared();
}

// condition_variable --------------------------------------------------------------------------------------------------

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

// One notification for two who wait, the first of whom may be giving up: it must not be lost.
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
    stop.request_stop(); // whoever the notification does not reach
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
    // Its memory outlives it, so that the one who waits can leave.
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
                HasSubstr("destroys a tern::condition_variable while somebody waits for it"));
    stop.request_stop();
    f.get();
  });
}

} // namespace
} // namespace tern
