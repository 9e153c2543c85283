// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel/quick_sort.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tern {
namespace {

namespace sorting = detail::sorting;

// A network that sorts all zeros and ones sorts everything (Knuth, The Art of Computer Programming
// 3, 5.3.4).
TEST(sorting_networks, sort_all_zeros_and_ones) {
  const std::less<> less;
  for (std::size_t n = 0; n <= 16; ++n)
    for (std::uint32_t bits = 0; bits < 1u << n; ++bits) {
      std::array<int, 16> ints{};
      std::array<double, 16> doubles{};
      for (std::size_t i = 0; i < n; ++i) {
        ints[i] = static_cast<int>(bits >> i & 1);
        doubles[i] = -ints[i];
      }
      auto lanes = ints;
      sorting::network_sort(ints.begin(), n, less);
      ASSERT_TRUE(std::is_sorted(ints.begin(), ints.begin() + n)) << n << ' ' << bits;
      if (n < 9) continue;
      sorting::lanes<int, std::less<>>::sort(lanes.data(), n);
      ASSERT_EQ(lanes, ints);
      sorting::lanes<double, std::greater<>>::sort(doubles.data(), n);
      ASSERT_TRUE(std::equal(ints.begin(), ints.begin() + n, doubles.begin(), [](int a, double b) { return a == -b; }));
    }
}

TEST(sorting_networks, sort_numbers_in_columns) {
  std::mt19937 random(1);
  const auto check = [&]<class T, class Less>(T, Less less) {
    for (std::size_t n = 9; n <= 32; ++n)
      for (int round = 0; round < 2000; ++round) {
        std::array<T, 34> v{};
        for (T& x : v) x = static_cast<T>(round % 2 ? random() % 2 : random());
        auto expected = v;
        std::sort(expected.begin() + 1, expected.begin() + 1 + n, less);
        sorting::lanes<T, Less>::sort(v.data() + 1, n);
        ASSERT_EQ(v, expected);
      }
  };
  check(double{}, std::less<>());
  check(double{}, std::greater<double>());
  check(float{}, std::less<float>());
  check(float{}, std::greater<>());
  check(std::int32_t{}, std::less<>());
  check(std::int32_t{}, std::ranges::greater());
}

TEST(heap_sort, sorts) {
  std::less<> less;
  for (std::size_t n = 0; n < 200; ++n) {
    std::mt19937_64 random(n);
    std::vector<double> v(n);
    for (double& x : v) x = static_cast<double>(static_cast<std::int64_t>(random()));
    sorting::heap_sort(v.begin(), v.end(), less);
    EXPECT_TRUE(std::is_sorted(v.begin(), v.end()));
  }
}

} // namespace
} // namespace tern
