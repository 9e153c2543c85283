// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel.hpp>

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/sync.hpp"
#include <tern/base/error.hpp>
#include <tern/task/sync.hpp>

namespace tern {
namespace {

using test_support::text_of;

class with_workers : public testing::TestWithParam<int> {
protected:
  void run(unique_function<void()> main) const {
    scheduler s({.workers = GetParam(), .name = "test"});
    EXPECT_EQ(s.run(std::move(main)), 0u);
  }
};

TEST_P(with_workers, for_calls_each_index_once) {
  run([] {
    for (const int n : {0, 1, 2, 3, 7, 1000, 100'000}) {
      std::vector<std::atomic<int>> hit(static_cast<std::size_t>(n));
      parallel_for(0, n, [&](int i) { ++hit[static_cast<std::size_t>(i)]; });
      for (const auto& h : hit) ASSERT_EQ(h, 1);
    }
    std::atomic<std::int64_t> sum{0};
    parallel_for(std::int64_t{-500}, std::int64_t{500}, [&](std::int64_t i) { sum += i; });
    EXPECT_EQ(sum, -500);
    std::atomic<int> far{0};
    parallel_for(-2'000'000'000, 2'000'000'000, [&](range<int> r) { far += r.first() == -2'000'000'000; },
                 {.grain = 1'000'000'000});
    EXPECT_EQ(far, 1);
    parallel_for(0, 10, [&](int) { ++far; }, {.grain = std::numeric_limits<std::int64_t>::max()});
    EXPECT_EQ(far, 11);
    std::atomic<int> bytes{0}, signed_bytes{0};
    parallel_for(std::int8_t{-128}, std::int8_t{127}, [&](std::int8_t i) { signed_bytes += i; });
    EXPECT_EQ(signed_bytes, -128 - 127);
    parallel_for(std::uint8_t{0}, std::uint8_t{255}, [&](std::uint8_t) { ++bytes; });
    EXPECT_EQ(bytes, 255);
  });
}

TEST_P(with_workers, for_with_a_grain_gives_exactly_these_chunks) {
  run([] {
    std::mutex lock;
    std::set<std::pair<int, int>> chunks;
    parallel_for(10, 110,
                 [&](range<int> r) {
                   std::lock_guard hold(lock);
                   EXPECT_TRUE(chunks.emplace(r.first(), r.last()).second);
                 },
                 {.grain = 30});
    EXPECT_THAT(chunks,
                testing::ElementsAre(std::pair(10, 40), std::pair(40, 70), std::pair(70, 100), std::pair(100, 110)));
  });
}

TEST_P(with_workers, for_does_not_hide_the_rest_behind_a_body) {
  run([] {
    latch last(1); // the rest of the loop does not hide behind a body that blocks
    parallel_for(0, 64, [&](int i) {
      if (i == 63) last.count_down();
      if (i == 0) last.wait();
    });
  });
}

// Chunks grow until they take some microseconds, also if the length is no power of two.
TEST_P(with_workers, for_does_not_get_stuck_at_tiny_chunks) {
  run([] {
    std::atomic<int> chunks{0};
    parallel_for(0, 100'000'007, [&](range<int>) { chunks.fetch_add(1, std::memory_order_relaxed); });
    EXPECT_LT(chunks, 100'000);
  });
}

TEST_P(with_workers, for_over_boxes) {
  run([] {
    std::vector<std::atomic<int>> hit(37 * 53);
    parallel_for(range2<int>({-7, 30}, {100, 153}),
                 [&](int y, int x) { ++hit[static_cast<std::size_t>((y + 7) * 53 + (x - 100))]; });
    for (const auto& h : hit) ASSERT_EQ(h, 1);
    std::vector<std::atomic<int>> cells(5 * 6 * 7);
    parallel_for(range3<int>({0, 5}, {0, 6}, {0, 7}),
                 [&](int z, int y, int x) { ++cells[static_cast<std::size_t>((z * 6 + y) * 7 + x)]; });
    for (const auto& h : cells) ASSERT_EQ(h, 1);
    std::atomic<int> tiles{0}, area{0};
    parallel_for(range2<int>({0, 10}, {0, 25}),
                 [&](range2<int> t) {
                   ++tiles;
                   EXPECT_LE(t[0].size(), 4u);
                   EXPECT_LE(t[1].size(), 10u);
                   area += static_cast<int>(t[0].size() * t[1].size());
                 },
                 {.tile = {4, 10}});
    EXPECT_EQ(tiles, 9);
    EXPECT_EQ(area, 250);
    parallel_for(range2<int>({0, 0}, {0, 9}), [](int, int) { ADD_FAILURE(); });
    parallel_for(range2<int>({0, 9}, {3, 3}), [](int, int) { ADD_FAILURE(); });
  });
}

TEST_P(with_workers, for_each_element) {
  run([] {
    std::vector<int> v(10'000, 1);
    parallel_for_each(v.begin(), v.end(), [](int& x) { x += 2; });
    EXPECT_EQ(std::accumulate(v.begin(), v.end(), 0), 30'000);
  });
}

TEST_P(with_workers, loops_inside_loops) {
  run([] {
    std::atomic<int> sum{0};
    parallel_for(0, 40, [&](int) { parallel_for(0, 40, [&](int) { ++sum; }); });
    EXPECT_EQ(sum, 1600);
  });
}

TEST_P(with_workers, an_exception_ends_the_loop) {
  run([] {
    std::atomic<int> after{0};
    EXPECT_THROW(parallel_for(0, 100'000,
                              [&](int i) {
                                if (i == 10) throw std::out_of_range("ten");
                                ++after;
                              },
                              {.grain = 10}),
                 std::out_of_range);
    EXPECT_LT(after, 100'000);
    EXPECT_THROW(parallel_reduce(
                     0, 1000, 0, [](int i) { return i < 500 ? i : throw std::out_of_range("half"); }, std::plus<>()),
                 std::out_of_range);
  });
}

TEST_P(with_workers, reduce_keeps_the_order) {
  run([] {
    const auto text = parallel_reduce(0, 2000, std::string(), [](int i) { return std::to_string(i % 10); },
                                      std::plus<>(), {.grain = 3});
    std::string expected;
    for (int i = 0; i < 2000; ++i) expected += std::to_string(i % 10);
    EXPECT_EQ(text, expected);
    EXPECT_EQ(parallel_reduce(
                  5, 5, 42, [](int) { return 1; }, std::plus<>()),
              42);
    EXPECT_EQ(parallel_reduce(0, 10, 0, [](int i) { return i; }, std::plus<>(),
                              {.grain = std::numeric_limits<std::int64_t>::max(), .deterministic = true}),
              45);
    EXPECT_TRUE(parallel_reduce(
        0, 5000, true, [](int i) { return i >= 0; }, std::logical_and<>()));
    const auto chunked = parallel_reduce(
        0, 100'000, std::int64_t{0},
        [](range<int> r, std::int64_t sum) {
          for (const int i : r) sum += i;
          return sum;
        },
        std::plus<>());
    EXPECT_EQ(chunked, std::int64_t{100'000} * 99'999 / 2);
  });
}

TEST(parallel, a_deterministic_reduction_gives_the_same_bits_on_any_machine) {
  std::vector<double> x(50'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0 / (1.0 + static_cast<double>((i * 7919) % 10'007));
  std::set<double> results;
  for (const int workers : {1, 2, 3, 7})
    for (int repeat = 0; repeat < 5; ++repeat) {
      scheduler s({.workers = workers});
      s.run([&] {
        results.insert(parallel_reduce(std::size_t{0}, x.size(), 0.0, [&](std::size_t i) { return x[i]; },
                                       std::plus<>(), {.deterministic = true}));
      });
    }
  EXPECT_EQ(results.size(), 1u);
  EXPECT_NEAR(*results.begin(), std::accumulate(x.begin(), x.end(), 0.0), 1e-9);
}

TEST_P(with_workers, scans) {
  run([] {
    for (const int n : {0, 1, 5, 2048, 2049, 100'000}) {
      std::vector<long> in(static_cast<std::size_t>(n)), out(in.size()), expected(in.size());
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<long>(i * i % 17);
      std::inclusive_scan(in.begin(), in.end(), expected.begin());
      const long all = std::accumulate(in.begin(), in.end(), 0L);
      EXPECT_EQ(parallel_scan(in.begin(), in.end(), out.begin(), 0L), all);
      ASSERT_EQ(out, expected);
      std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0L);
      EXPECT_EQ(parallel_scan(in.begin(), in.end(), in.begin(), 0L, std::plus<>(), scan_kind::exclusive), all);
      ASSERT_EQ(in, expected); // in place
    }
    // Not commutative: the last letter wins, in order.
    std::vector<std::string> words(300, "a");
    words[7] = "b";
    std::vector<std::string> out(words.size());
    parallel_scan(words.begin(), words.end(), out.begin(), std::string(), std::plus<>(), scan_kind::inclusive,
                  {.grain = 10});
    EXPECT_EQ(out.back(), std::string(7, 'a') + "b" + std::string(292, 'a'));
  });
}

TEST(parallel, bad_use_is_told) {
  scheduler s({});
  s.run([] {
    EXPECT_THAT(text_of([] { parallel_for(5, 3, [](int) {}); }),
                testing::HasSubstr("parallel_for over [5, 3): the end lies before the beginning"));
    EXPECT_THAT(text_of([] { parallel_for(0, 3, [](int) {}, {.grain = 0}); }),
                testing::HasSubstr("parallel_for with a grain of 0"));
    EXPECT_THAT(text_of([] { parallel_for(0, 3, [](int) {}, {.grain = -7}); }), testing::HasSubstr("grain of -7"));
    EXPECT_THAT(text_of([] {
                  parallel_for(range2<int>({0, 3}, {4, 1}), [](int, int) {});
                }),
                testing::HasSubstr("[4, 1)"));
    EXPECT_THAT(text_of([] {
                  parallel_reduce(
                      3, 0, 0, [](int i) { return i; }, std::plus<>());
                }),
                testing::HasSubstr("parallel_reduce over [3, 0)"));
  });
  EXPECT_THAT(text_of([] { parallel_for(0, 3, [](int) {}); }), testing::HasSubstr("outside any fiber"));
}

INSTANTIATE_TEST_SUITE_P(workers, with_workers, testing::Values(1, 2, 5));

} // namespace
} // namespace tern
