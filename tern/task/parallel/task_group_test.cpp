// SPDX-License-Identifier: Apache-2.0
#include <tern/task/task_group.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/sync.hpp"
#include <tern/base/error.hpp>
#include <tern/task/sync.hpp>

namespace tern {
namespace {

using test_support::text_of;

long fib(int n) {
  if (n < 2) return n;
  long a = 0, b = 0;
  task_group g;
  g.run([&a, n] { a = fib(n - 1); });
  b = fib(n - 2);
  g.wait();
  return a + b;
}

struct machine_kind {
  int workers;
  bool membarrier;
};

class on_machine : public testing::TestWithParam<machine_kind> {
protected:
  scheduler::settings with() const {
    return {.workers = GetParam().workers, .name = "test", .membarrier = GetParam().membarrier};
  }
  std::size_t run(unique_function<void()> main) const {
    scheduler s(with());
    return s.run(std::move(main));
  }
};

TEST_P(on_machine, recursion_with_a_tasklet_for_every_call) {
  long got = 0;
  run([&] { got = fib(20); });
  EXPECT_EQ(got, 6765);
}

TEST_P(on_machine, closures_of_every_size_run_once_and_are_destroyed) {
  struct throws_on_move {
    std::shared_ptr<int> count;
    throws_on_move(std::shared_ptr<int> c) : count(std::move(c)) {}
    throws_on_move(const throws_on_move& other) : count(other.count) {}
  };
  auto alive = std::make_shared<int>(0);
  std::atomic<int> sum{0};
  run([&] {
    task_group g;
    std::array<char, 40> small{};
    std::array<char, 100> medium{};
    std::array<char, 1000> large{};
    small.back() = medium.back() = large.back() = 1;
    struct alignas(64) aligned {
      char c = 1;
    } wide;
    g.run([&sum, small, alive] { sum += small.back(); });
    g.run([&sum, medium, alive] { sum += medium.back(); });
    g.run([&sum, large, alive] { sum += large.back(); });
    g.run([&sum, wide, alive] {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&wide) % 64, 0u);
      sum += wide.c;
    });
    g.run([&sum, t = throws_on_move(alive)] { sum += t.count ? 1 : 0; });
    g.run([&sum, p = std::make_unique<int>(1), alive] { sum += *p; });
    const std::function<void()> f = [&sum, alive] { ++sum; };
    g.run(f);
    g.wait();
  });
  EXPECT_EQ(sum, 7);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST_P(on_machine, very_many_tasklets_at_once) {
  std::atomic<int> ran{0};
  run([&] {
    task_group g;
    for (int i = 0; i < 100'000; ++i) g.run([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
    g.wait();
  });
  EXPECT_EQ(ran, 100'000);
}

// Each tasklet spawns into the group it belongs to, from whatever worker.
TEST_P(on_machine, tasklets_spawn_into_their_own_group) {
  std::atomic<int> ran{0};
  run([&] {
    task_group g;
    std::function<void(int)> grow = [&](int depth) {
      ++ran;
      if (depth == 0) return;
      for (int i = 0; i < 3; ++i) g.run([&grow, depth] { grow(depth - 1); });
    };
    g.run([&] { grow(7); });
    g.wait();
    EXPECT_EQ(ran, (6561 - 1) / 2);
    ran = 0;
    grow(3); // the group can be used again
    g.wait();
    EXPECT_EQ(ran, 40);
  });
}

TEST_P(on_machine, a_group_on_the_heap) {
  std::atomic<int> ran{0};
  run([&] {
    auto g = std::make_unique<task_group>();
    for (int i = 0; i < 5000; ++i) g->run([&] { ++ran; });
    g->wait();
    EXPECT_EQ(ran, 5000);
  });
}

TEST_P(on_machine, exceptions_cancel_and_are_counted) {
  std::atomic<int> ran{0};
  run([&] {
    task_group g;
    for (int i = 0; i < 100; ++i)
      g.run([&, i] {
        ++ran;
        throw std::runtime_error("tasklet " + std::to_string(i));
      });
    try {
      g.wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_THAT(e.what(), testing::StartsWith("tasklet "));
    }
    EXPECT_EQ(g.failures(), static_cast<std::size_t>(ran));
    EXPECT_GE(ran, 1);
    ran = 0;
    g.run([&] { ++ran; });
    EXPECT_EQ(g.wait(), group_status::complete);
    EXPECT_EQ(ran, 1);
  });
}

TEST_P(on_machine, exceptions_of_nested_groups_travel_outwards) {
  run([&] {
    task_group outer;
    for (int i = 0; i < 50; ++i)
      outer.run([] {
        task_group inner;
        for (int k = 0; k < 10; ++k)
          inner.run([k] {
            if (k == 7) throw std::domain_error("inner");
          });
        inner.wait();
      });
    EXPECT_THROW(outer.wait(), std::domain_error);
  });
}

TEST_P(on_machine, cancel_drops_what_has_not_begun) {
  std::atomic<int> ran{0};
  run([&] {
    task_group g;
    latch begun(1), cancelled(1);
    g.run([&] {
      begun.count_down();
      cancelled.wait();
      EXPECT_TRUE(g.cancelled());
    });
    std::thread other([&] {
      begun.wait();
      g.cancel();
      cancelled.count_down();
    });
    EXPECT_EQ(g.wait(), group_status::cancelled);
    other.join();
    g.cancel();
    for (int i = 0; i < 100; ++i) g.run([&] { ++ran; });
    EXPECT_EQ(g.wait(), group_status::cancelled);
    EXPECT_EQ(ran, 0);
    g.run([&] { ++ran; });
    EXPECT_EQ(g.wait(), group_status::complete);
    EXPECT_EQ(ran, 1);
  });
}

TEST_P(on_machine, handles_give_results_and_exceptions) {
  run([&] {
    task_group g;
    std::vector<future<int>> all;
    for (int i = 0; i < 100; ++i)
      all.push_back(g.async([i] {
        if (i == 50) throw std::out_of_range("fifty");
        return i;
      }));
    int sum = 0;
    for (int i = 0; i < 100; ++i) {
      if (i == 50)
        EXPECT_THROW(all[50].get(), std::out_of_range);
      else
        sum += all[static_cast<std::size_t>(i)].get();
    }
    EXPECT_EQ(sum, 4950 - 50);
    EXPECT_EQ(g.wait(), group_status::complete);
  });
}

// The literature's live-lock: had the waiter run an unrelated tasklet on its stack, that one would
// bury it.
TEST_P(on_machine, tasklets_may_block_on_each_other) {
  run([&] {
    latch first(1), second(1), third(1);
    task_group g;
    g.run([&] {
      task_group inner;
      inner.run([&] { third.wait(); });
      first.count_down();
      inner.wait();
    });
    g.run([&] {
      first.wait();
      second.count_down();
    });
    g.run([&] {
      second.wait();
      third.count_down();
    });
    g.wait();
  });
}

TEST_P(on_machine, waiting_does_not_run_others_work_on_its_stack) {
  run([&] {
    mutex m;
    std::atomic<int> done{0};
    task_group outer;
    for (int i = 0; i < 20; ++i)
      outer.run([&] {
        std::lock_guard hold(m); // a helper that ran a brother here would wait for itself
        task_group inner;
        for (int k = 0; k < 20; ++k) inner.run([&] { ++done; });
        inner.wait();
      });
    outer.wait();
    EXPECT_EQ(done, 400);
  });
}

TEST_P(on_machine, foreign_threads_join_in) {
  std::atomic<int> ran{0};
  scheduler s(with());
  s.run([&] {
    latch all(2);
    const auto visitor = [&] {
      {
        task_group g(s);
        for (int i = 0; i < 2000; ++i)
          g.run([&] {
            task_group inner;
            inner.run([&] { ++ran; });
            inner.wait();
          });
        EXPECT_EQ(g.wait(), group_status::complete);
        g.run([] { throw std::runtime_error("seen outside"); });
        EXPECT_THROW(g.wait(), std::runtime_error);
      }
      all.count_down();
    };
    std::thread a(visitor), b(visitor);
    all.wait();
    a.join();
    b.join();
  });
  EXPECT_EQ(ran, 4000);
}

TEST_P(on_machine, groups_inside_many_fibers) {
  std::atomic<long> sum{0};
  run([&] {
    std::vector<future<void>> all;
    for (int i = 0; i < 50; ++i) all.push_back(async([&] { sum += fib(12); }));
    for (auto& f : all) f.get();
  });
  EXPECT_EQ(sum, 50 * 144);
}

TEST_P(on_machine, parallel_invoke_calls_all) {
  run([&] {
    int a = 0, b = 0, c = 0;
    parallel_invoke([&] { a = 1; }, [&] { b = 2; }, [&] { c = 3; });
    EXPECT_EQ(a + b + c, 6);
    EXPECT_THROW(parallel_invoke([] {}, [] { throw std::logic_error("one"); }), std::logic_error);
    EXPECT_THROW(parallel_invoke([] { throw std::logic_error("first"); }, [] {}), std::logic_error);
  });
}

TEST_P(on_machine, deep_recursion_on_small_stacks) {
  scheduler::settings cfg = with();
  cfg.stack_bytes = 64 * 1024;
  scheduler s(cfg);
  long got = 0;
  s.run([&] { got = fib(24); });
  EXPECT_EQ(got, 46368);
}

// Two fibers that wake each other for ever, and one that only gives way, must not keep others from
// running.
TEST_P(on_machine, busy_fibers_starve_neither_tasklets_nor_spawners) {
  for (const bool many : {false, true})
    run([&] {
      std::atomic<bool> done{false};
      mutex m;
      condition_variable turned;
      int turn = 0;
      const auto ping_pong = [&](int me) {
        std::unique_lock hold(m);
        while (!done) {
          turned.wait(hold, [&] { return turn == me || done; });
          turn = 1 - me;
          turned.notify_all();
        }
      };
      std::vector<future<void>> all;
      for (const int me : {0, 1}) all.push_back(async([&, me] { ping_pong(me); }));
      all.push_back(async([&] {
        while (!done) this_fiber::yield();
      }));
      all.push_back(async([&] {
        latch ran(1);
        task_group g;
        for (int i = 0; i < (many ? 2000 : 0); ++i) g.run([] {});
        g.run([&] { ran.count_down(); });
        ran.wait();
        g.wait();
        done = true;
        std::lock_guard hold(m);
        turned.notify_all();
      }));
      for (auto& f : all) f.get();
    });
}

class counting_source : public event_source {
public:
  polled poll() override {
    ++polls;
    return polled::nothing;
  }
  void wait(std::chrono::microseconds at_most) override { std::this_thread::sleep_for(at_most); }
  void wake() noexcept override {}
  int polls = 0;
};

TEST(task_group, events_are_looked_at_while_a_fiber_computes_in_tasklets) {
  counting_source events;
  scheduler s({.workers = 1, .events = &events});
  s.run([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    task_group g;
    const int before = events.polls;
    while (std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 100; ++i) g.run([] {});
      g.wait();
    }
    EXPECT_GT(events.polls, before + 20);
  });
}

TEST_P(on_machine, waiting_for_oneself_is_an_error) {
  std::string inline_text, stolen_text, heap_text;
  run([&] {
    task_group g;
    g.run([&] { inline_text = text_of([&] { g.wait(); }); });
    g.wait();
    const std::unique_ptr<task_group> heap(new task_group); // make_unique would be the place named
    heap->run([&] { heap_text = text_of([&] { heap->wait(); }); });
    heap->wait();
    // In a tasklet that does not run on the waiter's stack.
    task_group h;
    latch done(1);
    h.run([&] {
      stolen_text = text_of([&] { h.wait(); });
      done.count_down();
    });
    done.wait();
    h.wait();
  });
  for (const auto& text : {inline_text, stolen_text, heap_text}) {
    EXPECT_THAT(text, testing::HasSubstr("own task"));
    EXPECT_THAT(text, testing::HasSubstr("wait for itself"));
    EXPECT_THAT(text, testing::HasSubstr("task_group_test.cpp")); // where the group was made
  }
}

TEST_P(on_machine, a_group_destroyed_unwaited_is_an_error) {
  std::string text;
  std::atomic<bool> quiet{false};
  run([&] {
    text = text_of([] {
      task_group g;
      g.run([] {});
    });
    try { // but not if an exception is on its way already
      task_group g;
      g.run([] {});
      throw std::runtime_error("the real one");
    } catch (const std::runtime_error& e) {
      quiet = e.what() == std::string("the real one");
    }
  });
  EXPECT_THAT(text, testing::HasSubstr("destroyed before its tasklets were waited for"));
  EXPECT_THAT(text, testing::HasSubstr("task_group_test.cpp"));
  EXPECT_TRUE(quiet);
  run([&] { // also if all its tasklets have been counted by others already
    text = text_of([] {
      latch done(1);
      auto* heap = new task_group;
      heap->run([&] { done.count_down(); });
      done.wait();
      delete heap;
    });
  });
  EXPECT_THAT(text, testing::HasSubstr("destroyed before"));
}

INSTANTIATE_TEST_SUITE_P(machines, on_machine,
                         testing::Values(machine_kind{1, true}, machine_kind{2, true}, machine_kind{5, true},
                                         machine_kind{1, false}, machine_kind{3, false}),
                         [](const auto& one) {
                           return std::to_string(one.param.workers) + (one.param.membarrier ? "w" : "w_fences");
                         });

TEST(task_group, on_a_foreign_thread_needs_a_scheduler) {
  const std::string text = text_of([] {
    task_group g;
    g.run([] {});
  });
  EXPECT_THAT(text, testing::HasSubstr("not a worker"));
  EXPECT_THAT(text, testing::HasSubstr("give the group its scheduler"));
}

TEST(task_group, memory_stays_flat) {
  scheduler s({.workers = 2});
  s.run([] {
    for (int round = 0; round < 20; ++round) {
      task_group g;
      for (int i = 0; i < 50'000; ++i) g.run([] {});
      g.wait();
    }
  });
  EXPECT_GT(s.counters().pauses, 0u); // the spawner was held back
}

} // namespace
} // namespace tern
