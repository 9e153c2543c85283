// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sync.hpp>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/in_child.hpp"
#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere_briefly;
using test_support::in_child;
using test_support::on_workers;
using test_support::sanitized;
using test_support::text_of;
using testing::AllOf;
using testing::HasSubstr;

// Life ----------------------------------------------------------------------------------------------------------------

TEST(fiber, joins) {
  everywhere_briefly([] {
    int first = 0, second = 0, third = 0;
    fiber a([&] { first = 1; });
    fiber b([&] {
      this_fiber::yield();
      second = 2;
    });
    fiber c([&] {
      fiber inner([&] { third = 3; });
      inner.join();
      ++third;
    });
    EXPECT_TRUE(a.joinable());
    this_fiber::yield();
    c.join();
    a.join();
    b.join();
    EXPECT_EQ(first + second + third, 1 + 2 + 4);
    EXPECT_FALSE(a.joinable());
    EXPECT_EQ(a.id(), 0u);
  });
}

TEST(fiber, what_it_captured_is_gone_when_join_returns) {
  everywhere_briefly([] {
    auto held = std::make_shared<int>(1);
    fiber f([held] { this_fiber::yield(); });
    f.join();
    EXPECT_EQ(held.use_count(), 1);
  });
}

TEST(fiber, detached_ones_run_to_their_end) {
  std::atomic<int> done{0};
  const auto body = [&] {
    done = 0;
    for (int i = 0; i < 3; ++i) {
      fiber f([&, i] {
        for (int k = 0; k < i; ++k) this_fiber::yield();
        ++done;
      });
      if (i == 2) this_fiber::yield(); // it may have ended
      f.detach();
      EXPECT_FALSE(f.joinable());
    }
  };
  for (const int workers : {1, 2, 4})
    for (int i = 0; i < 20; ++i) {
      on_workers(workers, body); // which goes on until none is left
      ASSERT_EQ(done, 3);
    }
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 3, .simulation = &world});
    ASSERT_EQ(s.run(body), 0u);
    ASSERT_EQ(done, 3) << "seed " << seed;
    ASSERT_EQ(s.live_fibers(), 0u);
  }
}

TEST(fiber, join_rethrows) {
  everywhere_briefly([] {
    fiber quick([] { throw std::domain_error("quick"); });
    fiber slow([] {
      this_fiber::yield();
      throw 42;
    });
    try {
      slow.join();
      ADD_FAILURE();
    } catch (int n) {
      EXPECT_EQ(n, 42);
    }
    EXPECT_FALSE(slow.joinable());
    EXPECT_THROW(quick.join(), std::domain_error);
    EXPECT_FALSE(quick.joinable());
  });
}

TEST(fiber, its_destructor_stops_and_joins) {
  everywhere_briefly([] {
    int turns = 0;
    bool ended = false;
    {
      fiber f([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          ++turns;
          this_fiber::yield();
        }
        ended = true;
      });
      EXPECT_TRUE(f.get_stop_token().stop_possible());
      this_fiber::yield();
    }
    EXPECT_TRUE(ended);
    fiber asked([](const std::stop_token& stop) { this_fiber::sleep_for(1h, stop); });
    EXPECT_TRUE(asked.request_stop());
    EXPECT_FALSE(asked.request_stop());
    asked.join();
    fiber deaf([] {});
    EXPECT_FALSE(deaf.request_stop());
    EXPECT_FALSE(deaf.get_stop_token().stop_possible());
  });
}

TEST(fiber, moving) {
  everywhere_briefly([] {
    std::array<bool, 2> ended{};
    fiber a([&] { ended[0] = true; }), b([&](const std::stop_token&stop) {
      this_fiber::sleep_for(1h, stop);
      ended[1] = true;
    });
    const auto id = a.id();
    fiber c = std::move(a);
    EXPECT_FALSE(a.joinable()); // NOLINT: that is what it promises
    EXPECT_EQ(c.id(), id);
    b = std::move(c); // ends what it was
    EXPECT_TRUE(ended[1]);
    EXPECT_EQ(b.id(), id);
    b.join();
    EXPECT_TRUE(ended[0]);
  });
}

TEST(fiber, an_exception_that_a_destructor_meets_is_logged) {
  testing::internal::CaptureStderr();
  on_workers(1, [] {
    fiber a([] { throw std::runtime_error("of a"); }, {.name = "unhappy"});
    fiber b([] { throw 1; });
  });
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("'unhappy', joined by its handle's destructor, had thrown: of a"), HasSubstr("had thrown\n")));
}

TEST(fiber, destroying_ones_own_handle_detaches) {
  testing::internal::CaptureStderr();
  bool done = false;
  on_workers(2, [&] {
    latch set(1), over(1);
    auto* handle = new fiber;
    *handle = fiber(
        [&] {
          set.wait();
          delete handle;
          done = true;
          over.count_down();
        },
        {.name = "own"});
    set.count_down();
    over.wait();
  });
  EXPECT_TRUE(done);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("'own' destroyed its own handle: it is detached"));
}

TEST(fiber, misuse_is_an_error) {
  everywhere_briefly(
      [] {
        fiber none;
        EXPECT_THAT(text_of(errc::invalid_state, [&] { none.join(); }),
                    HasSubstr("join was called on a fiber that is not"));
        EXPECT_THAT(text_of(errc::invalid_state, [&] { none.detach(); }), HasSubstr("detach was called"));
        fiber f([] {});
        f.join();
        EXPECT_THAT(text_of(errc::invalid_state, [&] { f.join(); }), HasSubstr("joined, detached, moved from"));
        EXPECT_THAT(text_of(errc::invalid_state, [&] { f.detach(); }), HasSubstr("not joinable"));
        fiber g([] {});
        g.detach();
        EXPECT_THAT(text_of(errc::invalid_state, [&] { g.detach(); }), HasSubstr("not joinable"));
        EXPECT_THAT(text_of(errc::invalid_state, [&] { g.join(); }), HasSubstr("not joinable"));
      },
      2);
}

TEST(fiber, cannot_join_itself) {
  everywhere_briefly([] {
    latch set(1), tried(1);
    fiber f;
    f = fiber(
        [&] {
          set.wait();
          EXPECT_THAT(text_of(errc::deadlock, [&] { f.join(); }), HasSubstr("'narcissus' joins itself"));
          tried.count_down();
        },
        {.name = "narcissus"});
    set.count_down();
    tried.wait();
    EXPECT_TRUE(f.joinable()); // nothing has happened to it
    f.join();
  });
}

TEST(fiber, options_that_cannot_be) {
  const auto bad = [](const fiber_options& options) {
    return text_of(errc::invalid_argument, [&] { fiber f([] { ADD_FAILURE() << "it ran"; }, options); });
  };
  scheduler s({.workers = 2, .name = "test"});
  EXPECT_EQ(s.run([&] {
    EXPECT_THAT(bad({.worker = 2}),
                AllOf(HasSubstr("on worker 2, but there are 2"), HasSubstr("0 to 1"), HasSubstr("fiber_test.cpp")));
    EXPECT_THAT(bad({.worker = -2}), HasSubstr("worker -2"));
    EXPECT_THAT(bad({.worker = 70000}), HasSubstr("worker 70000"));
    EXPECT_THAT(bad({.stack_bytes = std::size_t{1} << 40}), HasSubstr("2^36"));
    EXPECT_THAT(text_of(errc::invalid_argument, [&] { s.spawn([] {}, {.worker = 3}); }), HasSubstr("worker 3"));
    std::thread([&] {
      EXPECT_THAT(text_of(errc::invalid_argument, [&] { s.spawn([] {}, {.worker = 4}); }), HasSubstr("worker 4"));
    }).join();
    EXPECT_EQ(s.live_fibers(), 1u); // main
  }),
            0u);
}

// Names, sizes, numbers -----------------------------------------------------------------------------------------------

TEST(fiber, names_and_numbers) {
  everywhere_briefly(
      [] {
        EXPECT_EQ(this_fiber::name(), "main");
        std::set<std::uint64_t> ids{this_fiber::id()};
        std::vector<fiber> all;
        for (int i = 0; i < 20; ++i) {
          const std::string name(static_cast<std::size_t>(i) * 5, static_cast<char>('a' + i)); // gone before it runs
          all.emplace_back(
              [i] {
                EXPECT_EQ(this_fiber::name(), std::string(std::min<std::size_t>(47, static_cast<std::size_t>(i) * 5),
                                                          static_cast<char>('a' + i)));
              },
              fiber_options{.name = name});
        }
        for (auto& f : all) {
          EXPECT_TRUE(ids.insert(f.id()).second);
          f.join();
        }
        std::uint64_t inside = 0;
        fiber f([&] { inside = this_fiber::id(); });
        const auto id = f.id();
        f.join();
        EXPECT_EQ(inside, id);
        EXPECT_TRUE(ids.insert(id).second);
        EXPECT_EQ(ids.count(0), 0u);
      },
      3);
  EXPECT_EQ(this_fiber::name(), ""); // a foreign thread
  EXPECT_EQ(this_fiber::id(), 0u);
}

TEST(fiber, numbers_are_never_used_twice) {
  scheduler s({.workers = 4, .name = "test"});
  std::mutex guard; // held for no suspension
  std::set<std::uint64_t> ids;
  const auto note = [&] {
    const std::lock_guard hold(guard);
    EXPECT_TRUE(ids.insert(this_fiber::id()).second);
  };
  s.run([&] {
    std::thread outside([&] {
      for (int i = 0; i < 500; ++i) s.spawn(note);
    });
    std::vector<fiber> all;
    for (int i = 0; i < 20; ++i)
      all.emplace_back([&] {
        for (int k = 0; k < 50; ++k) fiber(note).join();
        for (int k = 0; k < 50; ++k) s.spawn(note);
      });
    for (auto& f : all) f.join();
    outside.join();
  });
  EXPECT_EQ(ids.size(), 2500u);
}

TEST(fiber, large_bodies) {
  everywhere_briefly(
      [] {
        auto count = std::make_shared<int>(0);
        std::array<char, 40'000> large{};
        large.back() = 'x';
        fiber f([large, count] {
          this_fiber::yield();
          EXPECT_EQ(large.back(), 'x');
          ++*count;
        });
        f.join();
        EXPECT_EQ(*count, 1);
        EXPECT_EQ(count.use_count(), 1);
      },
      2);
}

TEST(fiber, a_body_that_cannot_be_copied) {
  struct throws {
    std::shared_ptr<int> held = std::make_shared<int>(0);
    std::array<char, 100'000> large{};
    throws() = default;
    throws(const throws&) { throw std::domain_error("copied"); }
    void operator()() const { ADD_FAILURE() << "it ran"; }
  };
  struct small_one : std::shared_ptr<int> {
    small_one() = default;
    small_one(const small_one& other) : std::shared_ptr<int>(other) { throw std::domain_error("copied"); }
    void operator()() const { ADD_FAILURE() << "it ran"; }
  };
  scheduler s({.workers = 1, .name = "test"});
  EXPECT_EQ(s.run([&] {
    const throws one;
    const small_one other;
    for (int i = 0; i < 1000; ++i) {
      EXPECT_THROW(fiber f(one), std::domain_error);
      EXPECT_THROW(fiber f(other), std::domain_error);
    }
    EXPECT_EQ(s.live_fibers(), 1u);
    EXPECT_LT(s.stacks().made, 10u); // each gave its stack back
  }),
            0u);
}

TEST(fiber, alignment) {
  struct alignas(64) line {
    std::array<char, 64> bytes{};
    void operator()() const { EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % 64, 0u); }
  };
  struct alignas(4096) page {
    std::array<char, 4096> bytes{};
    void operator()() const { ADD_FAILURE() << "it ran"; }
  };
  on_workers(1, [] {
    fiber(line{}).join();
    EXPECT_THAT(text_of(errc::unsupported, [] { fiber f(page{}); }),
                AllOf(HasSubstr("aligned to 4096 bytes"), HasSubstr("on the heap")));
    EXPECT_EQ(scheduler::current()->live_fibers(), 1u);
  });
}

TEST(fiber, thousands) {
  const int count = sanitized ? 2000 : 20'000;
  for (const int workers : {1, 4}) {
    scheduler s({.workers = workers, .stack_bytes = 16 * 1024, .name = "test"});
    std::atomic<int> ran{0};
    EXPECT_EQ(s.run([&] {
      latch go(1);
      std::vector<fiber> all;
      for (int i = 0; i < count; ++i)
        all.emplace_back([&] {
          go.wait();
          ++ran;
        });
      wait_until([&] { return s.live_fibers() == static_cast<std::size_t>(count) + 1; });
      go.count_down();
      while (!all.empty()) {
        all.back().join();
        all.pop_back();
      }
    }),
              0u);
    EXPECT_EQ(ran, count);
    EXPECT_GE(s.stacks().made, static_cast<std::size_t>(count));
  }
}

// Foreign threads -----------------------------------------------------------------------------------------------------

TEST(fiber, on_a_foreign_thread_says_what_to_do) {
  EXPECT_THAT(text_of(errc::invalid_state, [] { fiber f([] {}); }),
              AllOf(HasSubstr("not a worker"), HasSubstr("scheduler::spawn"), HasSubstr("fiber_test.cpp")));
}

TEST(fiber, foreign_threads_spawn_and_join) {
  for (const int workers : {1, 2, 4})
    for (int i = 0; i < 10; ++i) {
      scheduler s({.workers = workers, .name = "test"});
      EXPECT_EQ(s.run([&] {
        latch go(1), sleeps(1), over(1);
        std::atomic<int> where{-1};
        fiber ended([] {}), waits([&] { go.wait(); }), fails([&] {
          go.wait();
          throw std::domain_error("seen outside");
        });
        this_fiber::yield();
        std::thread outside(
            [&, ended = std::move(ended), waits = std::move(waits), fails = std::move(fails)]() mutable {
              ended.join();
              s.spawn([&] { where = scheduler::current_worker(); }, {.worker = workers - 1});
              sleeps.count_down();
              waits.join();
              EXPECT_THROW(fails.join(), std::domain_error);
              EXPECT_FALSE(fails.joinable());
              over.count_down();
            });
        sleeps.wait();
        for (int k = 0; k < i; ++k) this_fiber::yield();
        go.count_down();
        wait_until([&] { return where >= 0; });
        EXPECT_EQ(where, workers - 1);
        over.wait();
        outside.join();
      }),
                0u);
    }
}

TEST(fiber, a_foreign_thread_may_join_after_the_run) {
  scheduler s({.workers = 2, .name = "test"});
  fiber left;
  EXPECT_EQ(s.run([&] { left = fiber([] { throw std::domain_error("kept"); }); }), 0u);
  EXPECT_TRUE(left.joinable());
  EXPECT_THROW(left.join(), std::domain_error);
}

// Ends ----------------------------------------------------------------------------------------------------------------

TEST(fiber, an_exception_that_nobody_can_see_ends_the_program) {
  const auto ends = [](int number, const std::function<void()>& main) {
    const auto child = in_child(
        [&] {
          scheduler s({.workers = 2, .name = "test"});
          s.run([&] { main(); });
        },
        number);
    EXPECT_EQ(child.code, test_support::by_signal + SIGABRT) << child.all();
    EXPECT_THAT(child.err, AllOf(HasSubstr("'careless', made at "), HasSubstr("fiber_test.cpp"),
                                 HasSubstr("let an exception escape and is not joined: of no use")));
  };
  const auto careless = [] { throw std::runtime_error("of no use"); };
  ends(1, [&] { fiber(careless, {.name = "careless"}).detach(); });
  ends(2, [&] { scheduler::current()->spawn(careless, {.name = "careless"}); });
  ends(3, [&] { // it has ended when it is let go
    std::atomic<bool> ran{false};
    fiber f(
        [&] {
          ran = true;
          careless();
        },
        {.name = "careless"});
    wait_until([&] { return ran && scheduler::current()->live_fibers() == 1; });
    f.detach();
    this_fiber::sleep_for(1h); // it may be another worker that notices
  });
}

} // namespace
} // namespace tern
