// SPDX-License-Identifier: Apache-2.0
/// \file
/// The scheduler and its tasklets under load and in the corners: steal storms, parking and waking,
/// cancelling, exceptions, foreign threads, memory.
#include <tern/task/parallel.hpp>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sync.hpp>

#include "stress.hpp"

namespace {

using stress::some;
using namespace tern;

long fib(int n) {
  if (n < 2) return n;
  long a = 0, b = 0;
  task_group g;
  g.run([&a, n] { a = fib(n - 1); });
  b = fib(n - 2);
  g.wait();
  return a + b;
}

void busy(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

class machines : public testing::TestWithParam<std::pair<int, bool>> {
protected:
  scheduler::settings with(std::chrono::microseconds spin = std::chrono::microseconds(-1)) const {
    return {.workers = GetParam().first, .spin = spin, .name = "stress", .membarrier = GetParam().second};
  }
};

TEST_P(machines, steal_storm) {
  stress::repeat(1, [&](int) {
    scheduler s(with());
    s.run([] {
      for (int i = 0; i < some(20); ++i) ASSERT_EQ(fib(20), 6765);
      std::atomic<long> sum{0};
      for (int i = 0; i < some(40); ++i) {
        task_group g;
        for (int k = 0; k < 3000; ++k) g.run([&sum] { sum.fetch_add(1, std::memory_order_relaxed); });
        g.wait();
      }
      ASSERT_EQ(sum, 3000L * some(40));
    });
  });
}

// Bursts with pauses in which the workers go to sleep, or are just about to.
TEST_P(machines, parking_races_with_waking) {
  stress::repeat(1, [&](int) {
    for (const int spin : {0, 20}) {
      scheduler s(with(std::chrono::microseconds(spin)));
      s.run([] {
        std::mt19937 random(11);
        for (int i = 0; i < some(3000); ++i) {
          std::atomic<int> ran{0};
          const int n = 1 + static_cast<int>(random() % 5);
          task_group g;
          for (int k = 0; k < n; ++k) g.run([&ran] { ++ran; });
          g.wait();
          ASSERT_EQ(ran, n);
          busy(std::chrono::microseconds(random() % 40));
        }
      });
    }
  });
}

// A tasklet that only ends once another has run, on another worker: hangs if one wake-up is lost.
TEST_P(machines, nobody_sleeps_while_there_is_work) {
  if (GetParam().first < 2) return;
  stress::repeat(1, [&](int) {
    scheduler s(with(std::chrono::microseconds(0)));
    s.run([] {
      std::mt19937 random(5);
      for (int i = 0; i < some(2000); ++i) {
        std::atomic<bool> other{false};
        task_group g;
        g.run([&] { other = true; });
        if (random() % 2) busy(std::chrono::microseconds(random() % 30));
        while (!other) // a body that spins, as users' do: the other tasklet is private to this worker
          if constexpr (stress::sanitized) std::this_thread::yield();
        g.wait();
      }
    });
  });
}

// As many bodies as workers, none of which ends before all have begun: every worker must find one,
// though at first all of them are private to one worker, which is in one of them itself.
TEST_P(machines, every_worker_is_woken_if_there_is_work_for_it) {
  const int workers = GetParam().first;
  stress::repeat(1, [&](int) {
    for (const int spin : {0, 50}) {
      scheduler s(with(std::chrono::microseconds(spin)));
      s.run([&] {
        for (int i = 0; i < some(300); ++i) {
          std::atomic<int> begun{0};
          const auto body = [&] {
            begun.fetch_add(1);
            while (begun.load() < workers) std::this_thread::yield();
          };
          task_group g;
          for (int k = 1; k < workers; ++k) g.run(body);
          body();
          g.wait();
          if (i % 3 == 0) busy(std::chrono::microseconds(i % 120));
        }
      });
    }
  });
}

TEST_P(machines, a_worker_with_a_yielding_fiber_still_helps) {
  if (GetParam().first < 2) return;
  stress::repeat(1, [&](int) {
    scheduler s(with());
    s.run([] {
      for (int i = 0; i < some(50); ++i) {
        std::atomic<bool> other{false};
        auto yielder = async([&] {
          while (!other) this_fiber::yield();
        });
        task_group g;
        g.run([&] { other = true; });
        while (!other) std::this_thread::yield(); // a long body
        g.wait();
        yielder.get();
      }
    });
  });
}

TEST_P(machines, cancelling_while_running) {
  stress::repeat(1, [&](int) {
    scheduler s(with());
    s.run([] {
      for (int i = 0; i < some(300); ++i) {
        std::atomic<int> begun{0}, ended{0};
        task_group g;
        for (int k = 0; k < 50; ++k)
          g.run([&, k] {
            ++begun;
            if (k == 25) g.cancel();
            task_group inner;
            for (int j = 0; j < 4; ++j) inner.run([] {});
            inner.wait();
            ++ended;
          });
        ASSERT_EQ(g.wait(), group_status::cancelled);
        ASSERT_EQ(begun, ended); // what began also ended
      }
    });
  });
}

TEST_P(machines, exceptions_from_nested_groups) {
  stress::repeat(1, [&](int) {
    scheduler s(with());
    s.run([] {
      for (int i = 0; i < some(100); ++i) {
        std::atomic<int> caught{0};
        task_group outer;
        for (int k = 0; k < 20; ++k)
          outer.run([&, k] {
            try {
              task_group inner;
              for (int j = 0; j < 10; ++j)
                inner.run([j, k] {
                  if ((j + k) % 3 == 0) throw std::runtime_error("inner");
                });
              inner.wait();
            } catch (const std::runtime_error&) {
              ++caught;
              throw;
            }
          });
        ASSERT_THROW(outer.wait(), std::runtime_error);
        ASSERT_GE(caught, 1);
        ASSERT_EQ(static_cast<int>(outer.failures()), caught);
      }
    });
  });
}

TEST_P(machines, foreign_threads_and_fibers_together) {
  stress::repeat(1, [&](int) {
    scheduler s(with());
    std::atomic<long> sum{0};
    s.run([&] {
      latch done(3);
      std::vector<std::thread> visitors;
      for (int v = 0; v < 3; ++v)
        visitors.emplace_back([&] {
          for (int i = 0; i < some(60); ++i) {
            task_group g(s);
            for (int k = 0; k < 20; ++k) g.run([&] { sum += fib(5); });
            g.wait();
          }
          done.count_down();
        });
      for (int i = 0; i < some(60); ++i) {
        std::vector<future<void>> all;
        for (int k = 0; k < 10; ++k)
          all.push_back(async([&] {
            sum += fib(6);
            this_fiber::yield();
            sum += fib(6);
          }));
        for (auto& f : all) f.get();
      }
      done.wait();
      for (auto& t : visitors) t.join();
    });
    ASSERT_EQ(sum, 3L * some(60) * 20 * 5 + some(60) * 10L * 16);
  });
}

// Schedulers end while an outside thread may still be inside a call that wakes their fibers.
TEST_P(machines, short_lives) {
  stress::repeat(1, [&](int) {
    for (int i = 0; i < some(200); ++i) {
      promise<int> p;
      auto f = p.get_future();
      std::thread outside([&p] { p.set_value(1); });
      {
        scheduler s(with(std::chrono::microseconds(i % 2 ? 0 : 20)));
        ASSERT_EQ(s.run([&f] { ASSERT_EQ(f.get(), 1); }), 0u);
      }
      outside.join();
    }
  });
}

TEST_P(machines, tasklets_that_block_each_other) {
  stress::repeat(1, [&](int) {
    scheduler s(with());
    s.run([] {
      mutex m[4];
      std::atomic<int> held{0};
      task_group g;
      for (int i = 0; i < some(2000); ++i)
        g.run([&, i] {
          std::lock_guard hold(m[i % 4]);
          if (i % 7 == 0) this_fiber::yield();
          task_group inner;
          inner.run([&] { ++held; });
          inner.wait();
        });
      g.wait();
      ASSERT_EQ(held, some(2000));
    });
  });
}

TEST_P(machines, thousands_of_fibers_that_each_spawn) {
  stress::repeat(1, [&](int) {
    scheduler::settings cfg = with();
    cfg.stack_bytes = std::size_t{stress::sanitized ? 128 : 16} * 1024; // their frames are larger
    scheduler s(cfg);
    std::atomic<int> ran{0};
    s.run([&] {
      std::vector<future<void>> all;
      for (int i = 0; i < some(5000); ++i)
        all.push_back(async([&] {
          task_group g;
          g.run([&] { ++ran; });
          this_fiber::yield();
          g.wait();
        }));
      for (auto& f : all) f.get();
    });
    ASSERT_EQ(ran, some(5000));
  });
}

TEST_P(machines, loops_and_graphs) {
  stress::repeat(1, [&](int) {
    scheduler s(with());
    s.run([] {
      for (int i = 0; i < some(100); ++i) {
        std::atomic<int> n{0};
        parallel_for(0, 1000,
                     [&](int k) {
                       if (k % 100 == 0) parallel_for(0, 50, [&](int) { ++n; });
                       ++n;
                     },
                     {.grain = 7});
        ASSERT_EQ(n, 1500);
        ASSERT_EQ(parallel_reduce(0, 1000, 0L, [](int k) { return long{k}; }, std::plus<>(), {.grain = 3}), 499'500);
      }
      task_graph graph;
      std::atomic<int> ran{0};
      std::vector<task_graph::node> nodes;
      std::mt19937 random(3);
      for (unsigned i = 0; i < 400; ++i) {
        nodes.push_back(graph.add([&] { ++ran; }));
        for (int k = 0; i > 0 && k < 3; ++k) graph.precede(nodes[random() % i], nodes[i]);
      }
      for (int i = 1; i <= some(100); ++i) {
        graph.run();
        ASSERT_EQ(ran, 400 * i);
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(all, machines,
                         testing::Values(std::pair(1, true), std::pair(2, true), std::pair(4, true), std::pair(9, true),
                                         std::pair(3, false)),
                         [](const auto& one) {
                           return std::to_string(one.param.first) + (one.param.second ? "w" : "w_fences");
                         });

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(memory, a_hundred_million_tasklets_need_no_more_than_a_million) {
  scheduler s({.workers = 2});
  s.run([] {
    const auto many = [](int n) {
      task_group g;
      for (int i = 0; i < n; ++i) g.run([] {});
      g.wait();
    };
    many(some(1'000'000));
    const std::size_t before = resident_bytes();
    for (int i = 0; i < (stress::sanitized ? 24 : 99); ++i) many(some(1'000'000));
    const std::size_t after = resident_bytes();
    EXPECT_LT(after, before + (std::size_t{stress::sanitized ? 200 : 8} << 20)); // sanitizers keep what is freed
  });
}

TEST(depth, fib_of_40_with_a_tasklet_for_every_call_on_64_KiB) {
  scheduler s({.workers = 2, .stack_bytes = std::size_t{64} * 1024});
  long got = 0;
  s.run([&] { got = fib(stress::sanitized ? 22 : 40); });
  EXPECT_EQ(got, stress::sanitized ? 17'711 : 102'334'155);
}

// With the usual limit on the stack of threads, in a process of its own.
TEST(depth, fib_of_40_under_8_MiB_of_thread_stack) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{8u << 20, 8u << 20};
    setrlimit(RLIMIT_STACK, &limit);
    long got = 0;
    {
      scheduler s({.workers = 2, .stack_bytes = std::size_t{8} << 20});
      s.run([&] { got = fib(stress::sanitized ? 20 : 34); });
    }
    _exit(got == (stress::sanitized ? 6765 : 5'702'887) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// A quota of one CPU, or a machine with one: all workers on the same one.
TEST(crowded, more_workers_than_cores) {
  scheduler s({.workers = 16, .cpus = std::vector<std::vector<int>>(16, {0})});
  std::atomic<long> sum{0};
  s.run([&] {
    for (int i = 0; i < some(10); ++i) {
      ASSERT_EQ(fib(18), 2584);
      parallel_for(0, 10'000, [&](int) { sum.fetch_add(1, std::memory_order_relaxed); });
    }
  });
  EXPECT_EQ(sum, 10'000L * some(10));
}

} // namespace
