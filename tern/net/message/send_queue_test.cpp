// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message/send_queue.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::net {
namespace {

constexpr std::uint32_t batch_id = 77;

/// A network that takes as many messages for each destination as it is told to, and remembers them.
class scripted final : public transport {
public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 4; }
  int host_rank() const noexcept override { return 0; }
  int host_size() const noexcept override { return 1; }
  std::string describe() const override { return "scripted"; }
  std::size_t head_limit() const noexcept override { return 1024; }
  bool any_thread_sends() const noexcept override { return any_thread; }
  bool send(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent) override {
    EXPECT_TRUE(any_thread || std::this_thread::get_id() == owner);
    int& left = space[destination];
    if (left + (urgent ? 1 : 0) <= 0) return false;
    --left;
    arrival m{0, byte_buffer::copy_of(head), std::move(body)};
    body = {};
    wire_header h;
    std::memcpy(&h, head.data(), sizeof h);
    if (h.handler != batch_id) {
      taken[destination].push_back(std::move(m));
      return true;
    }
    ++batches;
    batch_reader* reader = batch_reader::open(std::move(m));
    arrival one;
    while (reader->next(one)) {
      one.head = one.head.copy();
      taken[destination].push_back(std::move(one));
    }
    return true;
  }
  bool receive(arrival&) override { return false; }
  void wait(std::chrono::microseconds) override {}
  void wake() noexcept override { ++wakes; }
  void finish() override {}
  [[noreturn]] void abort(int) noexcept override { std::abort(); }

  bool any_thread = false;
  const std::thread::id owner = std::this_thread::get_id();
  std::map<int, int> space;
  std::map<int, std::vector<arrival>> taken;
  int batches = 0;
  std::atomic<int> wakes{0};
};

byte_buffer numbered(std::uint64_t number, std::size_t size = 24) {
  byte_buffer b(std::max<std::size_t>(size, 24));
  std::memset(b.data(), 0x5a, b.size());
  const wire_header h{1, 0, number};
  std::memcpy(b.data(), &h, sizeof h);
  return b;
}
void send(send_queue& out, int to, const byte_buffer& head, bool urgent, std::size_t body_size = 0) {
  byte_buffer body(body_size);
  out.send(to, head, body, urgent);
}
std::uint64_t number_of(const arrival& a) {
  wire_header h;
  std::memcpy(&h, a.head.data(), sizeof h);
  return h.reply;
}
std::vector<std::uint64_t> numbers(const std::vector<arrival>& all) {
  std::vector<std::uint64_t> n;
  for (const auto& a : all) n.push_back(number_of(a));
  return n;
}
std::vector<std::uint64_t> up_to(std::uint64_t n) {
  std::vector<std::uint64_t> v(n);
  for (std::uint64_t i = 0; i < n; ++i) v[i] = i;
  return v;
}

class outbox_of : public testing::TestWithParam<aggregation> {
protected:
  scripted wire;
  send_queue out{wire, GetParam(), batch_id, tern::detail::ticks_in(20e-6)};
};
INSTANTIATE_TEST_SUITE_P(aggregation, outbox_of,
                         testing::Values(aggregation::off, aggregation::automatic, aggregation::on), [](const auto& i) {
                           return i.param == aggregation::off ? "off" : i.param == aggregation::on ? "on" : "automatic";
                         });

TEST_P(outbox_of, what_was_refused_and_has_gone_leaves_room) {
  for (int i = 0; i < 3000;
       ++i) { // each would leave some of a batch's 1024 bytes behind, and many of those are a crowd
    send(out, 1, numbered(0), false);
    out.flush(false); // refused
    wire.space[1] = 1;
    out.flush(false);
    wire.taken.clear();
    ASSERT_TRUE(out.empty());
  }
  constexpr std::uint64_t full = send_queue::most_bytes / (1000 + 300);
  for (std::uint64_t i = 0; i < full * 3 / 4; ++i) send(out, 1, numbered(i, 1000), false, 300);
  EXPECT_FALSE(out.over_limit());
  for (std::uint64_t i = 0; i < full / 2; ++i) send(out, 1, numbered(i, 1000), false, 300);
  EXPECT_TRUE(out.over_limit());
  wire.space[1] = 10'000;
  out.flush(false);
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(out.over_limit());
}

TEST_P(outbox_of, order_is_kept_for_each_destination_whatever_finds_room) {
  std::mt19937 random(7);
  std::uint64_t sent[3] = {};
  for (int step = 0; step < 20'000; ++step) {
    const auto to = static_cast<int>(random() % 3);
    switch (random() % 4) {
    case 0:
      wire.space[to] += static_cast<int>(random() % 5);
      break;
    case 1:
      out.flush(false);
      break;
    default: {
      const std::size_t size = random() % 8 == 0 ? 300 + random() % 700 : 24 + random() % 200;
      const byte_buffer head = numbered(sent[to]++, size);
      byte_buffer body = random() % 10 == 0 ? byte_buffer(5000) : byte_buffer();
      out.send(to, head, body, false);
    }
    }
  }
  for (int to = 0; to < 3; ++to) wire.space[to] = 1 << 30;
  while (out.flush(false)) {
  }
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(out.over_limit());
  for (int to = 0; to < 3; ++to) EXPECT_EQ(numbers(wire.taken[to]), up_to(sent[to])) << to;
  EXPECT_EQ(wire.batches > 0, GetParam() != aggregation::off);
}

TEST_P(outbox_of, urgent_ones_go_before_those_that_wait) {
  for (std::uint64_t i = 0; i < 10; ++i) send(out, 1, numbered(i), false);
  out.flush(false);
  EXPECT_TRUE(wire.taken[1].empty()); // no space
  send(out, 1, numbered(100), true);
  EXPECT_EQ(numbers(wire.taken[1]), std::vector<std::uint64_t>{100}); // what is kept for urgent ones
  send(out, 1, numbered(101), true);
  wire.space[1] = 100;
  out.flush(false);
  auto expected = up_to(10);
  expected.insert(expected.begin(), {100, 101});
  EXPECT_EQ(numbers(wire.taken[1]), expected);
}

TEST_P(outbox_of, other_threads_leave_it_to_the_owner_and_wake_it) {
  wire.space[2] = 1 << 30;
  std::thread([&] {
    for (std::uint64_t i = 0; i < 100; ++i) send(out, 2, numbered(i), false);
  }).join();
  EXPECT_TRUE(wire.taken[2].empty());
  EXPECT_GE(wire.wakes, 1);
  send(out, 2, numbered(100), false);
  out.flush(false);
  EXPECT_EQ(numbers(wire.taken[2]), up_to(101));
}

TEST_P(outbox_of, a_fast_sender_waits_and_goes_on) {
  wire.any_thread = true;
  // Each step of the loop below stands for a poll of the owner.
  constexpr std::uint64_t all = 100'000;
  std::size_t most = 0;
  bool waited = false;
  scheduler s({.workers = 1, .name = "test"});
  s.run([&] {
    fiber sender([&] {
      for (std::uint64_t i = 0; i < all; ++i) {
        send(out, 3, numbered(i, 24 + i % 400), false);
        if (out.over_limit()) {
          waited = true;
          out.wait_for_space(3);
        }
      }
    });
    while (wire.taken[3].size() < all) {
      wire.space[3] = 10;
      this_fiber::yield();
      most = std::max(most, out.kept());
      out.flush(false);
    }
    sender.join();
  });
  EXPECT_TRUE(waited);
  EXPECT_LE(most, send_queue::most_messages + 1);
  EXPECT_EQ(numbers(wire.taken[3]), up_to(all));
}

TEST(outbox, what_is_gathered_leaves_when_it_is_much_or_old_or_polled) {
  scripted wire;
  wire.space[1] = 1 << 30;
  send_queue out(wire, aggregation::on, batch_id, tern::detail::ticks_in(20e-6));
  std::uint64_t n = 0;
  while (wire.batches == 0) send(out, 1, numbered(n++), false);
  EXPECT_LE(n, 1024 / record_bytes(24) + 1);
  while (wire.batches == 1) { // old ones go though there are few
    send(out, 1, numbered(n++), false);
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(3);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
  send(out, 1, numbered(n++), false);
  send(out, 1, numbered(n++, 900), false); // too large for one: those before it go first
  send(out, 1, numbered(n++), false);
  EXPECT_EQ(numbers(wire.taken[1]), up_to(n - 1));
  EXPECT_TRUE(out.flush(false));
  EXPECT_FALSE(out.flush(false));
  EXPECT_EQ(numbers(wire.taken[1]), up_to(n));
}

TEST(outbox, what_may_grow_goes_when_it_is_old) {
  scripted wire;
  wire.space[1] = wire.space[2] = 1 << 30;
  send_queue out(wire, aggregation::on, batch_id, tern::detail::ticks_in(3600));
  send(out, 1, numbered(0), false);
  send(out, 2, numbered(0), false);
  EXPECT_TRUE(out.flush(true)); // others send too, and were promised that the owner comes
  EXPECT_EQ(wire.batches, 2);
  out.nobody_else_sends();
  send(out, 1, numbered(1), false);
  EXPECT_FALSE(out.flush(true));
  EXPECT_TRUE(out.flush(false));
  send_queue hasty(wire, aggregation::on, batch_id, 0);
  hasty.nobody_else_sends();
  send(hasty, 1, numbered(2), false);
  EXPECT_TRUE(hasty.flush(true));
  EXPECT_EQ(numbers(wire.taken[1]), up_to(3));
}

// One thread alone writes at once where others lie already, and in their order.
TEST(outbox, who_sends_alone_may_write_in_place) {
  scripted wire;
  wire.space[1] = 1 << 30;
  send_queue out(wire, aggregation::on, batch_id, tern::detail::ticks_in(3600));
  EXPECT_EQ(out.place(1, 24), nullptr);
  send(out, 1, numbered(0), false);
  EXPECT_EQ(out.place(1, 24), nullptr); // others might send too
  out.nobody_else_sends();
  EXPECT_EQ(out.place(2, 24), nullptr); // nothing lies there
  std::uint64_t n = 1, in_place = 0;
  for (; wire.batches < 3; ++n) {
    const byte_buffer message = numbered(n);
    if (std::byte* const at = out.place(1, message.size())) {
      std::memcpy(at, message.data(), message.size());
      ++in_place;
    } else {
      send(out, 1, numbered(n), false);
    }
  }
  EXPECT_GT(in_place, n / 2);
  out.flush(false);
  EXPECT_EQ(numbers(wire.taken[1]), up_to(n));
}

// The scripted network's rank is 0.
TEST(outbox, what_one_sends_to_oneself_is_gathered) {
  scripted wire;
  wire.space[0] = wire.space[1] = 1 << 30;
  send_queue out(wire, aggregation::automatic, batch_id, tern::detail::ticks_in(3600));
  out.nobody_else_sends();
  out.gather_own(0);
  EXPECT_FALSE(out.flush_own());
  EXPECT_EQ(out.place(0, 24), nullptr); // nothing lies there
  send(out, 0, numbered(0), false);
  send(out, 1, numbered(0), false);
  EXPECT_EQ(numbers(wire.taken[1]), up_to(1)); // others do not wait
  EXPECT_FALSE(out.empty());
  EXPECT_TRUE(wire.taken[0].empty());
  const byte_buffer next = numbered(1);
  std::byte* const at = out.place(0, next.size());
  ASSERT_NE(at, nullptr);
  std::memcpy(at, next.data(), next.size());
  EXPECT_TRUE(out.flush_own());
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(wire.batches, 1);
  send(out, 0, numbered(2), false);
  EXPECT_TRUE(out.flush(true)); // though it is not old
  EXPECT_EQ(wire.batches, 2);
  send(out, 0, numbered(3), false);
  send(out, 0, numbered(4), false, 300); // with a body: the one before it goes first
  EXPECT_TRUE(out.empty());
  send(out, 0, numbered(5), false);
  out.own_are_quick(false);
  send(out, 0, numbered(6), false);
  EXPECT_TRUE(out.empty());
  out.own_are_quick(true);
  send(out, 0, numbered(7), false);
  EXPECT_FALSE(out.empty());
  const byte_buffer call = numbered(8);
  byte_buffer none;
  out.send(0, call.bytes(), none, false, true); // a call goes alone, after those before it
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(numbers(wire.taken[0]), up_to(9));
}

// A batch that finds no space is kept, and none is put into another.
TEST(outbox, what_one_sends_to_oneself_stays_in_order_without_space) {
  scripted wire;
  send_queue out(wire, aggregation::automatic, batch_id, tern::detail::ticks_in(3600));
  out.nobody_else_sends();
  out.gather_own(0);
  std::uint64_t n = 0;
  for (const bool quick : {true, false, true, true}) {
    out.own_are_quick(quick);
    for (int i = 0; i < 3; ++i) send(out, 0, numbered(n++), false);
    out.flush(false);
  }
  EXPECT_TRUE(wire.taken[0].empty());
  while (!out.empty()) {
    wire.space[0] = 1;
    out.flush(false);
  }
  EXPECT_EQ(numbers(wire.taken[0]), up_to(n));
}

// Batches come from outside.
std::string refused(byte_buffer bytes) {
  arrival a{3, std::move(bytes), {}};
  try {
    batch_reader* r = batch_reader::open(std::move(a));
    arrival one;
    try {
      while (r->next(one)) one.head = {};
    } catch (...) {
      r->abandon();
      throw;
    }
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_data);
    return e.message();
  }
  return {};
}

TEST(batch, what_cannot_be_one_is_refused_by_name) {
  const auto batch = [](std::uint64_t count, std::initializer_list<std::uint64_t> words) {
    byte_buffer b(sizeof(wire_header));
    const wire_header h{batch_id, flag_uncounted, count};
    std::memcpy(b.data(), &h, sizeof h);
    for (const std::uint64_t w : words) b.append(&w, sizeof w);
    return b;
  };
  EXPECT_EQ(refused(batch(1, {8, 1})), "");
  EXPECT_EQ(refused(batch(2, {8, 1, 0})), "");
  EXPECT_NE(refused(batch(0, {})).find("rank 3 sent a batch of 16 bytes with 0 messages"), std::string::npos);
  EXPECT_NE(refused(batch(~0ull, {8, 1})).find("messages"), std::string::npos);
  EXPECT_NE(refused(batch(1, {9, 1})).find("a message of 9 bytes does not fit"), std::string::npos);
  EXPECT_NE(refused(batch(1, {~0ull, 1})).find("does not fit"), std::string::npos);
  EXPECT_NE(refused(batch(1, {~0ull - 7, 1})).find("does not fit"), std::string::npos);
  EXPECT_NE(refused(batch(1, {8, 1, 2})).find("bytes after its last message"), std::string::npos);
  EXPECT_NE(refused(batch(3, {8, 1, 0})).find("does not fit"), std::string::npos);
}

// The owner looks now and then, and sleeps in between until it is woken. What goes out before its
// sender has come to wake the owner must not make that sender's word stand for the next one's.
TEST(outbox, an_owner_that_sleeps_is_woken_for_each_that_comes_after) {
  scripted wire;
  wire.space[1] = 1'000'000;
  send_queue out(wire, aggregation::off, batch_id, tern::detail::ticks_in(20e-6));
  std::atomic<int> rounds{tern::detail::sanitized ? 5'000 : 20'000}; // fewer where others have the cores
  std::atomic<int> gone{0};
  std::atomic<bool> lost{false};
  std::thread sender([&] {
    const byte_buffer head = numbered(0);
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (int i = 0; i < rounds && !lost; ++i) {
      send(out, 1, head, false);
      for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20); gone <= i && !lost;)
        if (std::chrono::steady_clock::now() > until) lost = true;
      if (std::chrono::steady_clock::now() > enough) rounds = i + 1;
    }
  });
  int seen = 0;
  for (int i = 0; gone < rounds && !lost; ++i) {
    for (int looks = i % 50; looks >= 0; --looks) {
      out.flush(false);
      gone = static_cast<int>(wire.taken[1].size());
    }
    while (gone < rounds && wire.wakes == seen && !lost) std::this_thread::yield(); // it sleeps
    seen = wire.wakes;
  }
  sender.join();
  EXPECT_FALSE(lost) << "after " << gone << " messages";
}

} // namespace
} // namespace tern::net
