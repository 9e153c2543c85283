// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/barrier.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/stack/stack_pool.hpp>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/in_child.hpp"
#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::address_sanitizer;
using test_support::by_signal;
using test_support::in_child;
using test_support::sanitized;
using test_support::text_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kib = 1024, mib = 1024 * kib;

/// Calls itself until it has used that much stack below `top`, writes to all of it, and calls
/// `at_the_end` there.
[[gnu::noinline]] int descend(const char* top, std::size_t bytes, const std::function<void()>& at_the_end) {
  volatile char frame[512];
  for (volatile char& c : frame) c = 1;
  const auto used = static_cast<std::size_t>(top - static_cast<const char*>(__builtin_frame_address(0)));
  if (used < bytes)
    frame[0] = static_cast<char>(descend(top, bytes, at_the_end));
  else if (at_the_end)
    at_the_end();
  return frame[0] + frame[511];
}
void use_stack(std::size_t bytes, const std::function<void()>& at_the_end = {}) {
  descend(static_cast<const char*>(__builtin_frame_address(0)), bytes, at_the_end);
}

/// From /proc/self/statm, in bytes: 0: all that is mapped, 1: what is in memory.
std::size_t of_statm(int column) {
  std::ifstream in("/proc/self/statm");
  std::size_t pages = 0;
  for (int i = 0; i <= column; ++i) in >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Overflow ------------------------------------------------------------------------------------------------------------

/// A fiber that needs more than it has, of a scheduler with that guard; in a process of its own.
test::finished overflow(stack_guard guard, std::size_t too_much, int number) {
  return in_child(
      [&] {
        scheduler s({.workers = 2, .name = "test", .guard = guard});
        s.run([&] {
          fiber f(
              [&] {
                use_stack(64 * kib + too_much);
                this_fiber::yield(); // where a canary is looked at
              },
              {.name = "glutton", .stack_bytes = 64 * kib});
          f.join();
          std::puts("it went on");
        });
      },
      number);
}

void expect_told(const test::finished& child, int signal) {
  if (!sanitized) {
    EXPECT_EQ(child.code, by_signal + signal) << child.all();
  } else {
    EXPECT_NE(child.code, 0) << child.all();
  }
  EXPECT_THAT(child.err, AllOf(HasSubstr("stack overflow in fiber "), HasSubstr("'glutton', made at "),
                               HasSubstr("stack_pool_test.cpp:"), HasSubstr("its stack of 64 KiB is used up"),
                               HasSubstr("fiber_options{.stack_bytes = ...}"), HasSubstr("--tern-stack-kib")));
  EXPECT_THAT(child.out, Not(HasSubstr("it went on")));
}

TEST(stacks, overflow_into_a_guard_region) {
  if (sanitized) GTEST_SKIP() << "the sanitizers have handlers of their own";
  if (detail::best_guard() != stack_guard::regions)
    GTEST_SKIP() << "this kernel has no MADV_GUARD_INSTALL (Linux 6.13)";
  expect_told(overflow(stack_guard::regions, 10 * mib, 1), SIGSEGV);
  expect_told(overflow(stack_guard::automatic, 10 * mib, 2), SIGSEGV);
}

TEST(stacks, overflow_into_guard_pages) {
  if (sanitized) GTEST_SKIP() << "the sanitizers have handlers of their own";
  expect_told(overflow(stack_guard::pages, 10 * mib, 1), SIGSEGV);
}

TEST(stacks, overflow_over_a_canary) {
  if (address_sanitizer) GTEST_SKIP() << "the address sanitizer sees what a canary is for";
  expect_told(overflow(stack_guard::canary, 20 * kib, 1), SIGABRT);
}

TEST(stacks, beyond_the_guard_pages_there_are_canaries) {
  if (sanitized) GTEST_SKIP() << "it takes many thousand fibers";
  std::size_t mappings = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
  if (mappings == 0 || mappings > 200'000) GTEST_SKIP() << "vm.max_map_count is " << mappings << ": too many fibers";
  const auto child = in_child([&] {
    scheduler s({.workers = 1, .stack_bytes = 16 * kib, .name = "test", .guard = stack_guard::pages});
    s.run([&] {
      latch go(1);
      std::vector<fiber> all;
      for (std::size_t i = 0; i < mappings / 4 + 100; ++i) all.emplace_back([&] { go.wait(); });
      this_fiber::yield();
      std::puts("all there");
      std::fflush(stdout);
      fiber f(
          [] {
            use_stack(64 * kib + 20 * kib);
            this_fiber::yield();
          },
          {.name = "glutton", .stack_bytes = 64 * kib});
      f.join();
      std::puts("it went on");
    });
  });
  EXPECT_THAT(child.out, HasSubstr("all there"));
  expect_told(child, SIGABRT);
}

TEST(stacks, other_invalid_accesses_are_no_overflows) {
  if (sanitized) GTEST_SKIP() << "the sanitizers have handlers of their own";
  const auto child = in_child([] {
    scheduler s({.workers = 1, .name = "test"});
    s.run([] {
      volatile std::uintptr_t nowhere = 16;
      *reinterpret_cast<volatile int*>(nowhere) = 1;
    });
  });
  EXPECT_EQ(child.code, by_signal + SIGSEGV) << child.all();
  EXPECT_THAT(child.err, Not(HasSubstr("stack overflow")));
}

// Memory --------------------------------------------------------------------------------------------------------------

/// Fibers of every kind one after the other, never more than some hundreds at once.
void many_fibers(std::size_t count) {
  scheduler& s = *scheduler::current();
  constexpr std::size_t at_once = 300;
  std::atomic<std::size_t> ran{0};
  for (std::size_t begun = 0; begun < count;) {
    std::vector<fiber> joined;
    for (std::size_t i = 0; i < at_once && begun < count; ++i, ++begun) {
      if (i % 3 == 0)
        s.spawn([&] { ++ran; });
      else if (i % 3 == 1)
        fiber([&] {
          this_fiber::yield();
          ++ran;
        }).detach();
      else
        joined.emplace_back([&] { ++ran; });
    }
    for (auto& f : joined) f.join();
    wait_until([&] { return ran == begun; });
  }
}

TEST(stacks, memory_stays_flat) {
  if (sanitized) GTEST_SKIP() << "the sanitizers keep memory that was given back";
  std::size_t count = 1'000'000;
  if (const char* n = std::getenv("TERN_TEST_FIBERS")) count = std::strtoull(n, nullptr, 10);
  scheduler s({.workers = 2, .name = "test"});
  EXPECT_EQ(s.run([&] {
    many_fibers(count / 10);
    const std::size_t before = of_statm(1), made = s.stacks().made;
    many_fibers(count - count / 10);
    const std::size_t after = of_statm(1);
    EXPECT_LE(after, before + 16 * mib) << count << " fibers";
    EXPECT_LE(s.stacks().made, made + 1000) << count << " fibers";
  }),
            0u);
  EXPECT_EQ(s.live_fibers(), 0u);
}

// Sizes ---------------------------------------------------------------------------------------------------------------

TEST(stacks, report) {
  scheduler s({.workers = 1, .stack_bytes = 256 * kib, .name = "test"});
  const stack_report before = s.stacks();
  EXPECT_EQ(before.made, 0u);
  EXPECT_EQ(before.bytes, 256 * kib);
  EXPECT_EQ(before.deepest_bytes, 0u);
  EXPECT_EQ(before.guard, detail::best_guard());
  EXPECT_EQ(s.run([&] {
    latch go(1);
    std::vector<fiber> all;
    for (int i = 0; i < 50; ++i) all.emplace_back([&] { go.wait(); });
    this_fiber::yield();
    const stack_report flat = s.stacks();
    EXPECT_GE(flat.made, 51u);
    EXPECT_LE(flat.made, 100u);
    EXPECT_GT(flat.deepest_bytes, 0u);
    EXPECT_EQ(flat.deepest_bytes % static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), 0u);
    go.count_down();
    for (auto& f : all) f.join();
    fiber([] { use_stack(100 * kib); }).join();
    const stack_report deep = s.stacks();
    EXPECT_GE(deep.deepest_bytes, 100 * kib);
    EXPECT_GT(deep.deepest_bytes, flat.deepest_bytes);
    EXPECT_LE(deep.deepest_bytes, 256 * kib);
    fiber([] { use_stack(160 * kib); }).join();
    EXPECT_GE(s.stacks().deepest_bytes, 160 * kib);
    EXPECT_LE(s.stacks().made, 100u);
  }),
            0u);
  EXPECT_GE(s.stacks().deepest_bytes, 160 * kib);
}

TEST(stacks, report_with_canaries) {
  scheduler s({.workers = 1, .stack_bytes = 256 * kib, .name = "test", .guard = stack_guard::canary});
  EXPECT_EQ(s.run([&] { fiber([] { use_stack(100 * kib); }).join(); }), 0u);
  EXPECT_EQ(s.stacks().guard, stack_guard::canary);
  EXPECT_GE(s.stacks().deepest_bytes, 100 * kib); // the page that has the canary does not count
  EXPECT_LE(s.stacks().deepest_bytes, 200 * kib);
}

TEST(stacks, usual_size_is_rounded) {
  const auto usual = [](std::size_t bytes) {
    scheduler s({.workers = 1, .stack_bytes = bytes, .name = "test"});
    bool ran = false;
    EXPECT_EQ(s.run([&] { fiber([&] { ran = true; }).join(); }), 0u);
    EXPECT_TRUE(ran);
    return s.stacks().bytes;
  };
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(usual(100'000), (100'000 + page - 1) / page * page);
  EXPECT_EQ(usual(64 * kib), 64 * kib);
  if (!sanitized) { // whose frames are large
    EXPECT_EQ(usual(0), 16 * kib);
    EXPECT_EQ(usual(1), 16 * kib);
  }
}

TEST(stacks, one_fiber_may_have_more) {
  for (const auto guard : {stack_guard::automatic, stack_guard::pages, stack_guard::canary}) {
    scheduler s({.workers = 2, .name = "test", .guard = guard});
    EXPECT_EQ(s.run([&] {
      for (int i = 0; i < 20; ++i) {
        bool deep = false;
        fiber large([&] { use_stack(7 * mib, [&] { this_fiber::yield(), deep = true; }); }, {.stack_bytes = 8 * mib});
        fiber small([&] { this_fiber::yield(); }, {.stack_bytes = sanitized ? 64 * kib : 16 * kib});
        fiber odd([&] { use_stack(400 * kib); }, {.stack_bytes = 300'000}); // becomes 512 KiB
        fiber usual([&] { use_stack(128 * kib); });
        small.join();
        odd.join();
        usual.join();
        large.join();
        EXPECT_TRUE(deep);
      }
      EXPECT_LT(s.stacks().made, 40u); // each kind is used again
      EXPECT_EQ(s.stacks().bytes, 256 * kib);
      EXPECT_GE(s.stacks().deepest_bytes, 7 * mib);
    }),
              0u);
  }
}

TEST(stacks, too_large) {
  test_support::on_workers(1, [] {
    const std::size_t most = std::size_t{1} << 36;
    const auto text = text_of(errc::invalid_argument, [&] { fiber f([] {}, {.stack_bytes = most + 1}); });
    EXPECT_THAT(text, AllOf(HasSubstr("cannot have a stack of 68719476737 bytes"), HasSubstr("at most 2^36 bytes"),
                            HasSubstr("put large data on the heap")));
    text_of(errc::invalid_argument, [] { fiber f([] {}, {.stack_bytes = ~std::size_t{0}}); });
    text_of(errc::invalid_argument, [&] { scheduler::current()->spawn([] {}, {.stack_bytes = most + 1}); });
    EXPECT_EQ(scheduler::current()->live_fibers(), 1u);
  });
}

// No more memory ------------------------------------------------------------------------------------------------------

/// So much more may be mapped from now on.
void limit_memory(std::size_t more) {
  const rlim_t most = of_statm(0) + more;
  const rlimit limit{most, most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(stacks, none_left_is_an_error) {
  if (sanitized) GTEST_SKIP() << "the sanitizers need all addresses";
  const auto child = in_child([] {
    mallopt(M_ARENA_MAX, 1); // as below
    scheduler s({.workers = 2, .name = "test"});
    EXPECT_EQ(s.run([&] {
      latch go(1);
      std::atomic<std::size_t> ran{0};
      std::vector<fiber> all;
      all.reserve(100'000);
      fiber([] {}).join();
      limit_memory(64 * mib);
      const auto text = text_of(errc::out_of_memory, [&] {
        while (all.size() < 100'000)
          all.emplace_back([&] {
            go.wait();
            ++ran;
          });
      });
      EXPECT_THAT(text, AllOf(HasSubstr("no memory for more fiber stacks ("), HasSubstr(" exist, the next has 256 KiB"),
                              HasSubstr("Cannot allocate memory"), HasSubstr("start fewer fibers at once"),
                              HasSubstr("vm.max_map_count or the memory limit")));
      EXPECT_GT(all.size(), 50u);
      EXPECT_EQ(s.live_fibers(), all.size() + 1); // the one that was refused is not counted
      EXPECT_THAT(text_of(errc::out_of_memory, [] { fiber f([] {}, {.stack_bytes = std::size_t{1} << 30}); }),
                  HasSubstr("the next has 1048576 KiB"));
      go.count_down();
      for (auto& f : all) f.join();
      EXPECT_EQ(ran, all.size());
      fiber([&] { ++ran; }).join(); // with a stack that is there again
      EXPECT_EQ(ran, all.size() + 1);
    }),
              0u);
  });
  EXPECT_EQ(child.code, 0) << child.all();
}

void expect_spawned_ones_wait(int workers, bool inside) {
  if (sanitized) GTEST_SKIP() << "the sanitizers need all addresses";
  const auto child = in_child([&] {
    mallopt(M_ARENA_MAX, 1); // or a thread that starts meanwhile reserves 64 MiB for its heap
    constexpr int count = 5000;
    scheduler s({.workers = workers, .name = "test"});
    std::atomic<int> ran{0}, at_once{0}, most{0};
    const auto spawn = [&] {
      for (int i = 0; i < count; ++i)
        s.spawn([&] {
          const int now = ++at_once;
          for (int m = most; m < now && !most.compare_exchange_weak(m, now);) {
          }
          this_fiber::sleep_for(1ms);
          --at_once;
          ++ran;
        });
    };
    if (!inside) {
      spawn();
      limit_memory(100 * mib); // also the threads
    }
    EXPECT_EQ(s.run([&] {
      if (inside) {
        limit_memory(64 * mib);
        spawn();
      }
    }),
              0u);
    EXPECT_EQ(ran, count);
    EXPECT_GT(most, 20);
    EXPECT_LT(most, 1000);
    EXPECT_EQ(s.live_fibers(), 0u);
  });
  EXPECT_EQ(child.code, 0) << child.all();
}
TEST(stacks, spawned_ones_wait_for_a_stack) { expect_spawned_ones_wait(1, false); }
TEST(stacks, spawned_ones_wait_for_a_stack_of_many_workers) { expect_spawned_ones_wait(3, false); }
// Fail: `scheduler::spawn` on a worker whose queue is short gives the fiber its stack at once, and
// throws if there is none, though it promises that they wait.
TEST(stacks, spawned_ones_of_fibers_wait_for_a_stack) { expect_spawned_ones_wait(1, true); }
TEST(stacks, spawned_ones_of_fibers_wait_for_a_stack_of_many_workers) { expect_spawned_ones_wait(3, true); }

} // namespace
} // namespace tern
