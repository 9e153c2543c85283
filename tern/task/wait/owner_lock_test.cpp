// SPDX-License-Identifier: Apache-2.0
#include <tern/task/wait/owner_lock.hpp>

#include <mutex>
#include <thread>

#include <gtest/gtest.h>

namespace {

using tern::detail::asymmetric_barrier;
using tern::detail::owner_lock;

// Two numbers that are only equal outside the lock.
class watched {
public:
  explicit watched(bool owned) {
    if (owned) lock.own(asymmetric_barrier(asymmetric_barrier::available(true)));
  }
  template <class Lock> void change(Lock& l) {
    const std::lock_guard hold(l);
    ASSERT_EQ(one, two);
    one = one + 1;
    two = two + 1;
  }
  owner_lock lock;
  volatile long one = 0, two = 0;
};

class owner_locks : public testing::TestWithParam<bool> {};

TEST_P(owner_locks, exclude_the_owner_and_visitors_from_each_other) {
  watched w(GetParam());
  constexpr long own = 300'000, others = 3'000;
  {
    const auto visit = [&w] {
      owner_lock::visitor from_outside(w.lock);
      for (long i = 0; i < others; ++i) w.change(from_outside);
    };
    const std::jthread first(visit), second(visit);
    for (long i = 0; i < own; ++i) w.change(w.lock);
  }
  EXPECT_EQ(w.one, own + 2 * others);
}

TEST_P(owner_locks, are_not_had_twice) {
  watched w(GetParam());
  owner_lock::visitor from_outside(w.lock);
  {
    const std::lock_guard hold(w.lock);
    EXPECT_FALSE(from_outside.try_lock());
  }
  ASSERT_TRUE(from_outside.try_lock());
  EXPECT_FALSE(owner_lock::visitor(w.lock).try_lock());
  from_outside.unlock();
  w.change(w.lock);
}

INSTANTIATE_TEST_SUITE_P(, owner_locks, testing::Bool(),
                         [](const auto& one) { return one.param ? "owned" : "everybodys"; });

} // namespace
