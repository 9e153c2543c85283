// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel_sort.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/sync.hpp>

namespace tern {
namespace {

namespace sorting = detail::sorting;

void on(int workers, unique_function<void()> main) {
  scheduler s({.workers = workers, .name = "test"});
  s.run(std::move(main));
}

/// One type for many comparisons: each type is a parallel_sort of its own to the compiler, and takes it a second.
template <class T> using any_less = std::function<bool(const T&, const T&)>;

/// As long as it takes for two workers, and for four, to distribute numbers of 8 bytes together.
constexpr std::size_t for_two = 70'000, for_four = 300'000;

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
INSTANTIATE_TEST_SUITE_P(workers, sort_on, testing::Values(1, 2, 4),
                         [](const auto& i) { return std::to_string(i.param) + "_workers"; });

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
  check(random_numbers<double>(1'000'003));
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
  for (const std::size_t n : {std::size_t{5000}, for_two, for_four}) {
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
    for (const std::uint64_t distinct : {2u, 3u, 16u, 200u, 300u}) check(random_numbers<double>(n, distinct));
    v = random_numbers<double>(n); // one value in most places
    for (std::size_t i = 0; i < n; ++i)
      if (i % 10) v[i] = 5;
    check(v);
    for (std::size_t i = 0; i < n; ++i)
      v[i] = std::exp2(static_cast<double>(i * 7919 % n % 1000)); // most in few buckets
    check(v);
  }
}

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

std::vector<std::string> random_strings(std::size_t n) {
  const auto numbers = random_numbers<std::uint64_t>(n);
  std::vector<std::string> v;
  for (const auto x : numbers)
    v.push_back(std::to_string(x % 7 ? x : x % 1000) + (x % 3 ? "" : " and so on, at length"));
  return v;
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
    const std::int64_t further = tern::detail::sanitized ? 6 : 3; // halves
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

// McIlroy, "A Killer Adversary for Quicksort", 1999: the elements' values are made up such that each pivot is bad.
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

// A network that sorts all zeros and ones sorts everything (Knuth, The Art of Computer Programming 3, 5.3.4).
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
    auto v = random_numbers<double>(n);
    sorting::heap_sort(v.begin(), v.end(), less);
    EXPECT_TRUE(std::is_sorted(v.begin(), v.end()));
  }
}

} // namespace
} // namespace tern
