// SPDX-License-Identifier: Apache-2.0
// Sorting with comparisons and elements that throw, suspend, count, or are no ordering.
#include <tern/task/parallel_sort.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/sync.hpp>

#include "tests/task/support/sorting.hpp"

namespace tern {
namespace {

namespace sorting = detail::sorting;

// Many at once, from within tasklets, with a comparison that suspends.
TEST_P(sort_on, sorts_within_tasklets) {
  run([] {
    mutex m;
    std::atomic<int> good{0};
    task_group g;
    for (int i = 0; i < 8; ++i)
      g.run([&, i] {
        auto v = random_numbers<std::int64_t>(for_two + static_cast<std::size_t>(i));
        std::atomic<int> calls{0};
        const any_less<std::int64_t> less = [&](std::int64_t a, std::int64_t b) {
          if (calls.fetch_add(1, std::memory_order_relaxed) % 10'000 == 0) {
            const std::scoped_lock lock(m);
            this_fiber::yield();
          }
          return a < b;
        };
        parallel_sort(v.begin(), v.end(), less);
        good += std::is_sorted(v.begin(), v.end());
      });
    g.wait();
    EXPECT_EQ(good, 8);
  });
}

/// Throws in the call with that number.
struct throws_in_call {
  std::atomic<std::int64_t>* left;
  template <class T> bool operator()(const T& a, const T& b) const {
    if (left->fetch_sub(1, std::memory_order_relaxed) == 1) throw std::runtime_error("incomparable");
    return a < b;
  }
};

template <class T> void check_throws(std::vector<T> v, std::int64_t in_call) {
  const auto before = [&] {
    auto sorted = v;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }();
  std::atomic<std::int64_t> left{in_call};
  EXPECT_THROW(parallel_sort(v.begin(), v.end(), any_less<T>(throws_in_call{&left})), std::runtime_error);
  std::sort(v.begin(), v.end());
  EXPECT_TRUE(v == before) << "thrown in call " << in_call;
}

TEST_P(sort_on, what_a_comparison_throws_arrives_and_no_element_is_lost) {
  run([] {
    const auto strings = random_strings(20'000);
    const auto numbers = random_numbers<double>(for_two);
    const std::vector<double> few(numbers.begin(), numbers.begin() + 40);
    for (std::int64_t call = 1; call < 150; ++call) check_throws(few, call);
    const std::int64_t further = tern::detail::sanitized ? 12 : 3; // halves
    for (std::int64_t call = 1; call < 200'000; call = call * further / 2 + 1) {
      check_throws(strings, call);
      check_throws(numbers, call);
    }
  });
}

/// Counts those that live, and must not be compared after a move from them.
struct counted {
  static inline std::atomic<std::int64_t> alive{0};
  int key = 0;
  explicit counted(int k) : key(k) { ++alive; }
  counted(counted&& other) noexcept : key(std::exchange(other.key, -1)) { ++alive; }
  counted& operator=(counted&& other) noexcept {
    key = std::exchange(other.key, -1);
    return *this;
  }
  ~counted() { --alive; }
  bool operator<(const counted& other) const {
    if (key < 0 || other.key < 0) ADD_FAILURE() << "moved from";
    return key < other.key;
  }
};

TEST_P(sort_on, elements_are_made_and_destroyed_in_pairs) {
  run([] {
    const auto numbers = random_numbers<std::uint32_t>(140'000);
    for (const std::int64_t call : {std::int64_t{0}, std::int64_t{300'000}, std::int64_t{1'200'000}}) {
      std::vector<counted> v;
      v.reserve(numbers.size());
      std::uint64_t sum = 0;
      for (const auto x : numbers) sum += static_cast<std::uint64_t>(v.emplace_back(static_cast<int>(x / 2)).key);
      std::atomic<std::int64_t> left{call};
      if (call == 0)
        parallel_sort(v.begin(), v.end(), throws_in_call{&left});
      else
        EXPECT_THROW(parallel_sort(v.begin(), v.end(), throws_in_call{&left}), std::runtime_error);
      EXPECT_EQ(counted::alive, static_cast<std::int64_t>(v.size()));
      for (const auto& x : v) sum -= static_cast<std::uint64_t>(x.key);
      EXPECT_EQ(sum, 0u);
      EXPECT_TRUE(call != 0 || std::is_sorted(v.begin(), v.end()));
    }
  });
  EXPECT_EQ(counted::alive, 0);
}

/// An old class: it copies where others move.
struct copied {
  static inline std::atomic<std::int64_t> alive{0}, left{0};
  int key = 0;
  explicit copied(int k) : key(k) { ++alive; }
  copied(const copied& other) : key(other.key) {
    if (--left == 0) throw std::runtime_error("no copy");
    ++alive;
  }
  copied& operator=(const copied& other) {
    if (--left == 0) throw std::runtime_error("no copy");
    key = other.key;
    return *this;
  }
  ~copied() { --alive; }
  bool operator<(const copied& other) const { return key < other.key; }
};
static_assert(!sorting::distributable<copied>);

TEST_P(sort_on, elements_whose_moves_may_throw) {
  run([] {
    const auto numbers = random_numbers<int>(for_two);
    std::vector<copied> v;
    v.reserve(numbers.size());
    for (const int x : numbers) v.emplace_back(x);
    for (const std::int64_t left : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{100'000}, std::int64_t{0}}) {
      copied::left = left;
      if (left > 0)
        EXPECT_THROW(parallel_sort(v.begin(), v.end()), std::runtime_error);
      else
        parallel_sort(v.begin(), v.end());
    }
    EXPECT_TRUE(std::is_sorted(v.begin(), v.end()));
    EXPECT_EQ(copied::alive, static_cast<std::int64_t>(v.size()));
  });
  EXPECT_EQ(copied::alive, 0);
}

// No promise about the order, but that all stays within bounds (and ends).
TEST_P(sort_on, a_comparison_that_is_no_ordering) {
  run([] {
    for (const std::size_t n : {20u, 1000u, 5000u, 70'000u}) {
      auto v = random_numbers<std::int64_t>(n);
      std::atomic<std::uint32_t> seed{1};
      const any_less<std::int64_t> random = [&](std::int64_t, std::int64_t) {
        return (seed.fetch_add(1, std::memory_order_relaxed) * 2654435761u >> 13) % 2 == 0;
      };
      parallel_sort(v.begin(), v.end(), random);
      parallel_sort(v.begin(), v.end(), any_less<std::int64_t>([](auto, auto) { return true; }));
      auto s = random_strings(n);
      parallel_sort(s.begin(), s.end(), any_less<std::string>([](const auto&, const auto&) { return true; }));
      auto d = random_numbers<double>(n);
      for (std::size_t i = 0; i < n; i += 3) d[i] = std::numeric_limits<double>::quiet_NaN();
      parallel_sort(d.begin(), d.end());
    }
  });
}

} // namespace
} // namespace tern
