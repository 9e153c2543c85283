// SPDX-License-Identifier: Apache-2.0
// Tasks that run one after the other on a worker leave to others what these ask for.
#include <tern/hetero/graph/execution.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/task/support/busy_worker.hpp"
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
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

} // namespace
} // namespace tern::hetero
