// SPDX-License-Identifier: Apache-2.0
// Tasks that run one after the other on a worker leave to others what these ask for; and what an
// object knows of those that have run.
#include <tern/hetero/graph/runtime.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/busy_worker.hpp"
#include <tern/base/error.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/worker/worker.hpp>

namespace tern::hetero {
namespace {

// What one try saw. `in_order` is false if one of the others ran before `along` had begun: its
// worker was kept from running for longer than a slice of time, and a row ends with the slice.
struct attempt {
  bool in_order = true, shared = false;
  int ran = 0;
};

constexpr std::ptrdiff_t others = 8;

// `split` makes `along` and the others ready, then `along` and `next` run in a row on its worker.
// While `along` runs, the other worker comes and asks.
attempt run_chain() {
  std::atomic<bool> looked{false}, came{false}, in_order{true};
  tern::test_support::busy_worker other;
  bool shared = false;
  std::atomic<int> ran{0};
  hetero_object<int> x(others + 1, 0);
  const auto first = x.part({0}, {1});
  submit([](host_view<int, 1>) {}, read_write(x)); // split
  for (std::ptrdiff_t i = 1; i <= others; ++i)
    submit(
        [&](host_view<const int, 1>) {
          if (!other.is_free()) in_order = false; // the other worker is still kept busy: to wait here would be for ever
          came = true;                            // with something left for the next, if it does not ask
          while (in_order && !looked) std::this_thread::yield();
          ++ran;
        },
        read(x.part({i}, {i + 1})));
  submit( // along: the last that follows is the first to go on
      [&](host_view<int, 1>) {
        other.let_go();
        while (!came && !tern::detail::this_worker()->deque.wanted()) std::this_thread::yield();
      },
      read_write(first));
  submit( // next
      [&](host_view<int, 1>) {
        shared = tern::detail::this_worker()->deque.has_public();
        looked = true;
      },
      read_write(first));
  wait_all();
  other.join();
  return {.in_order = in_order, .shared = shared, .ran = ran};
}

TEST(execution, a_chain_answers_thieves) {
  scheduler s({.workers = 2, .spin = std::chrono::milliseconds(100)}); // it asks, and does not insist soon
  s.run([] {
    for (int i = 0; i < 20'000; ++i) submit([] {}); // the worker learns how many it can run in a slice of time
    wait_all();
    attempt seen;
    for (int tries = 0; tries < 100; ++tries) {
      seen = run_chain();
      EXPECT_EQ(seen.ran, others);
      if (seen.in_order) break;
    }
    EXPECT_TRUE(seen.in_order);
    EXPECT_TRUE(seen.shared);
  });
}

TEST(execution, objects_do_not_keep_the_records_of_what_has_run) {
  for (const int workers : {1, 2})
    on({.workers = workers}, [] {
      std::vector<hetero_object<int>> all; // more than may be left at any time (submission_window::widest)
      for (int i = 0; i < 40'000; ++i) all.emplace_back(1, i);
      for (int round = 0; round < 3; ++round)
        for (const auto& x : all) submit([](int* v) { ++*v; }, read_write(x));
      wait_all();
      EXPECT_LT(detail::runtime::here("test").records().records_made(), all.size());
      for (int i = 0; i < 40'000; i += 99)
        EXPECT_EQ(all[static_cast<std::size_t>(i)].host(access_mode::read).get()[0], i + 3);
    });
}

// A failure is known to the object, however long ago the task ended.
TEST(execution, objects_keep_the_record_of_what_has_failed) {
  on({.workers = 1}, [] {
    hetero_object<int> x(1, 0);
    hetero_task first([](int*) { throw error(errc::unsupported, "not today"); }, read_write(x));
    first.submit();
    EXPECT_THAT(text_of_error([&] { first.wait(); }), testing::HasSubstr("not today"));
    for (int i = 0; i < 100; ++i) submit([] {}); // whose records would be its own
    wait_all();
    hetero_task next([](int* v) { ++*v; }, read_write(x));
    next.submit();
    EXPECT_THAT(text_of_error([&] { next.wait(); }), testing::HasSubstr("not today"));
  });
}

// To cut an object into parts forgets the tasks that took turns on it and have ended; what takes
// turns next still comes after what was written meanwhile.
TEST(execution, tasks_that_commute_follow_what_writes_a_part) {
  on({.workers = 2}, [] {
    for (int round = 0; round < 50; ++round) {
      hetero_object<int> x(2, 0);
      const auto first = x.part({0}, {1});
      for (int i = 0; i < 2; ++i) submit([](int* v) { ++v[0], ++v[1]; }, commute(x));
      wait_all();
      submit(
          [](int* v) {
            this_fiber::yield();
            *v *= 10;
          },
          read_write(first));
      for (int i = 0; i < 2; ++i) submit([](int* v) { ++*v; }, commute(first));
      wait_all();
      EXPECT_EQ(x.host(access_mode::read).get()[0], 22);
      EXPECT_EQ(x.host(access_mode::read).get()[1], 2);
    }
  });
}

} // namespace
} // namespace tern::hetero
