// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sim.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <sys/personality.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/task/parallel_sort.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/task_group.hpp>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/in_child.hpp"
#include "tests/task/support/simulate.hpp"
#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::charge_and_yield;
using test_support::in_child;
using test_support::on_workers;
using test_support::sanitized;
using test_support::simulate;
using test_support::step;
using test_support::text_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// What a run was.
struct trace {
  std::uint64_t hash, events;
  double seconds;
  bool operator==(const trace&) const = default;
};
std::ostream& operator<<(std::ostream& out, const trace& t) {
  return out << std::hex << t.hash << std::dec << ' ' << t.events << ' ' << t.seconds;
}

/// A bit of everything that a seed has to decide.
trace run_mixture(std::uint64_t seed, double charged = 1e-6, double preempt = 0.125) {
  sim::simulation world({.seed = seed, .preempt = preempt});
  scheduler s({.workers = 3, .name = "mixture", .simulation = &world});
  const std::size_t stuck = s.run([charged] {
    mutex m;
    condition_variable changed;
    channel<std::unique_ptr<int>> queue(2);
    semaphore permits(1);
    promise<int> started;
    auto start = started.get_future().share();
    long sum = 0;
    std::vector<fiber> all;
    for (int i = 0; i < 6; ++i)
      all.emplace_back([&, i] {
        start.wait();
        sim::charge(charged * i);
        this_fiber::sleep_for(std::chrono::microseconds(i));
        for (int k = 0; k < 3; ++k) {
          queue.push(std::make_unique<int>(k));
          const std::unique_lock hold(m);
          sum += k;
          changed.notify_all();
        }
      });
    all.emplace_back([&] {
      for (int i = 0; i < 18; ++i) {
        permits.acquire();
        sum += *queue.pop().value() * 0;
        permits.release();
      }
    });
    started.set_value(1);
    {
      std::unique_lock hold(m);
      changed.wait_for(hold, 1us);
      changed.wait(hold, [&] { return sum == 18; });
    }
    std::atomic<int> done{0};
    parallel_for(0, 50, [&](int i) { done += i; });
    task_group g;
    for (int i = 0; i < 5; ++i)
      g.run([&] {
        this_fiber::yield();
        ++done;
      });
    g.wait();
    EXPECT_EQ(done, 49 * 50 / 2 + 5);
    for (auto& f : all) f.join();
    EXPECT_EQ(async([] { return 6; }).get(), 6);
  });
  EXPECT_EQ(stuck, 0u);
  return {world.trace_hash(), world.events(), world.seconds()};
}

// Replay --------------------------------------------------------------------------------------------------------------

TEST(sim, a_seed_gives_the_same_run_again) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const trace first = run_mixture(seed);
    const auto something = std::make_unique<std::array<char, 12345>>(); // elsewhere in memory
    EXPECT_EQ(run_mixture(seed), first) << "seed " << seed;
    EXPECT_GT(first.events, 30u);
  }
}

TEST(sim, in_another_process_too) {
  const auto print = [] {
    std::string text;
    for (const std::uint64_t seed : {1, 2, 42, 1'000'000'007}) {
      const trace t = run_mixture(seed);
      char line[128];
      std::snprintf(line, sizeof line, "trace %016" PRIx64 " %" PRIu64 " %.17g\n", t.hash, t.events, t.seconds);
      text += line;
    }
    return text;
  };
  const auto body = [&] {
    std::printf("heap %p\n%s.\n", static_cast<void*>(std::make_unique<int>().get()), print().c_str());
  };
  const auto first = in_child(body, 0);
  const auto second = in_child(body, 1);
  ASSERT_EQ(first.code, 0) << first.all();
  ASSERT_EQ(second.code, 0) << second.all();
  const auto part = [](const std::string& text, const char* begin, const char* end) {
    const auto from = text.find(begin), to = text.find(end, from);
    return from == std::string::npos || to == std::string::npos ? "nothing in " + text : text.substr(from, to - from);
  };
  EXPECT_EQ(part(first.out, "trace", "."), part(second.out, "trace", "."));
  EXPECT_EQ(part(first.out, "trace", "\n."), part(print() + ".", "trace", "\n."));
  char randomize = '0';
  std::ifstream("/proc/sys/kernel/randomize_va_space") >> randomize;
  if (!sanitized && randomize != '0' && (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0) {
    EXPECT_NE(part(first.out, "heap", "\n"), part(second.out, "heap", "\n")) << "the addresses were to differ";
  }
}

TEST(sim, seeds_differ) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) hashes.insert(run_mixture(seed).hash);
  EXPECT_EQ(hashes.size(), 200u);
}

TEST(sim, the_hash_is_of_what_happens) {
  EXPECT_NE(run_mixture(3).hash, run_mixture(3, 2e-6).hash);
  const auto hash = [](int fibers, int yields, std::chrono::nanoseconds sleep) {
    sim::simulation world({.seed = 9});
    scheduler s({.workers = 2, .simulation = &world});
    s.run([&] {
      for (int i = 0; i < fibers; ++i) fiber([&] { this_fiber::sleep_for(sleep); }).join();
      for (int i = 0; i < yields; ++i) this_fiber::yield();
    });
    return world.trace_hash();
  };
  const std::set<std::uint64_t> all = {hash(1, 1, 1us), hash(2, 1, 1us), hash(1, 2, 1us), hash(1, 1, 2us)};
  EXPECT_EQ(all.size(), 4u);
}

TEST(sim, random_numbers_are_from_the_seed) {
  const auto numbers = [](std::uint64_t seed) {
    sim::simulation world({.seed = seed});
    std::vector<std::uint64_t> all;
    for (int i = 0; i < 100; ++i) all.push_back(world.random());
    return all;
  };
  EXPECT_EQ(numbers(5), numbers(5));
  EXPECT_NE(numbers(5), numbers(6));
  const auto some = numbers(5);
  EXPECT_EQ(std::set(some.begin(), some.end()).size(), 100u);
  EXPECT_EQ(sim::simulation({.seed = 77}).seed(), 77u);
}

TEST(sim, without_preemption) {
  EXPECT_EQ(run_mixture(4, 1e-6, 0), run_mixture(4, 1e-6, 0));
  EXPECT_NE(run_mixture(4, 1e-6, 0).hash, run_mixture(5, 1e-6, 0).hash);
  EXPECT_EQ(run_mixture(4, 1e-6, 0.9), run_mixture(4, 1e-6, 0.9));
}

TEST(sim, refuses_settings_out_of_range) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const double p : {-0.1, 1.0, 2.0, nan, infinity})
    EXPECT_THAT(text_of(errc::invalid_argument, [&] { sim::simulation({.preempt = p}); }),
                HasSubstr("preempt must be"));
  for (const double t : {0.0, -1e-9, 1.0, nan, infinity})
    EXPECT_THAT(text_of(errc::invalid_argument, [&] { sim::simulation({.step_seconds = t}); }),
                HasSubstr("step_seconds must be"));
}

// Time ----------------------------------------------------------------------------------------------------------------

TEST(sim, outside_of_one) {
  EXPECT_FALSE(sim::active());
  sim::charge(1e6);
  { const sim::outside_world announced; }
  on_workers(2, [] {
    EXPECT_FALSE(sim::active());
    sim::charge(1e6);
    const sim::outside_world announced;
  });
  simulate(2, [] {
    EXPECT_TRUE(sim::active());
    fiber([] { EXPECT_TRUE(sim::active()); }).join();
    task_group g;
    g.run([] { EXPECT_TRUE(sim::active()); });
    g.wait();
  });
  EXPECT_FALSE(sim::active());
}

// Surprises -----------------------------------------------------------------------------------------------------------

void block() { ::usleep(3000); } // what is under test

TEST(sim, notices_system_calls_that_block) {
  sim::simulation world({.seed = 31});
  scheduler s({.workers = 2, .simulation = &world});
  s.run([] {
    fiber(block, {.name = "sleepy"}).join();
    fiber([] { this_fiber::sleep_for(1s); }, {.name = "innocent"}).join();
    task_group g;
    g.run([] { block(); });
    g.wait();
  });
  ASSERT_GE(world.surprises().size(), 2u);
  EXPECT_THAT(world.surprises()[0], AllOf(HasSubstr("'sleepy' made a system call that blocked"), HasSubstr("seed 31"),
                                          HasSubstr("outside_world")));
  for (const auto& line : world.surprises()) EXPECT_THAT(line, Not(HasSubstr("'innocent'")));
}

// The announcement is over before the simulated executor looks, unless the fiber suspends
// meanwhile.
TEST(sim, announced_ones_are_no_surprise) {
  sim::simulation world;
  scheduler s({.workers = 2, .simulation = &world});
  s.run([] {
    fiber(
        [] {
          const sim::outside_world announced;
          block();
          const sim::outside_world again;
          block();
        },
        {.name = "announced"})
        .join();
    this_fiber::yield();
  });
  EXPECT_THAT(world.surprises(), IsEmpty());
}

// Schedulers ----------------------------------------------------------------------------------------------------------

TEST(sim, main_that_waits_for_ever) {
  for (std::uint64_t seed = 4711; seed < 4731; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 2, .simulation = &world});
    const std::string text = text_of(errc::deadlock, [&] {
      s.run([] {
        semaphore never(0);
        fiber f([&] { never.acquire(); }, {.name = "hopeless"});
        f.join();
      });
    });
    EXPECT_THAT(text, AllOf(HasSubstr("'main'"), HasSubstr("'hopeless'"), HasSubstr("semaphore"),
                            HasSubstr("seed " + std::to_string(seed)), HasSubstr("sim_test.cpp:")));
    scheduler next({.simulation = &world}); // the world goes on
    EXPECT_EQ(next.run([] {}), 0u);
  }
}

// A scheduler's fibers stand in the simulation's queue before `run` has looked whether it may.
TEST(sim, one_scheduler_at_a_time) {
  sim::simulation world;
  scheduler outer({.workers = 2, .simulation = &world});
  bool ran = false;
  EXPECT_EQ(outer.run([&] {
    scheduler inner({.workers = 1, .simulation = &world});
    EXPECT_THAT(text_of(errc::invalid_state, [&] { inner.run([&] { ran = true; }); }),
                HasSubstr("one scheduler at a time"));
    this_fiber::yield();
  }),
            0u);
  EXPECT_FALSE(ran);
}

TEST(sim, spawned_from_outside_before_run) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 3, .simulation = &world});
    int ran = 0, bound = 0;
    for (int i = 0; i < 5; ++i) s.spawn([&] { ++ran; }, {.name = "early"});
    s.spawn([&] { bound += scheduler::current_worker() == 2; }, {.worker = 2});
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(s.run([&] { scheduler::current()->spawn([&] { ++ran; }); }), 0u);
    EXPECT_EQ(ran, 6);
    EXPECT_EQ(bound, 1);
  }
}

TEST(sim, pinned_fibers_stay) {
  std::set<int> free_ones;
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    simulate(4,
             [&] {
               std::vector<fiber> all;
               for (int w = 0; w < 4; ++w)
                 all.emplace_back(
                     [w] {
                       for (int i = 0; i < 5; ++i) {
                         EXPECT_EQ(scheduler::current_worker(), w);
                         i % 2 ? this_fiber::yield() : this_fiber::sleep_for(1us);
                       }
                     },
                     fiber_options{.worker = w});
               all.emplace_back([&] {
                 for (int i = 0; i < 5; ++i, this_fiber::yield()) free_ones.insert(scheduler::current_worker());
               });
               for (auto& f : all) f.join();
             },
             {.seed = seed});
  EXPECT_THAT(free_ones, ElementsAre(0, 1, 2, 3));
}

TEST(sim, workers_steal) {
  std::set<std::vector<int>> ways;
  int shared = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 3, .simulation = &world});
    std::vector<int> where(12, -1);
    s.run([&] {
      task_group g;
      for (auto& w : where)
        g.run([&w] {
          charge_and_yield(1e-6);
          w = scheduler::current_worker();
        });
      g.wait();
    });
    EXPECT_EQ(std::count(where.begin(), where.end(), -1), 0);
    ways.insert(where);
    shared += std::set(where.begin(), where.end()).size() > 1;
  }
  EXPECT_GT(ways.size(), 25u);
  EXPECT_GT(shared, 25);
}

// They are counted where real workers steal.
TEST(sim, steals_are_counted) {
  std::uint64_t stolen = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 3, .simulation = &world});
    s.run([] { parallel_for(0, 20, [](int) { charge_and_yield(1e-6); }, {.grain = 1}); });
    stolen += s.counters().stolen;
  }
  EXPECT_GT(stolen, 0u);
}

TEST(sim, parallel_algorithms_are_right) {
  test_support::simulated(
      [] {
        std::vector<int> v(3000);
        std::uint32_t x = 1;
        for (int& i : v) i = static_cast<int>((x = x * 1664525 + 1013904223) >> 8);
        auto sorted = v;
        std::sort(sorted.begin(), sorted.end());
        parallel_sort(v.begin(), v.end());
        EXPECT_EQ(v, sorted);
        std::vector<int> marks(500);
        parallel_for(0, 500, [&](int i) { marks[static_cast<std::size_t>(i)] += i; }, {.grain = 7});
        EXPECT_EQ(std::accumulate(marks.begin(), marks.end(), 0), 499 * 500 / 2);
        const std::function<long(int)> fib = [&](int n) -> long {
          if (n < 2) return n;
          long a = 0;
          task_group g;
          g.run([&a, &fib, n] { a = fib(n - 1); });
          const long b = fib(n - 2);
          g.wait();
          return a + b;
        };
        EXPECT_EQ(fib(9), 34);
      },
      3, sanitized ? 50 : 300);
}

} // namespace
} // namespace tern
