// SPDX-License-Identifier: Apache-2.0
#include <tern/task/future.hpp>

#include <memory>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

template <class F> void in_fiber(int workers, F f) {
  scheduler s({.workers = workers, .name = "test"});
  EXPECT_EQ(s.run(std::move(f)), 0u);
}

TEST(future, carries_values_and_exceptions) {
  in_fiber(2, [] {
    EXPECT_EQ(async([] { return 7; }).get(), 7);
    EXPECT_EQ(*async([] { return std::make_unique<int>(8); }).get(), 8);
    async([] {}).get();
    auto f = async([]() -> int { throw std::out_of_range("far"); });
    EXPECT_THROW(f.get(), std::out_of_range);
    EXPECT_FALSE(f.valid());
  });
}

TEST(future, works_between_threads_and_fibers) {
  promise<int> to_thread, to_fiber;
  auto a = to_thread.get_future();
  std::thread outside([&, f = to_fiber.get_future()]() mutable {
    EXPECT_EQ(a.get(), 1);
    EXPECT_EQ(f.get(), 2);
  });
  in_fiber(1, [&] {
    to_thread.set_value(1);
    auto wait = async([&] { to_fiber.set_value(2); });
    wait.get();
  });
  outside.join();
}

TEST(future, a_thousand_waits_in_a_chain) {
  in_fiber(3, [] {
    future<int> last = async([] { return 0; });
    for (int i = 0; i < 1000; ++i) last = async([f = std::move(last)]() mutable { return f.get() + 1; });
    EXPECT_EQ(last.get(), 1000);
  });
}

TEST(future, broken_promise_names_its_maker) {
  future<int> f;
  {
    promise<int> p;
    f = p.get_future();
    promise<int> moved = std::move(p);
  }
  try {
    f.get();
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::broken_promise);
    EXPECT_THAT(e.what(), testing::HasSubstr("future_test.cpp:"));
  }
}

TEST(future, a_waiter_may_destroy_the_promise_that_woke_it) {
  in_fiber(3, [] {
    for (int i = 0; i < 2000; ++i) {
      auto p = std::make_unique<promise<int>>();
      auto f = p->get_future();
      auto* raw = p.get();
      auto setter = async([raw] { raw->set_value(1); });
      EXPECT_EQ(f.get(), 1);
      p.reset(); // while set_value may not have returned
      setter.get();
    }
  });
}

struct refuses_copies {
  refuses_copies() = default;
  refuses_copies(const refuses_copies&) { throw std::length_error("too long"); }
};
TEST(future, a_value_that_cannot_be_stored_leaves_the_promise_unkept) {
  promise<refuses_copies> p;
  auto f = p.get_future();
  const refuses_copies value;
  EXPECT_THROW(p.set_value(value), std::length_error);
  p.set_exception(std::make_exception_ptr(1));
  EXPECT_THROW(f.get(), int);
}

TEST(future, misuse_is_an_error) {
  promise<int> p;
  auto f = p.get_future();
  EXPECT_THROW((void)p.get_future(), error);
  p.set_value(1);
  EXPECT_THROW(p.set_value(2), error);
  EXPECT_THROW(p.set_exception(std::make_exception_ptr(1)), error);
  EXPECT_EQ(f.get(), 1);
  EXPECT_THROW(f.get(), error);
  EXPECT_THROW(f.wait(), error);
  EXPECT_THROW((void)future<void>().ready(), error);
}

} // namespace
} // namespace tern
