// SPDX-License-Identifier: Apache-2.0
#include <tern/task/coro.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include <tern/task/when.hpp>

namespace tern {
namespace {

using test_support::everywhere;
using test_support::on_workers;

coro<int> twice(future<int> f) { co_return 2 * co_await std::move(f); }
coro<int> sum(future<int> a, future<int> b) { co_return co_await twice(std::move(a)) + co_await twice(std::move(b)); }
coro<int> fails() {
  throw std::out_of_range("far");
  co_return 1;
}

TEST(coro, awaits_futures_and_coros) {
  everywhere([] {
    promise<int> p;
    auto f = spawn(sum(p.get_future(), async([] { return 2; })));
    auto setter = async([&] { p.set_value(1); });
    EXPECT_EQ(f.get(), 6);
    setter.get();
  });
}

TEST(coro, waits_in_place) {
  everywhere([] {
    promise<int> p;
    auto setter = async([&] { p.set_value(1); });
    EXPECT_EQ(sync_wait(sum(p.get_future(), async([] { return 2; }))), 6);
    setter.get();
  });
}

coro<> nothing() { co_return; }
coro<std::unique_ptr<int>> move_only(std::unique_ptr<int> p) { co_return p; }
coro<int&> reference(int& x) { co_return x; }
coro<std::string> all_kinds(int& x) {
  co_await nothing();
  EXPECT_EQ(*co_await move_only(std::make_unique<int>(1)), 1);
  EXPECT_EQ(&co_await reference(x), &x);
  EXPECT_EQ(&co_await make_ready_future<int&>(x), &x);
  co_await make_ready_future();
  const shared_future<int> shared = make_ready_future(2);
  EXPECT_EQ(&co_await shared, &shared.get());
  co_return "done";
}
TEST(coro, results_of_all_kinds) {
  int x = 0;
  EXPECT_EQ(sync_wait(all_kinds(x)), "done"); // on a foreign thread
  on_workers(1, [] {
    int y = 0;
    EXPECT_EQ(all_kinds(y).get(), "done");
    EXPECT_EQ(spawn(all_kinds(y)).get(), "done");
    EXPECT_EQ(&spawn(reference(y)).get(), &y);
    EXPECT_EQ(*spawn(move_only(std::make_unique<int>(3))).get(), 3);
    spawn(nothing()).get();
  });
}

coro<int> catches(coro<int> inner) {
  try {
    co_await std::move(inner);
  } catch (const std::out_of_range&) {
    co_return 1;
  }
  co_return 2;
}
coro<int> passes_on(future<int> f) { co_return co_await std::move(f); }
TEST(coro, exceptions_come_out_of_co_await) {
  everywhere([] {
    EXPECT_EQ(spawn(catches(fails())).get(), 1);
    EXPECT_EQ(spawn(catches(passes_on(async([]() -> int { throw std::out_of_range("far"); })))).get(), 1);
    EXPECT_THROW(spawn(fails()).get(), std::out_of_range);
    EXPECT_THROW(sync_wait(fails()), std::out_of_range);
  });
}

TEST(coro, a_broken_promise_comes_out_of_co_await) {
  everywhere([] {
    auto p = std::make_unique<promise<int>>();
    auto f = spawn(passes_on(p->get_future()));
    auto breaker = async([&] { p.reset(); });
    try {
      f.get();
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::broken_promise);
    }
    breaker.get();
  });
}

coro<> sets(bool& done, std::shared_ptr<int> owned) {
  done = true;
  EXPECT_EQ(*owned, 1);
  co_return;
}
TEST(coro, is_lazy_and_owns_its_frame) {
  bool done = false;
  auto owned = std::make_shared<int>(1);
  {
    auto c = sets(done, owned);
    EXPECT_EQ(owned.use_count(), 2);
    auto moved = std::move(c);
    EXPECT_FALSE(c.valid()); // NOLINT(bugprone-use-after-move): that is the test
    moved = sets(done, owned);
    EXPECT_EQ(owned.use_count(), 2);
  }
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_FALSE(done);
  sync_wait(sets(done, owned));
  EXPECT_TRUE(done);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(coro, what_it_owned_is_gone_when_its_result_is_there) {
  everywhere([] {
    bool done = false;
    auto owned = std::make_shared<int>(1);
    auto f = spawn(sets(done, owned));
    f.get();
    EXPECT_TRUE(done);
    EXPECT_EQ(owned.use_count(), 1);
  });
}

coro<int> down(int n, future<void>* at_the_end) {
  if (n == 0) {
    if (at_the_end) co_await std::move(*at_the_end);
    co_return 0;
  }
  co_return 1 + co_await down(n - 1, at_the_end);
}
coro<int> down_to_failure(int n) {
  if (n == 0) throw std::out_of_range("deep");
  co_return 1 + co_await down_to_failure(n - 1);
}
coro<int> loop(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += co_await make_ready_future(1);
    sum += co_await down(0, nullptr);
  }
  co_return sum;
}
TEST(coro, depth_and_length_cost_no_stack) {
  static constexpr int n = 100'000;
  on_workers(2, [] {
    EXPECT_EQ(sync_wait(down(n, nullptr)), n);
    promise<void> p;
    auto end = p.get_future();
    auto f = spawn(down(n, &end));
    this_fiber::yield();
    p.set_value();
    EXPECT_EQ(f.get(), n);
    EXPECT_EQ(spawn(loop(n)).get(), n);
    EXPECT_THROW(spawn(down_to_failure(n / 10)).get(), std::out_of_range);
  });
}

coro<int> relay(future<int> from) { co_return 1 + co_await std::move(from); }
TEST(coro, a_long_chain_of_futures) {
  static constexpr int n = 100'000;
  on_workers(2, [] {
    promise<int> p;
    future<int> last = p.get_future();
    for (int i = 0; i < n; ++i) last = spawn(relay(std::move(last)));
    p.set_value(0);
    EXPECT_EQ(last.get(), n);
  });
}

coro<int> wait_for_go(shared_future<int> go) {
  const int x = co_await go;
  EXPECT_TRUE(scheduler::in_fiber());
  co_return x + async([] { return 1; }).get(); // a body may block
}
TEST(coro, many_wait_for_one) {
  on_workers(3, [] {
    promise<int> p;
    const auto go = p.get_future().share();
    std::vector<future<int>> all;
    for (int i = 0; i < 5000; ++i) all.push_back(spawn(wait_for_go(go)));
    this_fiber::yield();
    p.set_value(1);
    int total = 0;
    for (auto& f : when_all(std::move(all)).get()) total += f.get();
    EXPECT_EQ(total, 10'000);
  });
}

TEST(coro, goes_on_in_fibers_of_its_scheduler) {
  scheduler s({.workers = 2, .name = "test"});
  promise<int> p, q;
  const auto body = [](scheduler* where, future<int> a, future<int> b) -> coro<int> {
    EXPECT_EQ(scheduler::current(), where);
    const int x = co_await std::move(a);
    EXPECT_EQ(scheduler::current(), where);
    EXPECT_TRUE(scheduler::in_fiber());
    const int y = co_await std::move(b);
    EXPECT_EQ(scheduler::current(), where);
    co_return x + y;
  };
  auto f = spawn(s, body(&s, p.get_future(), q.get_future())); // from a foreign thread
  promise<void> end;
  std::thread setter([&] {
    p.set_value(1);
    q.set_value(2);
    EXPECT_EQ(f.get(), 3);
    end.set_value();
  });
  EXPECT_EQ(s.run([&] { end.get_future().get(); }), 0u);
  setter.join();
}

TEST(coro, outside_says_what_to_do) {
  try {
    static_cast<void>(spawn(nothing()));
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_state);
    EXPECT_THAT(e.what(),
                testing::AllOf(testing::HasSubstr("spawn(scheduler, "), testing::HasSubstr("coro_test.cpp:")));
  }
  EXPECT_THROW(sync_wait(coro<int>()), error);
  on_workers(1, [] {
    EXPECT_THROW(static_cast<void>(spawn(coro<>())), error);
    const auto awaits_none = []() -> coro<> { co_await coro<>(); };
    EXPECT_THROW(spawn(awaits_none()).get(), error);
    const auto awaits_no_future = []() -> coro<> { co_await future<void>(); };
    EXPECT_THROW(spawn(awaits_no_future()).get(), error);
  });
}

TEST(coro, changes_its_scheduler) {
  scheduler other({.workers = 1, .name = "other"});
  promise<void> end;
  std::thread runs_other([&, f = end.get_future()]() mutable { other.run([&] { f.get(); }); });
  const auto travel = [](scheduler* there, future<int> f) -> coro<int> {
    scheduler* const here = scheduler::current();
    co_await resume_on(*there);
    EXPECT_EQ(scheduler::current(), there);
    co_await resume_on(*there);
    const int x = co_await std::move(f);
    EXPECT_EQ(scheduler::current(), there);
    if (!here) co_return x;
    co_await resume_on(*here);
    EXPECT_EQ(scheduler::current(), here);
    co_return x;
  };
  on_workers(2, [&] {
    promise<int> p;
    auto f = spawn(travel(&other, p.get_future()));
    p.set_value(1);
    EXPECT_EQ(f.get(), 1);
    EXPECT_EQ(sync_wait(travel(&other, async([] { return 2; }))), 2);
  });
  EXPECT_EQ(sync_wait(travel(&other, make_ready_future(3))), 3); // from a foreign thread
  end.set_value();
  runs_other.join();
}

coro<int> holds(future<int> f, std::shared_ptr<int> owned) { co_return *owned + co_await std::move(f); }
coro<int> holds_one_that_holds(future<int> f, std::shared_ptr<int> owned) {
  co_return co_await holds(std::move(f), owned);
}
TEST(coro, a_scheduler_that_ends_destroys_it) {
  auto owned = std::make_shared<int>(1);
  promise<int> p;
  future<int> not_begun, suspended;
  {
    scheduler s({.workers = 1, .name = "test"});
    EXPECT_EQ(s.run([&] { suspended = spawn(holds_one_that_holds(p.get_future(), owned)); }), 0u);
    p.set_value(1); // there are no fibers any more
    not_begun = spawn(s, holds(make_ready_future(1), owned));
    EXPECT_GT(owned.use_count(), 1);
  }
  EXPECT_EQ(owned.use_count(), 1);
  for (auto* f : {&not_begun, &suspended}) {
    try {
      f->get();
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::broken_promise);
    }
  }
}

coro<int> ping(std::vector<future<int>> in, std::vector<promise<int>> out) {
  int last = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    last = co_await std::move(in[i]);
    out[i].set_value(last + 1);
  }
  co_return last;
}
TEST(coro, ping_pong) {
  everywhere([] {
    constexpr std::size_t n = 3;
    std::vector<promise<int>> there(n), back(n);
    std::vector<future<int>> arriving, coming;
    for (auto& p : there) arriving.push_back(p.get_future());
    for (auto& p : back) coming.push_back(p.get_future());
    auto f = spawn(ping(std::move(arriving), std::move(back)));
    int x = 0;
    for (std::size_t i = 0; i < n; ++i) {
      there[i].set_value(x);
      x = coming[i].get();
    }
    EXPECT_EQ(x, static_cast<int>(n));
    EXPECT_EQ(f.get(), static_cast<int>(n) - 1);
  });
}

} // namespace
} // namespace tern
