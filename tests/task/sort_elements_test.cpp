// SPDX-License-Identifier: Apache-2.0
// Sorting elements of many kinds: structs, strings, elements that only move, other iterators.
#include <tern/task/parallel_sort.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/task/support/sorting.hpp"

namespace tern {
namespace {

struct particle {
  std::int64_t cell;
  double x, y;
  bool operator==(const particle&) const = default;
};
template <std::size_t Bytes> struct record {
  std::array<unsigned char, Bytes - 4> what{};
  std::uint32_t key = 0;
  bool operator==(const record&) const = default;
};

TEST_P(sort_on, structs) {
  const auto numbers = random_numbers<std::int64_t>(for_four);
  std::vector<particle> v;
  for (std::size_t i = 0; i < numbers.size(); ++i) v.push_back({numbers[i], static_cast<double>(i), 1});
  check(v, [](const particle& a, const particle& b) { return a.cell < b.cell; });
  const auto of_size = [&]<std::size_t Bytes>(record<Bytes>) {
    std::vector<record<Bytes>> r(20'000);
    for (std::size_t i = 0; i < r.size(); ++i) {
      r[i].key = static_cast<std::uint32_t>(numbers[i]);
      r[i].what.fill(static_cast<unsigned char>(r[i].key >> 3));
    }
    check(r, [](const auto& a, const auto& b) { return a.key < b.key; });
  };
  of_size(record<32>());
  of_size(record<52>());
  of_size(record<256>());
  of_size(record<300>());
}

TEST_P(sort_on, strings) {
  check(random_strings(100));
  check(random_strings(for_two));
  check(random_strings(for_two), any_less<std::string>(std::greater<>()));
}

TEST_P(sort_on, elements_that_only_move) {
  const auto numbers = random_numbers<int>(for_two);
  std::vector<std::unique_ptr<int>> v;
  for (const int x : numbers) v.push_back(std::make_unique<int>(x));
  run([&] { parallel_sort(v.begin(), v.end(), [](const auto& a, const auto& b) { return *a < *b; }); });
  EXPECT_TRUE(std::is_sorted(v.begin(), v.end(), [](const auto& a, const auto& b) { return *a < *b; }));
}

TEST_P(sort_on, other_iterators) {
  run([] {
    const auto numbers = random_numbers<double>(for_two);
    std::deque<double> d(numbers.begin(), numbers.end());
    parallel_sort(d.begin(), d.end());
    EXPECT_TRUE(std::is_sorted(d.begin(), d.end()));
    auto v = random_numbers<double>(for_two);
    parallel_sort(v.rbegin(), v.rend());
    EXPECT_TRUE(std::is_sorted(v.rbegin(), v.rend()));
    std::array<int, 5> a{3, 1, 2, 5, 4};
    parallel_sort(a.begin() + 1, a.end());
    EXPECT_EQ(a, (std::array<int, 5>{3, 1, 2, 4, 5}));
  });
}

} // namespace
} // namespace tern
