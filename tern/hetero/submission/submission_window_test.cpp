// SPDX-License-Identifier: Apache-2.0
// How far submission runs ahead of what has run.
#include <tern/hetero/submission/submission_window.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::hetero {
namespace {

using detail::first_window;
using detail::submission_window;

std::size_t records() { return detail::runtime::here("test").records().records_made(); }
std::uint64_t window() { return detail::runtime::here("test").window().now(); }

template <class F> void with(int workers, int asked, F&& f) {
  options opts;
  opts.set(hetero_devices, "host");
  opts.set(hetero_window, asked);
  scheduler s({.workers = workers, .opts = &opts});
  EXPECT_EQ(s.run(f), 0u);
}

/// In a few chains, as tasks that can run at once are bounded by the deque they wait in.
void submit_chains(int tasks) {
  constexpr int chains = 4;
  std::vector<hetero_object<int>> all;
  for (int i = 0; i < chains; ++i) all.emplace_back(1, 0);
  for (int i = 0; i < tasks; ++i) submit([](int* v) { ++*v; }, read_write(all[static_cast<std::size_t>(i % chains)]));
  wait_all();
  for (const auto& x : all) EXPECT_EQ(x.host(access_mode::read).get()[0], tasks / chains);
}

TEST(submission_window, begins_with_what_a_quarter_of_a_cache_holds) {
  EXPECT_EQ(first_window(std::size_t{1} << 20, 1), 512u);
  EXPECT_EQ(first_window(std::size_t{2} << 20, 2), 1024u);
  EXPECT_EQ(first_window(std::size_t{1280} << 10, 1), 512u);  // a power of two
  EXPECT_EQ(first_window(std::size_t{256} << 10, 64), 4096u); // enough for each worker
  EXPECT_EQ(first_window(0, 1), 64u);
  EXPECT_EQ(first_window(std::size_t{1} << 30, 1), submission_window::widest);
  EXPECT_GE(detail::level2_cache_bytes(), std::size_t{64} << 10);
}

TEST(submission_window, bounds_the_records_of_a_program_that_submits_many) {
  with(1, 0, [] {
    submit_chains(50'000);
    const std::uint64_t first = first_window(detail::level2_cache_bytes(), 1);
    EXPECT_EQ(window(), first); // the only worker was never idle
    EXPECT_LT(records(), submission_window::widest / 2);
  });
}

TEST(submission_window, is_what_the_option_says) {
  for (const int asked : {1, 7, 100, 300})
    for (const int workers : {1, 2})
      with(workers, asked, [&] {
        std::atomic<int> ran{0}, most{0};
        int submitted = 0;
        hetero_object<int> x(1, 0);
        for (int i = 0; i < 5000; ++i) {
          submit([&](int*) { ++ran; }, read_write(x));
          ++submitted;
          most = std::max(most.load(), submitted - ran.load());
        }
        wait_all();
        EXPECT_EQ(ran, 5000);
        EXPECT_LE(most, 2 * asked + 100) << asked; // a wait may end early, if the machine is busy
        EXPECT_EQ(window(), static_cast<std::uint64_t>(asked));
      });
}

// The submitter holds what all tasks wait for: it goes on, with more and more of them.
TEST(submission_window, grows_where_no_task_can_run_before_more_are_submitted) {
  for (const int workers : {1, 2})
    with(workers, 0, [] {
      hetero_object<int> x(1, 0);
      constexpr int n = 40'000;
      {
        const auto held = x.host(access_mode::read_write).get();
        for (int i = 0; i < n; ++i) submit([](int* v) { ++*v; }, read_write(x));
        EXPECT_EQ(held[0], 0);
        EXPECT_EQ(window(), submission_window::widest);
      }
      wait_all();
      EXPECT_EQ(x.host(access_mode::read).get()[0], n);
    });
}

// Their records are little beside the data, and who sees more can choose what has its data here.
TEST(submission_window, leaves_tasks_with_much_data_alone) {
  for (const bool large : {true, false})
    with(2, 0, [large] {
      constexpr int most = 64 * 1024;
      hetero_object<int> x(most, 0);
      const auto part = x.part({0}, {large ? 4096 : 4095}); // ints, of 16 KiB or fewer
      const std::uint64_t first = window();
      {
        const auto held = x.host(access_mode::read_write).get();
        for (int i = 0; i < 20'000; ++i) submit([](int* v) { ++*v; }, read_write(part));
        if (large)
          EXPECT_EQ(window(), first);
        else
          EXPECT_GT(window(), first) << "a small part of a large object";
      }
      wait_all();
      EXPECT_EQ(x.host(access_mode::read).get()[0], 20'000);
    });
}

TEST(submission_window, shrinks_when_the_workers_have_enough_to_do) {
  with(1, 0, [] {
    hetero_object<int> x(1, 0);
    {
      const auto held = x.host(access_mode::read_write).get();
      for (int i = 0; i < 40'000; ++i) submit([](int* v) { ++*v; }, read_write(x));
      EXPECT_EQ(window(), submission_window::widest);
    }
    wait_all();
    submit_chains(100'000);
    EXPECT_LT(window(), submission_window::widest);
  });
}

// One chain is all that the window shows: the second worker finds nothing to do, so it grows, and
// tasks of another chain could come into sight.
TEST(submission_window, grows_while_a_worker_is_idle) {
  with(2, 0, [] {
    hetero_object<int> x(1, 0);
    const std::uint64_t first = first_window(detail::level2_cache_bytes(), 2);
    int n = 0;
    // The machine may run one worker only, for a while: then none is idle.
    for (; window() == first && n < 2'000'000; ++n)
      submit( // takes longer than to submit it
          [](volatile int* v) {
            const int before = *v;
            for (int k = 0; k < 2000; ++k) *v = k;
            *v = before + 1;
          },
          read_write(x));
    EXPECT_GT(window(), first);
    EXPECT_EQ(x.host(access_mode::read).get()[0], n);
  });
}

// Tasks that submit tasks are part of what is left: many of them at once must not wait for each
// other.
TEST(submission_window, leaves_tasks_alone_that_submit_tasks) {
  with(2, 0, [] {
    std::atomic<int> ran{0};
    struct tree {
      static void grow(std::atomic<int>& all, int depth) {
        ++all;
        if (depth == 0) return;
        for (int i = 0; i < 2; ++i) submit([&all, depth] { grow(all, depth - 1); });
      }
    };
    submit([&] { tree::grow(ran, 13); });
    wait_all();
    EXPECT_EQ(ran, (1 << 14) - 1);
  });
}

} // namespace
} // namespace tern::hetero
