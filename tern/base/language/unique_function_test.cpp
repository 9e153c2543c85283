// SPDX-License-Identifier: Apache-2.0
#include <tern/base/unique_function.hpp>

#include <array>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(unique_function, calls_small_and_large_callables) {
  unique_function<int(int)> small = [k = 2](int x) { return k * x; };
  std::array<int, 100> table{};
  table[99] = 7;
  unique_function<int(int)> large = [table](int x) { return table[static_cast<std::size_t>(x)]; };
  EXPECT_EQ(small(21), 42);
  EXPECT_EQ(large(99), 7);
  std::swap(small, large);
  EXPECT_EQ(small(99), 7);
  EXPECT_EQ(large(21), 42);
}

TEST(unique_function, owns_what_cannot_be_copied_and_destroys_it_once) {
  auto alive = std::make_shared<int>(0);
  std::weak_ptr<int> watch = alive;
  {
    unique_function<void()> f = [p = std::make_unique<std::shared_ptr<int>>(std::move(alive))] { ++**p; };
    f();
    EXPECT_EQ(*watch.lock(), 1);
    unique_function<void()> g = std::move(f);
    EXPECT_FALSE(f); // NOLINT(bugprone-use-after-move): moved from means empty, as documented
    g();
    EXPECT_EQ(*watch.lock(), 2);
    g = {};
    EXPECT_TRUE(watch.expired());
    EXPECT_FALSE(g);
  }
}

TEST(unique_function, keeps_state_between_calls) {
  unique_function<int()> count = [n = 0]() mutable { return ++n; };
  count();
  auto moved = std::move(count);
  EXPECT_EQ(moved(), 2);
}

} // namespace
} // namespace tern
