// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tests of sorting share. Each type of elements and of comparisons is a parallel_sort of its
/// own to the compiler, so these tests are several files.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/parallel_sort.hpp>

namespace tern {

inline void on(int workers, unique_function<void()> main) {
  scheduler s({.workers = workers, .name = "test"});
  s.run(std::move(main));
}

/// One type for many comparisons: each type is a parallel_sort of its own to the compiler, and
/// takes it a second.
template <class T> using any_less = std::function<bool(const T&, const T&)>;

/// As long as it takes for two workers, and for four, to distribute numbers of 8 bytes together.
inline constexpr std::size_t for_two = 70'000, for_four = 300'000;

class sort_on : public testing::TestWithParam<int> {
protected:
  void run(unique_function<void()> main) const { on(GetParam(), std::move(main)); }
  template <class T, class Less = std::less<>> void check(std::vector<T> v, Less less = {}) const {
    auto expected = v;
    std::sort(expected.begin(), expected.end(), less);
    run([&] { parallel_sort(v.begin(), v.end(), less); });
    // Not EXPECT_EQ: it would print them all.
    EXPECT_TRUE(v == expected) << v.size() << " elements";
  }
};

template <class T> std::vector<T> random_numbers(std::size_t n, std::uint64_t below = 0) {
  std::mt19937_64 random(n + below);
  std::vector<T> v(n);
  for (T& x : v) {
    const std::uint64_t bits = below ? random() % below : random();
    if constexpr (std::is_floating_point_v<T>)
      x = static_cast<T>(static_cast<std::int64_t>(bits));
    else
      x = static_cast<T>(bits);
  }
  return v;
}

inline std::vector<std::string> random_strings(std::size_t n) {
  const auto numbers = random_numbers<std::uint64_t>(n);
  std::vector<std::string> v;
  for (const auto x : numbers)
    v.push_back(std::to_string(x % 7 ? x : x % 1000) + (x % 3 ? "" : " and so on, at length"));
  return v;
}

} // namespace tern
