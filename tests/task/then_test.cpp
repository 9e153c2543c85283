// SPDX-License-Identifier: Apache-2.0
/// \file
/// Continuations and async.
#include <tern/task/future.hpp>

#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/sync.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere;
using test_support::on_workers;
using test_support::thrown_by;
using testing::AllOf;
using testing::HasSubstr;

TEST(then, takes_the_value_or_the_future) {
  on_workers(2, [] {
    EXPECT_EQ(async([] { return 1; }).then([](int x) { return x + 1; }).get(), 2);
    EXPECT_EQ(async([] {}).then([] { return 3; }).get(), 3);
    EXPECT_EQ(*async([] { return std::make_unique<int>(4); }).then([](auto p) { return p; }).get(), 4);
    int x = 5;
    EXPECT_EQ(&async([&]() -> int& { return x; }).then([](int& y) -> int& { return y; }).get(), &x);
    EXPECT_EQ(async([] { return 6; }).then([](future<int> f) { return f.ready() ? f.get() : 0; }).get(), 6);
    async([] { return 7; }).then([](int) {}).get();
    const shared_future<int> s = async([] { return 8; });
    EXPECT_EQ(s.then([](const int& y) { return y; }).get(), 8);
    EXPECT_EQ(s.then([](const shared_future<int>& f) { return f.get(); }).get(), 8);
    EXPECT_EQ(s.get(), 8);
    const shared_future<void> v = async([] {});
    EXPECT_EQ(v.then([] { return 9; }).get(), 9);
  });
}

TEST(then, exceptions_pass_by_who_takes_a_value) {
  everywhere([] {
    auto f = async([]() -> int { throw std::out_of_range("far"); }).then([](int x) {
      ADD_FAILURE();
      return x;
    });
    auto g = f.then([](future<int> failed) {
      EXPECT_THROW(failed.get(), std::out_of_range);
      return 1;
    });
    EXPECT_EQ(g.get(), 1);
    auto h =
        make_ready_future(1).then([](int) -> int { throw std::length_error("long"); }).then([](int x) { return x; });
    EXPECT_THROW(h.get(), std::length_error);
  });
}

TEST(then, unwraps_a_future_that_is_returned) {
  everywhere([] {
    promise<int> p;
    future<int> f = make_ready_future().then([inner = p.get_future()]() mutable { return std::move(inner); });
    auto setter = async([&] { p.set_value(1); });
    EXPECT_EQ(f.get(), 1);
    setter.get();
    future<void> failed =
        make_ready_future().then([] { return make_exceptional_future<void>(std::out_of_range("far")); });
    EXPECT_THROW(failed.get(), std::out_of_range);
    future<int> none = make_ready_future().then([] { return future<int>(); });
    EXPECT_EQ(thrown_by([&] { none.get(); }).code(), errc::invalid_state);
    future<int> nested = async([] { return make_ready_future(2); }).then([](future<int> x) { return x; });
    EXPECT_EQ(nested.get(), 2);
  });
}

TEST(then, may_block_and_runs_on_the_scheduler_where_it_was_said) {
  scheduler other({.workers = 1, .name = "other"});
  promise<void> end;
  std::thread runs_other([&, f = end.get_future()]() mutable { other.run([&] { f.get(); }); });
  on_workers(1, [&] {
    scheduler* const here = scheduler::current();
    promise<int> p, q;
    auto f = p.get_future().then([&](int x) {
      EXPECT_EQ(scheduler::current(), here);
      EXPECT_TRUE(scheduler::in_fiber());
      return x + q.get_future().get();
    });
    auto g = async(other, [&] { // the scheduler that sets the promise runs no continuation of here
      p.set_value(1);
      return scheduler::current();
    });
    EXPECT_EQ(g.get(), &other);
    q.set_value(2);
    EXPECT_EQ(f.get(), 3);
    EXPECT_EQ(make_ready_future().then(other, [] { return scheduler::current(); }).get(), &other);
  });
  end.set_value();
  runs_other.join();
}

TEST(then, needs_a_scheduler_on_a_foreign_thread) {
  promise<int> p;
  auto f = p.get_future();
  const error e = thrown_by([&] { static_cast<void>(f.then([](int x) { return x; })); });
  EXPECT_EQ(e.code(), errc::invalid_state);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("then(scheduler, f)"), HasSubstr("then_test.cpp:")));
  ASSERT_TRUE(f.valid());
  scheduler s({.workers = 1, .name = "test"});
  auto g = f.then(s, [](int x) { return x + 1; });
  EXPECT_EQ(s.run([&] { p.set_value(1); }), 0u);
  EXPECT_EQ(g.get(), 2);
}

TEST(then, on_a_scheduler_that_ends_breaks_its_promise) {
  promise<int> p;
  future<int> f, g;
  {
    scheduler s({.workers = 1, .name = "test"});
    f = p.get_future().then(s, [](int x) { return x; });
    g = f.then(s, [](int x) { return x; });
    EXPECT_EQ(s.run([] {}), 0u);
    p.set_value(1);
  }
  EXPECT_EQ(thrown_by([&] { g.get(); }).code(), errc::broken_promise);
}

TEST(then, a_long_chain_does_not_nest) {
  static constexpr int n = 100'000;
  on_workers(2, [] {
    promise<int> p;
    future<int> last = p.get_future();
    for (int i = 0; i < n; ++i) last = last.then([](int x) { return x + 1; });
    p.set_value(0);
    EXPECT_EQ(last.get(), n);
    promise<int> broken;
    last = broken.get_future();
    for (int i = 0; i < n; ++i) last = last.then([](int x) { return x + 1; });
    promise<int>(std::move(broken));
    EXPECT_EQ(thrown_by([&] { last.get(); }).code(), errc::broken_promise);
  });
}

future<int> count_down(int n, future<void>& go) {
  if (n == 0) return go.then([] { return 0; });
  return make_ready_future().then([n, &go] { return count_down(n - 1, go); }).then([](int x) { return x + 1; });
}
TEST(then, a_long_recursion_does_not_nest) {
  on_workers(2, [] {
    promise<void> p;
    auto go = p.get_future();
    auto f = count_down(50'000, go);
    EXPECT_EQ(f.wait_for(1ms), future_status::timeout); // lets it begin, however far it gets
    p.set_value();
    EXPECT_EQ(f.get(), 50'000);
  });
}

// Async --------------------------------------------------------------------------------------------------------------

TEST(async, outside_says_what_to_do) {
  const error e = thrown_by([] { static_cast<void>(async([] { return 1; })); });
  EXPECT_EQ(e.code(), errc::invalid_state);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("tern::async"), HasSubstr("then_test.cpp:")));
}

TEST(async, uses_its_options) {
  on_workers(2, [] {
    EXPECT_EQ(async([] { return this_fiber::name(); }, {.name = "solver"}).get(), "solver");
    EXPECT_EQ(async([] { return scheduler::current_worker(); }, {.worker = 1}).get(), 1);
    EXPECT_EQ(async(*scheduler::current(), [] { return this_fiber::name(); }, {.name = "given"}).get(), "given");
    EXPECT_EQ(thrown_by([] { static_cast<void>(async([] {}, {.worker = 99})); }).code(), errc::invalid_argument);
  });
}

TEST(async, many_at_once) {
  on_workers(3, [] {
    constexpr int n = 10'000; // more than get a stack at once
    std::vector<future<int>> all;
    for (int i = 0; i < n; ++i) all.push_back(async([i] { return i; }));
    long sum = 0;
    for (auto& f : all) sum += f.get();
    EXPECT_EQ(sum, long{n} * (n - 1) / 2);
  });
}

int fib(int n) {
  if (n < 2) return n;
  auto a = async([n] { return fib(n - 1); });
  const int b = fib(n - 2);
  return a.get() + b;
}
TEST(async, divides_and_conquers) {
  everywhere([] { EXPECT_EQ(fib(5), 5); });
  on_workers(4, [] { EXPECT_EQ(fib(16), 987); });
}

} // namespace
} // namespace tern
