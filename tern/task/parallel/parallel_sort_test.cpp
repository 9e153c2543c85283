// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel_sort.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/fiber/sanitizer.hpp>

#include "tests/task/support/sorting.hpp"

namespace tern {

// Sanitizers take a minute for all three.
INSTANTIATE_TEST_SUITE_P(workers, sort_on,
                         testing::ValuesIn(detail::thread_sanitizer ? std::vector{4}
                                           : detail::sanitized      ? std::vector{2}
                                                                    : std::vector{1, 2, 4}),
                         [](const auto& i) { return std::to_string(i.param) + "_workers"; });

namespace {

TEST_P(sort_on, random_numbers_of_every_length) {
  run([] {
    for (std::size_t n = 0; n < 300; ++n) {
      auto v = random_numbers<double>(n);
      auto expected = v;
      std::sort(expected.begin(), expected.end());
      parallel_sort(v.begin(), v.end());
      EXPECT_EQ(v, expected);
    }
  });
  for (const std::size_t n : {1000u, 4095u, 4096u, 4097u, 20'000u, 65'535u, 65'536u, 65'537u, 131'071u, 262'143u})
    check(random_numbers<double>(n));
  check(random_numbers<double>(for_two));
  check(random_numbers<double>(detail::sanitized ? for_four : 1'000'003));
}

TEST_P(sort_on, every_kind_of_number_up_and_down) {
  const auto up = [this]<class T>(T) { check(random_numbers<T>(for_two)); };
  up(std::int8_t{});
  up(std::int32_t{});
  up(std::uint32_t{});
  up(std::int64_t{});
  up(float{});
  check(random_numbers<double>(for_four), std::greater<>());
  check(random_numbers<std::int32_t>(for_four), std::greater<>());
  check(random_numbers<double>(for_two), any_less<double>([](double a, double b) { return b < a; }));
}

TEST_P(sort_on, extreme_values) {
  auto v = random_numbers<double>(for_two);
  for (std::size_t i = 0; i < v.size(); i += 7) v[i] = (i % 2 ? 1 : -1) * std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < v.size(); i += 11) v[i] = i % 2 ? 0.0 : -0.0;
  const auto negative_zeros = [&] {
    return std::count_if(v.begin(), v.end(), [](double x) { return x == 0 && std::signbit(x); });
  };
  const auto before = negative_zeros();
  check(v);
  run([&] { parallel_sort(v.begin(), v.end()); });
  EXPECT_EQ(negative_zeros(), before);
  auto ints = random_numbers<std::int32_t>(for_two);
  for (std::size_t i = 0; i < ints.size(); i += 5) ints[i] = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 1; i < ints.size(); i += 5) ints[i] = std::numeric_limits<std::int32_t>::lowest();
  check(ints);
  check(ints, std::greater<>());
}

TEST_P(sort_on, patterns) {
  std::vector<std::size_t> sizes{5000, for_two, for_four};
  std::vector<std::uint64_t> numbers{2, 3, 16, 200, 300};
  if (detail::sanitized) {
    sizes = {GetParam() < 4 ? for_two : for_four}; // where these workers begin to share
    numbers = {3, 300};
  }
  for (const std::size_t n : sizes) {
    std::vector<double> v(n);
    std::iota(v.begin(), v.end(), 0.0);
    check(v);
    std::reverse(v.begin(), v.end());
    check(v);
    v.back() = 1e9;
    check(v);
    check(std::vector<double>(n, 3.0));
    for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<double>(std::min(i, n - i)); // organ pipe
    check(v);
    for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<double>(i % 100); // saw tooth
    check(v);
    for (std::size_t i = 0; i < n; ++i) v[i] = -static_cast<double>(i / 300); // downwards, in steps
    check(v);
    for (const std::uint64_t distinct : numbers) check(random_numbers<double>(n, distinct));
    v = random_numbers<double>(n); // one value in most places
    for (std::size_t i = 0; i < n; ++i)
      if (i % 10) v[i] = 5;
    check(v);
    for (std::size_t i = 0; i < n; ++i)
      v[i] = std::exp2(static_cast<double>(i * 7919 % n % 1000)); // most in few buckets
    check(v);
  }
}

// McIlroy, "A Killer Adversary for Quicksort", 1999: the elements' values are made up such that
// each pivot is bad.
TEST(parallel_sort_worst_case, an_adversary_gets_no_quadratic_time) {
  for (const int n : {3000, 100'000}) {
    std::vector<int> value(static_cast<std::size_t>(n), n), v(value.size()); // n: not settled yet
    std::iota(v.begin(), v.end(), 0);
    int settled = 0, candidate = 0;
    std::int64_t comparisons = 0;
    on(1, [&] {
      parallel_sort(v.begin(), v.end(), [&](int a, int b) {
        ++comparisons;
        auto &x = value[static_cast<std::size_t>(a)], &y = value[static_cast<std::size_t>(b)];
        if (x == n && y == n) (a == candidate ? x : y) = settled++;
        if (x == n)
          candidate = a;
        else if (y == n)
          candidate = b;
        return x < y;
      });
    });
    for (std::size_t i = 1; i < v.size(); ++i)
      ASSERT_LE(value[static_cast<std::size_t>(v[i - 1])], value[static_cast<std::size_t>(v[i])]);
    EXPECT_LT(static_cast<double>(comparisons), 8 * n * std::log2(n));
  }
}

TEST(parallel_sort_errors, are_told) {
  std::vector<int> v{3, 2, 1};
  try {
    parallel_sort(v.begin(), v.end());
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_state);
    EXPECT_NE(std::string(e.what()).find("parallel_sort"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("scheduler::run"), std::string::npos) << e.hint();
  }
  on(2, [&] {
    std::thread([&] { EXPECT_THROW(parallel_sort(v.begin(), v.end()), error); }).join();
    try {
      parallel_sort(v.end(), v.begin());
      FAIL();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      EXPECT_NE(std::string(e.what()).find("parallel_sort"), std::string::npos) << e.what();
    }
    parallel_sort(v.begin(), v.begin());
  });
  EXPECT_EQ(v, (std::vector<int>{3, 2, 1}));
}

} // namespace
} // namespace tern
