// SPDX-License-Identifier: Apache-2.0
#include <tern/task/channel.hpp>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/sync.hpp"
#include <tern/base/error.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sync.hpp>

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::everywhere;
using test_support::on_workers;
using test_support::text_of;
using test_support::together;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(channel, keeps_the_order) {
  everywhere([] {
    channel<int> c(2);
    std::vector<int> got;
    together(
        [&] {
          for (int i = 0; i < 6; ++i) c.push(i);
          c.close();
        },
        [&] {
          for (const int i : c) got.push_back(i);
        });
    EXPECT_THAT(got, ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(c.size(), 0u);
    EXPECT_EQ(c.capacity(), 2u);
  });
}

/// Everything arrives once, and what comes from one sender arrives in its order.
void many_to_many(std::size_t capacity, int senders, int receivers, int each) {
  channel<std::pair<int, int>> c(capacity);
  std::atomic<int> received{0}, sending{senders};
  std::vector<future<void>> all;
  for (int s = 0; s < senders; ++s)
    all.push_back(async([&, s] {
      for (int i = 0; i < each; ++i) c.push({s, i});
      if (--sending == 0) c.close();
    }));
  for (int r = 0; r < receivers; ++r)
    all.push_back(async([&] {
      std::vector<int> next(static_cast<std::size_t>(senders), 0);
      while (const auto v = c.pop()) {
        int& expected = next[static_cast<std::size_t>(v->first)];
        EXPECT_GE(v->second, expected);
        expected = v->second + 1;
        ++received;
      }
    }));
  for (auto& f : all) f.get();
  EXPECT_EQ(received, senders * each);
}

TEST(channel, many_to_many) {
  everywhere([] { many_to_many(1, 2, 2, 3); });
  everywhere([] { many_to_many(3, 2, 3, 4); });
  for (const int workers : {1, 2, 4})
    for (const std::size_t capacity : {1u, 7u, 64u}) on_workers(workers, [&] { many_to_many(capacity, 5, 6, 500); });
}

TEST(channel, ping_pong) {
  everywhere([] {
    channel<int> to(1), back(1);
    auto other = async([&] {
      for (const int i : to) back.push(i + 1);
    });
    for (int i = 0; i < 5; ++i) {
      to.push(i);
      EXPECT_EQ(back.pop(), i + 1);
    }
    to.close();
    other.get();
  });
}

TEST(channel, fibers_and_foreign_threads) {
  for (const int workers : {1, 2, 4})
    on_workers(workers, [] {
      channel<int> to(3), back(3);
      std::thread t([&] {
        for (const int i : to) back.push(2 * i);
        back.close();
      });
      auto sender = async([&] {
        for (int i = 1; i <= 500; ++i) to.push(i);
        to.close();
      });
      long sum = 0;
      for (const int i : back) sum += i;
      EXPECT_EQ(sum, 500 * 501);
      sender.get();
      t.join();
    });
}

// On one worker a fiber that has begun goes on until it stands in the queue.
TEST(channel, who_waits_longest_is_served_first) {
  on_workers(1, [] {
    channel<int> c(1);
    std::vector<int> got(4, -1);
    std::vector<future<void>> all;
    for (std::size_t i = 0; i < 4; ++i) {
      latch begun(1);
      all.push_back(async([&, i] {
        begun.count_down();
        got[i] = c.pop().value();
      }));
      begun.wait();
    }
    for (int i = 0; i < 4; ++i) c.push(i);
    for (auto& f : all) f.get();
    EXPECT_THAT(got, ElementsAre(0, 1, 2, 3));

    all.clear();
    c.push(9);
    for (int i = 0; i < 4; ++i) {
      latch begun(1);
      all.push_back(async([&, i] {
        begun.count_down();
        c.push(i);
      }));
      begun.wait();
    }
    EXPECT_EQ(c.pop(), 9);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(c.pop(), i);
    for (auto& f : all) f.get();
  });
}

TEST(channel, what_is_in_a_closed_one_can_be_taken) {
  channel<std::string> c(3);
  c.push("a");
  c.push(std::string("b"));
  EXPECT_FALSE(c.closed());
  c.close();
  c.close();
  EXPECT_TRUE(c.closed());
  EXPECT_EQ(c.size(), 2u);
  EXPECT_EQ(c.pop(), "a");
  EXPECT_EQ(c.try_pop(), "b");
  EXPECT_EQ(c.pop(), std::nullopt);
  EXPECT_EQ(c.pop_for(1h), std::nullopt);
  for (const auto& s : c) FAIL() << s;
}

TEST(channel, closing_ends_all_waits) {
  everywhere([] {
    channel<int> full(1), empty(1);
    full.push(1);
    std::atomic<int> refused{0};
    const auto push = [&] {
      try {
        full.push(2);
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::invalid_state);
        ++refused;
      }
    };
    const auto pop = [&] { EXPECT_EQ(empty.pop(), std::nullopt); };
    auto a = async(push), b = async(push), c = async(pop), d = async(pop);
    this_fiber::yield();
    full.close();
    empty.close();
    a.get(), b.get(), c.get(), d.get();
    EXPECT_EQ(refused, 2);
    EXPECT_EQ(full.pop(), 1);
    EXPECT_EQ(full.pop(), std::nullopt);
  });
}

TEST(channel, does_not_wait_if_asked) {
  channel<std::unique_ptr<int>> c(1);
  EXPECT_EQ(c.try_pop(), std::nullopt);
  auto one = std::make_unique<int>(1), two = std::make_unique<int>(2);
  EXPECT_TRUE(c.try_push(std::move(one)));
  EXPECT_FALSE(c.try_push(std::move(two)));
  ASSERT_TRUE(two); // what has not been added has not been moved from
  EXPECT_FALSE(c.push_for(std::move(two), 0s));
  ASSERT_TRUE(two);
  EXPECT_EQ(**c.try_pop(), 1);
  EXPECT_TRUE(c.push_for(std::move(two), 0s));
  EXPECT_EQ(**c.pop_for(-1s), 2);
}

TEST(channel, times_out) {
  everywhere([] {
    channel<int> c(1);
    const auto before = fiber_clock::now();
    EXPECT_EQ(c.pop_for(2us), std::nullopt);
    EXPECT_GE(fiber_clock::now() - before, 2us);
    EXPECT_EQ(c.pop_until(fiber_clock::now() + 1us), std::nullopt);
    c.push(1);
    EXPECT_FALSE(c.push_for(2, 2us));
    EXPECT_FALSE(c.push_until(2, fiber_clock::now() + 1us));
    EXPECT_EQ(c.pop_for(1h), 1);
    EXPECT_EQ(c.size(), 0u);
  });
}

// Each value arrives exactly once or stays with its sender, whatever gives up meanwhile.
TEST(channel, nothing_is_lost_to_timeouts_and_stops) {
  everywhere([] {
    channel<std::unique_ptr<int>> c(1);
    std::stop_source stop;
    std::atomic<int> sent{0}, kept{0}, received{0};
    const auto push = [&](auto how) {
      for (int i = 0; i < 2; ++i) {
        auto value = std::make_unique<int>(i);
        const bool done = how(value);
        EXPECT_EQ(done, value == nullptr);
        ++(done ? sent : kept);
      }
    };
    auto a = async([&] { push([&](auto& v) { return c.push_for(std::move(v), 2us); }); });
    auto b = async([&] { push([&](auto& v) { return c.push(std::move(v), stop.get_token()); }); });
    auto d = async([&] {
      for (int i = 0; i < 2; ++i)
        if (const auto v = c.pop_for(1us)) {
          EXPECT_TRUE(*v);
          ++received;
        }
    });
    auto e = async([&] {
      while (const auto v = c.pop(stop.get_token())) {
        EXPECT_TRUE(*v);
        ++received;
      }
    });
    this_fiber::sleep_for(2us);
    stop.request_stop();
    a.get(), b.get(), d.get(), e.get();
    while (c.try_pop()) ++received;
    EXPECT_EQ(sent, received);
    EXPECT_EQ(sent + kept, 4);
  });
}

// A value for two waiting receivers, the first of which may be giving up.
TEST(channel, values_do_not_go_to_those_who_have_given_up) {
  everywhere([] {
    channel<int> c(1);
    std::atomic<int> received{0};
    auto first = async([&] {
      if (c.pop_for(2us)) ++received;
    });
    auto second = async([&] {
      if (c.pop()) ++received;
    });
    this_fiber::sleep_for(2us);
    c.push(1);
    if (!received) this_fiber::yield();
    c.close();
    first.get(), second.get();
    EXPECT_EQ(received, 1);
  });
}

TEST(channel, stop_tokens) {
  everywhere([] {
    channel<int> full(1), empty(1);
    full.push(1);
    std::stop_source stop;
    auto a = async([&] { EXPECT_FALSE(full.push(2, stop.get_token())); });
    auto b = async([&] { EXPECT_FALSE(full.push_for(2, 1h, stop.get_token())); });
    auto c = async([&] { EXPECT_EQ(empty.pop(stop.get_token()), std::nullopt); });
    auto d = async([&] { EXPECT_EQ(empty.pop_for(1h, stop.get_token()), std::nullopt); });
    stop.request_stop();
    a.get(), b.get(), c.get(), d.get();
    EXPECT_EQ(full.size(), 1u);
    EXPECT_EQ(full.pop(stop.get_token()), 1); // no need to wait
    EXPECT_TRUE(empty.push(3, stop.get_token()));
  });
}

/// Counts the living, and refuses to be moved while `armed`.
struct fussy {
  inline static int living = 0; // used by one worker or under the channel's lock
  explicit fussy(int v, bool a = false) : value(v), armed(a) { ++living; }
  fussy(fussy&& other) : value(other.value), armed(other.armed) {
    if (other.armed) throw std::runtime_error("value " + std::to_string(value) + " will not move");
    ++living;
  }
  ~fussy() { --living; }
  int value;
  bool armed;
};

TEST(channel, a_move_that_throws_harms_nobody_else) {
  fussy::living = 0;
  on_workers(1, [] {
    channel<fussy> c(2);
    fussy bad(1, true);
    // Into the channel.
    EXPECT_THROW(c.push(std::move(bad)), std::runtime_error);
    EXPECT_EQ(c.size(), 0u);
    // To a waiting receiver: it goes on waiting, in front of the other.
    std::vector<int> order;
    const auto receive = [&](int i) { order.push_back(10 * i + c.pop().value().value); };
    auto r1 = async([&] { receive(1); });
    this_fiber::yield();
    auto r2 = async([&] { receive(2); });
    this_fiber::yield();
    EXPECT_THROW(c.push(std::move(bad)), std::runtime_error);
    this_fiber::yield();
    c.push(fussy(2));
    c.push(fussy(3));
    r1.get(), r2.get();
    EXPECT_THAT(order, ElementsAre(12, 23));
    // From a waiting sender: it gets the exception, and the next waiting sender gets the space.
    c.push(fussy(4));
    c.push(fussy(5));
    auto s1 = async([&] { EXPECT_THROW(c.push(std::move(bad)), std::runtime_error); });
    this_fiber::yield();
    auto s2 = async([&] { c.push(fussy(6)); });
    this_fiber::yield();
    EXPECT_EQ(c.pop().value().value, 4);
    s1.get(), s2.get();
    EXPECT_EQ(c.size(), 2u);
    EXPECT_EQ(c.pop().value().value, 5);
    EXPECT_EQ(c.pop().value().value, 6);
    // Out of the channel: it stays, and can be had later.
    fussy good(7);
    c.push(std::move(good));
    EXPECT_EQ(c.size(), 1u);
  });
  EXPECT_EQ(fussy::living, 0); // with what was left in the channel
}

TEST(channel, misuse_is_an_error) {
  EXPECT_THAT(text_of(errc::invalid_argument, [] { channel<int> c(0); }), HasSubstr("cannot have capacity 0"));
  channel<int> c(1);
  c.close();
  EXPECT_THAT(text_of(errc::invalid_state, [&] { c.push(1); }),
              HasSubstr("pushed into a tern::channel that is closed"));
  EXPECT_THAT(text_of(errc::invalid_state, [&] { (void)c.try_push(1); }), HasSubstr("closed"));
}

TEST(channel, destroyed_while_waited_for_is_logged) {
  on_workers(1, [] {
    // Its memory outlives it, so that the waiter can leave.
    alignas(channel<int>) std::byte memory[sizeof(channel<int>)];
    auto* c = new (memory) channel<int>(1);
    std::stop_source stop;
    latch begun(1);
    auto f = async([&] {
      begun.count_down();
      EXPECT_EQ(c->pop(stop.get_token()), std::nullopt);
    });
    begun.wait();
    testing::internal::CaptureStderr();
    c->~channel();
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("destroys a tern::channel while a context waits at it"));
    stop.request_stop();
    f.get();
  });
}

} // namespace
} // namespace tern
