// SPDX-License-Identifier: Apache-2.0
#include <tern/task/when.hpp>

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere;
using test_support::on_workers;

TEST(when_all, gives_the_futures_of_a_call) {
  everywhere([] {
    promise<int> p;
    const shared_future<void> shared = async([] {});
    auto all = when_all(p.get_future(), async([] { return std::make_unique<int>(2); }), shared,
                        async([]() -> int { throw std::out_of_range("far"); }));
    static_assert(std::is_same_v<
                  decltype(all),
                  future<std::tuple<future<int>, future<std::unique_ptr<int>>, shared_future<void>, future<int>>>>);
    EXPECT_FALSE(all.ready());
    auto setter = async([&] { p.set_value(1); });
    auto [a, b, c, d] = all.get();
    EXPECT_TRUE(a.ready() && b.ready() && c.ready() && d.ready());
    EXPECT_EQ(a.get(), 1);
    EXPECT_EQ(*b.get(), 2);
    EXPECT_THROW(d.get(), std::out_of_range);
    setter.get();
  });
}

TEST(when_all, gives_the_futures_of_a_range) {
  everywhere([] {
    std::vector<future<int>> some;
    for (int i = 0; i < 4; ++i) some.push_back(async([i] { return i; }));
    auto all = when_all(std::move(some)).get();
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(all[static_cast<std::size_t>(i)].ready());
      EXPECT_EQ(all[static_cast<std::size_t>(i)].get(), i);
    }
  });
  std::list<future<int>> other_range;
  other_range.push_back(make_ready_future(1));
  EXPECT_EQ(when_all(std::move(other_range)).get().at(0).get(), 1);
  const std::array<shared_future<int>, 2> kept{make_ready_future(2), make_ready_future(3)};
  EXPECT_EQ(when_all(kept).get().at(1).get(), 3);
  EXPECT_EQ(kept[1].get(), 3);
}

TEST(when_all, of_nothing_is_ready) {
  EXPECT_EQ(std::tuple_size_v<decltype(when_all().get())>, 0u);
  EXPECT_TRUE(when_all().ready());
  EXPECT_TRUE(when_all(std::vector<future<int>>()).get().empty());
}

TEST(when_all, needs_no_fiber) {
  std::vector<promise<int>> promises(100);
  std::vector<future<int>> futures;
  for (auto& p : promises) futures.push_back(p.get_future());
  auto all = when_all(std::move(futures));
  std::thread a([&] {
    for (std::size_t i = 0; i < 50; ++i) promises[i].set_value(1);
  });
  std::thread b([&] {
    for (std::size_t i = 50; i < 100; ++i) promises[i].set_value(2);
  });
  int sum = 0;
  for (auto& f : all.get()) sum += f.get();
  EXPECT_EQ(sum, 150);
  a.join();
  b.join();
}

TEST(when_all, goes_on_if_nobody_keeps_it) {
  everywhere([] {
    promise<int> p, q;
    static_cast<void>(when_all(p.get_future(), q.get_future()));
    auto a = async([&] { p.set_value(1); });
    auto b = async([&] { q.set_value(1); });
    a.get();
    b.get();
  });
}

TEST(when_all, refuses_what_has_no_state) {
  auto good = make_ready_future(1);
  EXPECT_THROW(static_cast<void>(when_all(std::move(good), future<int>())), error);
  EXPECT_TRUE(good.valid()); // NOLINT(bugprone-use-after-move): as promised
  EXPECT_THROW(static_cast<void>(when_any(std::move(good), future<int>())), error);
  std::vector<future<int>> bad(2);
  EXPECT_THROW(static_cast<void>(when_all(std::move(bad))), error);
}

TEST(when_any, gives_the_first) {
  everywhere([] {
    promise<int> p, q;
    auto any = when_any(p.get_future(), q.get_future());
    auto a = async([&] { p.set_value(1); });
    auto b = async([&] { q.set_value(2); });
    auto [index, futures] = any.get();
    auto& [f, g] = futures;
    ASSERT_LT(index, 2u);
    EXPECT_TRUE(index == 0 ? f.ready() : g.ready());
    EXPECT_EQ(f.get(), 1); // the other may still come
    EXPECT_EQ(g.get(), 2);
    a.get();
    b.get();
  });
}

TEST(when_any, of_a_range) {
  everywhere([] {
    std::vector<future<int>> some;
    for (int i = 0; i < 3; ++i) some.push_back(async([i] { return i; }));
    auto first = when_any(std::move(some)).get();
    ASSERT_LT(first.index, 3u);
    EXPECT_TRUE(first.futures[first.index].ready());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(first.futures[static_cast<std::size_t>(i)].get(), i);
  });
}

TEST(when_any, takes_the_first_of_those_that_are_ready) {
  promise<int> never;
  auto any = when_any(never.get_future(), make_ready_future(1), make_exceptional_future<int>(std::out_of_range("far")));
  ASSERT_TRUE(any.ready());
  EXPECT_EQ(any.get().index, 1u);
}

TEST(when_any, of_nothing_is_ready_and_says_so) {
  auto any = when_any(std::vector<future<int>>());
  ASSERT_TRUE(any.ready());
  const auto result = any.get();
  EXPECT_EQ(result.index, decltype(result)::nothing);
  EXPECT_EQ(when_any().get().index, when_any_result<std::tuple<>>::nothing);
}

TEST(when_any, leaves_nothing_behind_in_a_future_that_is_asked_again_and_again) {
  promise<void> p;
  const auto shutdown = p.get_future().share();
  for (int i = 0; i < 3; ++i) {
    auto token = std::make_shared<int>(i);
    const std::weak_ptr<int> alive = token;
    auto any = when_any(shutdown, make_ready_future(std::move(token)));
    EXPECT_EQ(any.get().index, 1u);
    EXPECT_TRUE(alive.expired());
  }
  {
    auto token = std::make_shared<int>(3);
    const std::weak_ptr<int> alive = token;
    auto later = std::make_unique<promise<std::shared_ptr<int>>>();
    auto any = when_any(shutdown, later->get_future());
    later->set_value(std::move(token));
    later.reset();
    EXPECT_EQ(any.get().index, 1u);
    EXPECT_TRUE(alive.expired());
  }
  p.set_value();
}

TEST(when_any, of_all_in_one_and_the_same) {
  promise<int> p;
  const shared_future<int> f = p.get_future();
  auto any = when_any(f, f, f);
  auto all = when_all(f, f, f);
  p.set_value(1);
  EXPECT_EQ(any.get().index, 0u);
  EXPECT_EQ(std::get<2>(all.get()).get(), 1);
}

TEST(when, combine_with_each_other_and_with_continuations) {
  everywhere([] {
    promise<int> p, q;
    auto sum = when_all(when_any(p.get_future(), q.get_future()), async([] { return 3; })).then([](auto both) {
      auto first = std::get<0>(both).get();
      auto& [f, g] = first.futures;
      return (first.index == 0 ? f.get() : g.get()) + std::get<1>(both).get();
    });
    auto a = async([&] { p.set_value(1); });
    auto b = async([&] { q.set_value(1); });
    EXPECT_EQ(sum.get(), 4);
    a.get();
    b.get();
  });
}

TEST(when, many_of_many) {
  on_workers(3, [] {
    constexpr std::size_t n = 1000;
    std::vector<promise<std::size_t>> promises(n);
    std::vector<shared_future<std::size_t>> futures;
    for (auto& p : promises) futures.push_back(p.get_future());
    auto all = when_all(futures);
    std::vector<future<bool>> firsts;
    for (std::size_t i = 0; i + 10 < n; i += 10)
      firsts.push_back(
          when_any(std::vector<shared_future<std::size_t>>(futures.begin() + static_cast<std::ptrdiff_t>(i),
                                                           futures.begin() + static_cast<std::ptrdiff_t>(i + 10)))
              .then([i](auto r) { return r.futures.at(r.index).ready() && r.futures[r.index].get() == i + r.index; }));
    for (std::size_t i = 0; i < n; ++i)
      scheduler::current()->spawn([&promises, i] { promises[(i * 7) % n].set_value((i * 7) % n); });
    for (auto& f : firsts) EXPECT_TRUE(f.get());
    std::size_t sum = 0;
    for (auto& f : all.get()) sum += f.get();
    EXPECT_EQ(sum, n * (n - 1) / 2);
  });
}

} // namespace
} // namespace tern
