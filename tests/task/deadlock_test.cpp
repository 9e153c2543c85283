// SPDX-License-Identifier: Apache-2.0
/// \file
/// What fibers wait for: deadlocks that are found, and waits that are none.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <source_location>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/in_child.hpp"
#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere;
using test_support::on_workers;
using test_support::sanitized;
using test_support::simulated;
using test_support::text_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// `file:line` of so many lines above the caller, as it stands in reports.
std::string line_above(int lines, std::source_location here = std::source_location::current()) {
  return "deadlock_test.cpp:" + std::to_string(static_cast<int>(here.line()) - lines);
}

/// `body` must deadlock, on real workers and in simulations; \return the texts.
std::vector<std::string> deadlocks(const std::function<void()>& body) {
  std::vector<std::string> texts;
  for (const int workers : {1, 2}) {
    scheduler s({.workers = workers, .name = "stuck"});
    texts.push_back(text_of(errc::deadlock, [&] { s.run([&] { body(); }); }));
  }
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 2, .name = "stuck", .simulation = &world});
    texts.push_back(text_of(errc::deadlock, [&] { s.run([&] { body(); }); }));
    EXPECT_THAT(texts.back(), HasSubstr("seed " + std::to_string(seed)));
  }
  return texts;
}

// Circles -------------------------------------------------------------------------------------------------------------

TEST(deadlock, two_mutexes_in_opposite_order) {
  std::string first_place, second_place;
  const auto texts = deadlocks([&] {
    mutex a, b;
    latch both(2);
    const auto lock = [&](mutex& mine, mutex& other) {
      const std::unique_lock hold(mine);
      both.arrive_and_wait();
      const std::unique_lock never(other);
    };
    fiber one([&] { lock(a, b); }, {.name = "one"});
    first_place = line_above(1);
    fiber two([&] { lock(b, a); }, {.name = "two"});
    second_place = line_above(1);
    one.join();
    two.join();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("wait for each other"), HasSubstr("'one'"), HasSubstr("'two'"),
                            HasSubstr("waits for mutex"), HasSubstr(first_place), HasSubstr(second_place),
                            Not(HasSubstr("'main'"))));
}

TEST(deadlock, three_joins) {
  const auto texts = deadlocks([] {
    fiber all[3];
    latch made(1), never(1);
    for (std::size_t i = 0; i < 3; ++i)
      all[i] = fiber(
          [&, i] {
            made.wait();
            all[(i + 1) % 3].join();
          },
          {.name = std::vector<std::string>{"red", "green", "blue"}[i]});
    made.count_down();
    never.wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("'red'"), HasSubstr("'green'"), HasSubstr("'blue'"), HasSubstr(" to end"),
                            HasSubstr("made at"), Not(HasSubstr("'main'"))));
}

// Of several circles that of the lowest number is told, wherever they lie.
TEST(deadlock, the_same_circle_each_time) {
  std::vector<std::uint64_t> lowest;
  const auto texts = deadlocks([&] {
    fiber all[20];
    latch made(1), never(1);
    const auto join_other = [&](std::size_t i) { made.wait(), all[i ^ 1].join(); };
    for (std::size_t i = 0; i < 20; ++i) all[i] = fiber([&, i] { join_other(i); });
    lowest.push_back(std::ranges::min_element(all, {}, &fiber::id)->id());
    made.count_down();
    never.wait();
  });
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_THAT(texts[i], HasSubstr("go on:\n  fiber " + std::to_string(lowest[i]) + ": "));
}

TEST(deadlock, a_mutex_and_a_join) {
  const auto texts = deadlocks([] {
    mutex m;
    const std::unique_lock hold(m);
    fiber child([&] { const std::unique_lock inner(m); }, {.name = "child"});
    child.join();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("wait for each other"), HasSubstr("'main'"), HasSubstr("'child'"),
                            HasSubstr("waits for mutex"), HasSubstr("waits for fiber")));
}

TEST(deadlock, a_shared_mutex_too) {
  const auto texts = deadlocks([] {
    shared_mutex a;
    mutex b;
    latch both(2);
    fiber one(
        [&] {
          const std::unique_lock hold(a);
          both.arrive_and_wait();
          b.lock();
        },
        {.name = "writer"});
    fiber two(
        [&] {
          const std::unique_lock hold(b);
          both.arrive_and_wait();
          a.lock_shared();
        },
        {.name = "reader"});
    two.join();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("'writer'"), HasSubstr("'reader'"), HasSubstr("shared_mutex")));
}

TEST(deadlock, found_while_others_wait_for_the_circle) {
  const auto texts = deadlocks([] {
    mutex a, b;
    latch both(2);
    fiber one(
        [&] {
          a.lock();
          both.arrive_and_wait();
          b.lock();
        },
        {.name = "one"});
    fiber two(
        [&] {
          b.lock();
          both.arrive_and_wait();
          a.lock();
        },
        {.name = "two"});
    both.wait();
    fiber bystander([&] { a.lock(); }, {.name = "bystander"});
    bystander.join();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("'one'"), HasSubstr("'two'"), Not(HasSubstr("'bystander'"))));
}

/// A circle of two fibers that main does not wait for.
void leave_a_circle() {
  struct shared {
    mutex a, b;
    latch both{2};
  };
  static std::vector<shared*> kept; // they stay locked: destroying them would be an error
  shared* const s = kept.emplace_back(new shared);
  fiber([s] { s->a.lock(), s->both.arrive_and_wait(), s->b.lock(); }, {.name = "one"}).detach();
  fiber([s] { s->b.lock(), s->both.arrive_and_wait(), s->a.lock(); }, {.name = "two"}).detach();
}

TEST(deadlock, of_fibers_that_main_has_left_in_a_simulation) {
  if (test_support::address_sanitizer) GTEST_SKIP() << "what fibers own that wait for ever is leaked, as `run` says";
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 2, .simulation = &world});
    EXPECT_THAT(text_of(errc::deadlock, [&] { s.run([] { leave_a_circle(); }); }),
                AllOf(HasSubstr("'one'"), HasSubstr("'two'"), Not(HasSubstr("'main'"))));
  }
}

// Workers that end because nothing can run any more do not look for circles.
TEST(deadlock, of_fibers_that_main_has_left) {
  if (test_support::address_sanitizer) GTEST_SKIP() << "what fibers own that wait for ever is leaked, as `run` says";
  for (const auto& text : deadlocks(leave_a_circle)) EXPECT_THAT(text, AllOf(HasSubstr("'one'"), HasSubstr("'two'")));
}

TEST(deadlock, a_mutex_that_the_caller_has) {
  everywhere(
      [] {
        fiber f(
            [] {
              mutex m;
              m.lock();
              const std::string text = text_of(errc::deadlock, [&] { m.lock(); });
              EXPECT_THAT(text, AllOf(HasSubstr("'narcissus'"), HasSubstr("owns already"), HasSubstr("not recursive")));
              EXPECT_FALSE(m.try_lock());
              m.unlock();
            },
            {.name = "narcissus"});
        f.join();
      },
      3);
}

// No alarm ------------------------------------------------------------------------------------------------------------

TEST(deadlock, a_promise_that_a_foreign_thread_keeps) {
  for (const int workers : {1, 2}) {
    promise<int> p;
    auto f = p.get_future();
    std::atomic<bool> waits{false};
    std::thread other([&] {
      waits.wait(false);
      std::this_thread::sleep_for(300ms); // three times as long as workers sleep before they look for circles
      p.set_value(42);
    });
    on_workers(workers, [&] {
      mutex m;
      fiber holder([&] {
        const std::unique_lock hold(m);
        waits = true;
        waits.notify_one();
        EXPECT_EQ(f.get(), 42);
      });
      fiber next([&] { const std::unique_lock hold(m); });
      holder.join();
    });
    other.join();
  }
}

TEST(deadlock, a_mutex_that_a_foreign_thread_has) {
  mutex m;
  std::atomic<bool> waits{false}, locked{false};
  std::thread other([&] {
    const std::unique_lock hold(m);
    locked = true;
    locked.notify_one();
    waits.wait(false);
    std::this_thread::sleep_for(250ms);
  });
  locked.wait(false);
  on_workers(2, [&] {
    fiber f([&] {
      waits = true;
      waits.notify_one();
      const std::unique_lock hold(m);
    });
    f.join();
  });
  other.join();
}

// Both give up and come again, so nothing is stuck for ever.
void lock_for_a_while(std::chrono::milliseconds patience) {
  mutex a, b;
  latch both(2);
  std::atomic<int> gave_up{0};
  const auto lock = [&](mutex& mine, mutex& other) {
    const std::unique_lock hold(mine);
    both.arrive_and_wait();
    if (other.try_lock_for(patience))
      other.unlock();
    else
      ++gave_up;
  };
  test_support::together([&] { lock(a, b); }, [&] { lock(b, a); });
  EXPECT_GE(gave_up, 1);
}

TEST(deadlock, those_who_give_up_are_not_in_a_circle) {
  for (const int workers : {1, 2}) on_workers(workers, [] { lock_for_a_while(250ms); });
  simulated([] { lock_for_a_while(24h); }, 2, 200);
}

TEST(deadlock, one_of_them_with_a_limit_is_enough) {
  const auto body = [](std::chrono::milliseconds patience) {
    mutex a, b;
    latch both(2);
    fiber patient([&] {
      const std::unique_lock hold(a);
      both.arrive_and_wait();
      const std::unique_lock other(b);
    });
    const std::unique_lock hold(b);
    both.arrive_and_wait();
    EXPECT_FALSE(a.try_lock_for(patience));
  };
  // The handle's destructor joins, after the lock is given back.
  for (const int workers : {1, 2}) on_workers(workers, [&] { body(250ms); });
  simulated([&] { body(24h); }, 2, 200);
}

TEST(deadlock, long_waits_for_sleepers) {
  for (const int workers : {1, 2})
    on_workers(workers, [] {
      mutex m;
      latch locked(1);
      fiber holder([&] {
        const std::unique_lock hold(m);
        locked.count_down();
        this_fiber::sleep_for(250ms);
      });
      locked.wait();
      m.lock();
      m.unlock();
      holder.join();
    });
}

} // namespace
} // namespace tern
