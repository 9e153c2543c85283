// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
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
#include <tern/task/task_group.hpp>

#include <tern/task/child_test.hpp>
#include <tern/task/executors_test.hpp>

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::in_child;
using test_support::on_workers;
using test_support::sanitized;
using testing::AllOf;
using testing::HasSubstr;

void everywhere(const std::function<void()>& body, int times = 20, std::uint64_t seeds = 1000) {
  for (const int workers : {1, 2, 4})
    for (int i = 0; i < times && !testing::Test::HasFailure(); ++i) on_workers(workers, body);
  test_support::simulated(body, 3, seeds);
}

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

// Life ----------------------------------------------------------------------------------------------------------------

TEST(fiber, joins) {
  everywhere([] {
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
  everywhere([] {
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
  everywhere([] {
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
  everywhere([] {
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
  everywhere([] {
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
  everywhere(
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
  everywhere([] {
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

// Priorities and giving way -------------------------------------------------------------------------------------------

TEST(fiber, priorities_decide_who_runs_first) {
  std::string order;
  on_workers(1, [&] {
    latch all(30);
    for (int i = 0; i < 10; ++i)
      for (const auto& [level, letter] :
           {std::pair{priority::low, 'l'}, std::pair{priority::normal, 'n'}, std::pair{priority::high, 'h'}})
        scheduler::current()->spawn(
            [&, letter = letter] {
              order += letter;
              all.count_down();
            },
            {.priority = level});
    all.wait();
  });
  EXPECT_EQ(order, std::string(10, 'h') + std::string(10, 'n') + std::string(10, 'l'));
}

TEST(fiber, an_awakened_one_goes_by_its_priority_too) {
  std::string order;
  on_workers(1, [&] {
    latch go(1), all(3);
    for (const auto& [level, letter] :
         {std::pair{priority::low, 'l'}, std::pair{priority::normal, 'n'}, std::pair{priority::high, 'h'}})
      scheduler::current()->spawn(
          [&, letter = letter] {
            go.wait();
            order += letter;
            all.count_down();
          },
          {.priority = level});
    this_fiber::sleep_for(1us); // they wait now: it comes back as the others do
    wait_until([&] { return scheduler::current()->live_fibers() == 4; });
    for (int i = 0; i < 10; ++i) this_fiber::yield();
    go.count_down();
    all.wait();
  });
  EXPECT_EQ(order, "hnl");
}

// Pairs of `busy` priority that wake each other for ever, and one of `patient` that must get its turns nevertheless.
void expect_no_starvation(priority busy, priority patient, int workers) {
  SCOPED_TRACE("priority " + std::to_string(static_cast<int>(busy)) + " against " +
               std::to_string(static_cast<int>(patient)));
  constexpr long enough = 1'000'000;
  std::atomic<bool> done{false};
  std::atomic<long> rounds{0};
  const auto over = [&] { return done || ++rounds > enough; };
  on_workers(workers, [&] {
    struct two {
      semaphore first{0}, second{0};
    };
    std::deque<two> ready(static_cast<std::size_t>(workers));
    std::vector<fiber> all;
    for (auto& r : ready) {
      all.emplace_back(
          [&] {
            while (!over()) {
              r.second.release();
              r.first.acquire();
            }
            r.second.release();
          },
          fiber_options{.priority = busy});
      all.emplace_back(
          [&] {
            while (!over()) {
              r.second.acquire();
              r.first.release();
            }
            r.first.release();
          },
          fiber_options{.priority = busy});
    }
    fiber waits(
        [&] {
          for (int i = 0; i < 5; ++i) this_fiber::yield();
          done = true;
        },
        {.priority = patient});
    for (auto& f : all) f.join();
    waits.join();
  });
  EXPECT_LE(rounds, enough);
}

TEST(fiber, no_priority_starves) {
  for (const int workers : {1, 2})
    for (const priority busy : {priority::high, priority::normal, priority::low})
      for (const priority patient : {priority::high, priority::normal, priority::low})
        expect_no_starvation(busy, patient, workers);
}

TEST(fiber, those_that_yield_take_turns) {
  constexpr std::size_t fibers = 5;
  constexpr int turns = 2000;
  std::array<int, fibers> had{};
  int most_ahead = 0;
  on_workers(1, [&] {
    std::vector<fiber> all;
    latch go(1);
    for (std::size_t i = 0; i < fibers; ++i)
      all.emplace_back([&, i] {
        go.wait();
        for (int k = 0; k < turns; ++k) {
          ++had[i];
          most_ahead = std::max(most_ahead, had[i] - *std::min_element(had.begin(), had.end()));
          this_fiber::yield();
        }
      });
    go.count_down();
    for (auto& f : all) f.join();
  });
  EXPECT_EQ(had, (std::array<int, fibers>{turns, turns, turns, turns, turns}));
  EXPECT_LE(most_ahead, 2); // 1, and one that had begun when the worker had a look around
}

// Each waits by asking for what only somebody of another kind can bring.
TEST(fiber, yielding_lets_everybody_run) {
  everywhere(
      [] {
        std::atomic<int> seen{0};
        const auto ask = [&] {
          while (seen < 5) this_fiber::yield();
        };
        fiber a(ask, {.priority = priority::high}), b(ask, {.worker = 0});
        const auto tell = [&] { ++seen; };
        fiber low(tell, {.priority = priority::low}), pinned(tell, {.worker = 0}), sleeper([&] {
          this_fiber::sleep_for(1us);
          tell();
        });
        task_group g;
        g.run(tell);
        scheduler::current()->spawn(tell);
        ask();
        g.wait();
        EXPECT_EQ(seen, 5);
      },
      5);
  on_workers(1, [] { // a foreign thread
    std::atomic<bool> came{false};
    scheduler& here = *scheduler::current();
    std::thread outside([&] { here.spawn([&] { came = true; }); });
    fiber other([&] {
      while (!came) this_fiber::yield();
    });
    while (!came) this_fiber::yield();
    outside.join();
  });
}

TEST(fiber, waits_until_something_is_so) {
  everywhere(
      [] {
        bool set = false;
        fiber setter(
            [&] {
              for (int i = 0; i < 3; ++i) this_fiber::yield();
              set = true;
            },
            {.worker = 0});
        fiber asker([&] { wait_until([&] { return set; }); }, {.worker = 0}); // one worker: a plain variable will do
        asker.join();
        EXPECT_TRUE(set);
        EXPECT_TRUE(wait_until([&] { return set; }, 0ns));
        EXPECT_FALSE(wait_until([] { return false; }, 1us));
        EXPECT_THROW(wait_until([]() -> bool { throw std::logic_error("asked"); }), std::logic_error);
      },
      5);
  std::atomic<bool> set{false};
  std::thread setter([&] { set = true; });
  wait_until([&] { return set.load(); }); // on a foreign thread
  EXPECT_TRUE(set);
  setter.join();
}

// Pinned fibers -------------------------------------------------------------------------------------------------------

TEST(fiber, pinned_ones_stay_where_they_are) {
  constexpr int workers = 4;
  const auto body = [] {
    mutex m;
    latch began(workers * 2);
    semaphore poke(0);
    std::vector<fiber> all;
    for (int i = 0; i < workers * 2; ++i) {
      const int mine = i % workers;
      all.emplace_back(
          [&, mine] {
            const auto here = [&] { return scheduler::current_worker() == mine; };
            EXPECT_TRUE(here());
            began.count_down();
            for (int k = 0; k < 3; ++k) {
              this_fiber::yield();
              EXPECT_TRUE(here());
              this_fiber::sleep_for(1us);
              EXPECT_TRUE(here());
              poke.acquire(); // released by a foreign thread, or by whoever
              EXPECT_TRUE(here());
              std::lock_guard hold(m);
              this_fiber::yield();
              EXPECT_TRUE(here());
            }
            fiber([] {}).join(); // who ends it would go on in us
            EXPECT_TRUE(here());
            fiber([] { this_fiber::yield(); }).join();
            EXPECT_TRUE(here());
            fiber other([] {}, {.worker = (mine + 1) % workers});
            other.join();
            EXPECT_TRUE(here());
            async([] { return 1; }).get();
            EXPECT_TRUE(here());
            task_group g;
            for (int t = 0; t < 5; ++t) g.run([] { this_fiber::yield(); });
            g.wait();
            EXPECT_TRUE(here());
          },
          fiber_options{.worker = mine});
    }
    began.wait();
    if (sim::active())
      poke.release(workers * 2 * 3);
    else
      std::thread([&] {
        for (int i = 0; i < workers * 2 * 3; ++i) poke.release();
      }).join();
    for (auto& f : all) f.join();
  };
  for (int i = 0; i < 10; ++i) on_workers(workers, body);
  test_support::simulated(body, workers, 300);
}

TEST(fiber, pinned_ones_are_not_stolen_from_a_busy_worker) {
  for (int i = 0; i < 20; ++i)
    on_workers(4, [] {
      std::atomic<bool> release{false};
      latch holds(1);
      int ran_on = -1;
      fiber holder(
          [&] {
            holds.count_down();
            while (!release) std::this_thread::yield(); // without giving way
          },
          {.worker = 1});
      holds.wait(); // woken there, so somebody must take us away from there
      fiber waits([&] { ran_on = scheduler::current_worker(); }, {.worker = 1});
      for (int k = 0; k < 100; ++k) fiber([] { this_fiber::yield(); }).join(); // others have every chance
      EXPECT_EQ(ran_on, -1);
      release = true;
      waits.join();
      EXPECT_EQ(ran_on, 1);
      holder.join();
    });
}

// Names, sizes, numbers -----------------------------------------------------------------------------------------------

TEST(fiber, names_and_numbers) {
  everywhere(
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
  everywhere(
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
                                 HasSubstr("let an exception escape and nobody joins it: of no use")));
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
