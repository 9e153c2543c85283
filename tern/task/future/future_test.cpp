// SPDX-License-Identifier: Apache-2.0
#include <tern/task/future.hpp>

#include <atomic>
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

/// Counts how many there are.
struct counted {
  explicit counted(int n = 0) : number(n) { ++alive; }
  counted(const counted& other) : number(other.number) { ++alive; }
  ~counted() { --alive; }
  counted& operator=(const counted&) = default;
  int number;
  static inline std::atomic<int> alive{0};
};

TEST(future, carries_values_and_exceptions) {
  on_workers(2, [] {
    EXPECT_EQ(async([] { return 7; }).get(), 7);
    EXPECT_EQ(*async([] { return std::make_unique<int>(8); }).get(), 8);
    async([] {}).get();
    auto f = async([]() -> int { throw std::out_of_range("far"); });
    EXPECT_THROW(f.get(), std::out_of_range);
    EXPECT_FALSE(f.valid());
    int here = 1;
    int& there = async([&]() -> int& { return here; }).get();
    EXPECT_EQ(&there, &here);
    const int constant = 9;
    EXPECT_EQ(&async([&]() -> const int& { return constant; }).get(), &constant);
    EXPECT_EQ(async([]() -> const std::string { return "as if not const"; }).get(), "as if not const");
  });
}

TEST(future, ready_ones_need_no_scheduler) {
  EXPECT_EQ(make_ready_future(3).get(), 3);
  EXPECT_EQ(*make_ready_future(std::make_unique<int>(4)).get(), 4);
  make_ready_future().get();
  int x = 0;
  EXPECT_EQ(&make_ready_future<int&>(x).get(), &x);
  EXPECT_EQ(make_ready_future<std::string>("text").get(), "text");
  EXPECT_THROW(make_exceptional_future<int>(std::out_of_range("far")).get(), std::out_of_range);
  EXPECT_THROW(make_exceptional_future<void>(std::make_exception_ptr(1)).get(), int);
}

TEST(future, works_between_threads_and_fibers) {
  promise<int> to_thread, to_fiber;
  auto a = to_thread.get_future();
  std::thread outside([&, f = to_fiber.get_future()]() mutable {
    EXPECT_EQ(a.get(), 1);
    EXPECT_EQ(f.get(), 2);
  });
  on_workers(1, [&] {
    to_thread.set_value(1);
    auto wait = async([&] { to_fiber.set_value(2); });
    wait.get();
  });
  outside.join();
}

TEST(future, foreign_threads_and_fibers_exchange_many) {
  on_workers(2, [] {
    constexpr int n = 500;
    std::vector<promise<int>> there(n), back(n);
    std::vector<future<int>> coming, answers;
    for (auto& p : there) coming.push_back(p.get_future());
    for (auto& p : back) answers.push_back(p.get_future());
    std::thread outside([&] {
      for (std::size_t i = 0; i < n; ++i) back[i].set_value(coming[i].get() + 1);
    });
    for (std::size_t i = 0; i < n; ++i) {
      there[i].set_value(static_cast<int>(i));
      EXPECT_EQ(answers[i].get(), static_cast<int>(i) + 1);
    }
    outside.join();
  });
}

TEST(future, a_thousand_waits_in_a_chain) {
  on_workers(3, [] {
    future<int> last = async([] { return 0; });
    for (int i = 0; i < 1000; ++i) last = async([f = std::move(last)]() mutable { return f.get() + 1; });
    EXPECT_EQ(last.get(), 1000);
  });
}

TEST(future, set_and_get_in_any_order) {
  everywhere([] {
    promise<int> p, q;
    auto f = p.get_future();
    auto g = q.get_future();
    auto a = async([&] { p.set_value(g.get() + 1); });
    auto b = async([&] { q.set_value(1); });
    EXPECT_EQ(f.get(), 2);
    a.get();
    b.get();
  });
}

// Timeouts and cancellation ------------------------------------------------------------------------------------------

TEST(future, waits_for_a_time) {
  on_workers(1, [] {
    promise<int> p;
    auto f = p.get_future();
    EXPECT_EQ(f.wait_for(0s), future_status::timeout);
    EXPECT_EQ(f.wait_for(-1h), future_status::timeout);
    EXPECT_EQ(f.wait_for(1us), future_status::timeout);
    EXPECT_EQ(f.wait_for(std::chrono::duration<double>(1e-6)), future_status::timeout);
    EXPECT_EQ(f.wait_until(fiber_clock::now() + 1us), future_status::timeout);
    EXPECT_EQ(f.wait_until(std::chrono::system_clock::now() - 1s), future_status::timeout);
    EXPECT_EQ(f.wait_until(std::chrono::steady_clock::now() + 1us), future_status::timeout);
    auto setter = async([&] { p.set_value(1); });
    EXPECT_EQ(f.wait_for(std::chrono::hours::max()), future_status::ready);
    EXPECT_EQ(f.wait_for(0s), future_status::ready);
    EXPECT_EQ(f.wait_until(fiber_clock::time_point::max()), future_status::ready);
    EXPECT_EQ(f.get(), 1);
    setter.get();
  });
  promise<void> never; // on a foreign thread
  EXPECT_EQ(never.get_future().wait_for(1us), future_status::timeout);
}

TEST(future, set_races_with_a_timeout) {
  everywhere([] {
    promise<int> p;
    auto f = p.get_future();
    auto setter = async([&] {
      this_fiber::sleep_for(1us);
      p.set_value(1);
    });
    const bool in_time = f.wait_for(1us) == future_status::ready;
    EXPECT_TRUE(!in_time || f.ready());
    EXPECT_EQ(f.get(), 1);
    setter.get();
  });
}

TEST(future, set_races_with_a_cancellation) {
  everywhere([] {
    promise<int> p;
    auto f = p.get_future();
    std::stop_source stop;
    auto setter = async([&] { p.set_value(1); });
    auto stopper = async([&] { stop.request_stop(); });
    try {
      EXPECT_EQ(f.get(stop.get_token()), 1);
      EXPECT_FALSE(f.valid());
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::cancelled);
      EXPECT_TRUE(stop.stop_requested());
      EXPECT_EQ(f.get(), 1);
    }
    setter.get();
    stopper.get();
  });
}

TEST(future, a_cancelled_wait_says_who_and_for_what) {
  on_workers(1, [] {
    promise<int> p;
    auto f = p.get_future();
    std::stop_source stop;
    EXPECT_FALSE(f.ready());
    auto waiting = async([&] { return thrown_by([&] { f.wait(stop.get_token()); }); }, {.name = "patient"});
    this_fiber::yield();
    stop.request_stop();
    const error e = waiting.get();
    EXPECT_EQ(e.code(), errc::cancelled);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("'patient'"), HasSubstr("future_test.cpp:")));
    p.set_value(1);
    f.wait(stop.get_token()); // what is there comes out all the same
    EXPECT_EQ(f.get(stop.get_token()), 1);
  });
  promise<int> p;
  auto f = p.get_future();
  std::stop_source stop;
  std::jthread outside([&] { stop.request_stop(); });
  EXPECT_EQ(thrown_by([&] { static_cast<void>(f.get(stop.get_token())); }).code(), errc::cancelled);
  EXPECT_TRUE(f.valid());
}

// Misuse -------------------------------------------------------------------------------------------------------------

TEST(future, broken_promise_names_its_maker) {
  future<int> f;
  {
    promise<int> p;
    f = p.get_future();
    promise<int> moved = std::move(p);
  }
  const error e = thrown_by([&] { f.get(); });
  EXPECT_EQ(e.code(), errc::broken_promise);
  EXPECT_THAT(e.what(), HasSubstr("future_test.cpp:"));
}

TEST(future, broken_promise_names_the_fiber_that_broke_it) {
  on_workers(2, [] {
    promise<int> p;
    auto f = p.get_future();
    async([mine = std::move(p)] {}, {.name = "careless"}).get();
    EXPECT_THAT(thrown_by([&] { f.get(); }).what(), HasSubstr("'careless'"));
  });
}

TEST(future, breaking_wakes_who_waits) {
  everywhere([] {
    auto p = std::make_unique<promise<int>>();
    auto f = p->get_future();
    auto breaker = async([&] { p.reset(); });
    EXPECT_EQ(thrown_by([&] { f.get(); }).code(), errc::broken_promise);
    breaker.get();
  });
}

TEST(future, an_async_that_never_ran_or_never_ended_breaks_its_promise) {
  future<void> not_begun, stuck;
  const auto owned = std::make_shared<int>(1);
  {
    scheduler s({.workers = 1, .name = "test"});
    auto never = std::make_shared<promise<void>>();
    auto f = std::make_shared<future<void>>(never->get_future());
    stuck = async(s, [owned, never = std::move(never), f = std::move(f)] { f->wait(); });
    EXPECT_EQ(s.run([] {}), 1u);
    not_begun = async(s, [owned] { FAIL(); });
    EXPECT_EQ(owned.use_count(), 3);
  }
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_EQ(thrown_by([&] { not_begun.get(); }).code(), errc::broken_promise);
  EXPECT_EQ(thrown_by([&] { stuck.get(); }).code(), errc::broken_promise);
}

TEST(future, a_second_value_is_an_error_that_says_whose) {
  on_workers(1, [] {
    promise<int> p;
    const auto f = p.get_future();
    p.set_value(1);
    const error e = async([&] { return thrown_by([&] { p.set_value(2); }); }, {.name = "second"}).get();
    EXPECT_EQ(e.code(), errc::already_exists);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("'second'"), HasSubstr("future_test.cpp:")));
    EXPECT_EQ(thrown_by([&] { p.set_exception(std::make_exception_ptr(1)); }).code(), errc::already_exists);
  });
}

TEST(future, one_of_many_setters_wins) {
  everywhere([] {
    promise<int> p;
    auto f = p.get_future();
    std::atomic<int> refused{0};
    const auto set = [&](int i) {
      return async([&, i] {
        try {
          p.set_value(i);
        } catch (const error&) {
          ++refused;
        }
      });
    };
    auto a = set(1), b = set(2), c = set(3);
    a.get();
    b.get();
    c.get();
    EXPECT_EQ(refused, 2);
    const int winner = f.get();
    EXPECT_TRUE(winner >= 1 && winner <= 3);
  });
}

TEST(future, waiting_for_oneself_is_a_deadlock) {
  on_workers(2, [] {
    promise<void> begin;
    future<int> me;
    me = async(
        [&, go = begin.get_future()]() mutable {
          go.get();
          const error e = thrown_by([&] { me.wait(); });
          EXPECT_EQ(e.code(), errc::deadlock);
          EXPECT_THAT(e.what(), HasSubstr("'ouroboros'"));
          return 1;
        },
        {.name = "ouroboros"});
    begin.set_value();
    me.wait();
    EXPECT_EQ(me.get(), 1);
  });
}

TEST(future, a_waiter_may_destroy_the_promise_that_woke_it) {
  everywhere(
      [] {
        auto p = std::make_unique<promise<int>>();
        auto f = p->get_future();
        auto* raw = p.get();
        auto setter = async([raw] { raw->set_value(1); });
        EXPECT_EQ(f.get(), 1);
        p.reset(); // while set_value may not have returned
        setter.get();
      },
      500);
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
  EXPECT_THROW((void)shared_future<void>().get(), error);
  EXPECT_THROW((void)f.wait_for(1s), error);
  promise<int> gone = std::move(p);
  EXPECT_THROW(p.set_value(1), error); // NOLINT(bugprone-use-after-move): that is the test
}

// Ownership ----------------------------------------------------------------------------------------------------------

TEST(future, what_a_function_captured_is_gone_when_its_result_is_there) {
  everywhere([] {
    auto owned = std::make_shared<int>(1);
    EXPECT_EQ(async([owned] { return *owned; }).get(), 1);
    EXPECT_EQ(owned.use_count(), 1);
    auto f = async([] { return 2; });
    EXPECT_EQ(f.then([owned](int x) { return x + *owned; }).get(), 3);
    EXPECT_EQ(owned.use_count(), 1);
  });
}

TEST(future, nothing_is_left) {
  on_workers(2, [] {
    {
      promise<counted> p, unkept;
      auto f = p.get_future().share();
      auto dropped = f.then([](const counted& c) { return c; });
      dropped = {};
      auto results = std::vector<future<counted>>();
      for (int i = 0; i < 10; ++i) results.push_back(f.then([c = counted(i)](const counted& x) { return x; }));
      auto broken = unkept.get_future().then([c = counted(1)](counted x) { return x; });
      p.set_value(counted(5));
      for (auto& r : results) EXPECT_EQ(r.get().number, 5);
      promise<counted>(std::move(unkept));
      EXPECT_EQ(thrown_by([&] { broken.get(); }).code(), errc::broken_promise);
    }
    wait_until([] { return counted::alive == 0; }); // `dropped` ends when it likes
  });
  EXPECT_EQ(counted::alive, 0);
}

// Shared futures -----------------------------------------------------------------------------------------------------

TEST(shared_future, shows_everybody_the_same_value) {
  everywhere([] {
    promise<std::unique_ptr<int>> p;
    shared_future<std::unique_ptr<int>> f = p.get_future();
    std::vector<future<const int*>> seen;
    for (int i = 0; i < 3; ++i) seen.push_back(async([f] { return static_cast<const int*>(f.get().get()); }));
    auto setter = async([&] { p.set_value(std::make_unique<int>(1)); });
    for (auto& s : seen) EXPECT_EQ(s.get(), f.get().get());
    setter.get();
  });
}

TEST(shared_future, throws_as_often_as_one_looks) {
  on_workers(2, [] {
    promise<void> p;
    auto f = p.get_future().share();
    const auto g = f; // copies are independent
    std::thread outside([g] { EXPECT_THROW(g.get(), std::out_of_range); });
    p.set_exception(std::make_exception_ptr(std::out_of_range("far")));
    EXPECT_THROW(f.get(), std::out_of_range);
    EXPECT_THROW(f.get(), std::out_of_range);
    EXPECT_EQ(g.wait_for(1h), future_status::ready);
    EXPECT_THROW(g.get(std::stop_token()), std::out_of_range);
    outside.join();
    int x = 0;
    const shared_future<int&> r = make_ready_future<int&>(x);
    EXPECT_EQ(&r.get(), &x);
  });
}

} // namespace
} // namespace tern
