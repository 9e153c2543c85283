// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/inproc/inproc.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/memory/lent_buffer.hpp>

namespace tern::net {
namespace {

using ends_of_job = std::vector<std::unique_ptr<transport>>;

// A message that can be checked: its number, its sender, its size, and bytes that follow from
// these.
struct label {
  std::uint32_t number = 0;
  std::uint32_t thread = 0;
  std::uint32_t body = 0;
  std::uint32_t seed = 0;
};
std::byte pattern(const label& l, std::size_t i) {
  return static_cast<std::byte>(31 * l.number + 7 * l.thread + l.seed + i * 131);
}
byte_buffer make(const label& l, std::size_t size) {
  byte_buffer b(size);
  for (std::size_t i = 0; i < size; ++i) b[i] = pattern(l, i);
  return b;
}
// Heads begin with their label; \pre size >= sizeof(label).
byte_buffer make_head(const label& l, std::size_t size) {
  byte_buffer b = make(l, size);
  std::memcpy(b.data(), &l, sizeof l);
  return b;
}
label read(const byte_buffer& head) {
  label l;
  if (head.size() >= sizeof l) std::memcpy(&l, head.data(), sizeof l);
  return l;
}
bool intact(const byte_buffer& head) {
  const label l = read(head);
  for (std::size_t i = sizeof l; i < head.size(); ++i)
    if (head[i] != pattern(l, i)) return false;
  return head.size() >= sizeof l;
}
bool intact(const byte_buffer& head, const byte_buffer& body) {
  const label l = read(head);
  if (!intact(head) || body.size() != l.body) return false;
  for (std::size_t i = 0; i < body.size(); ++i)
    if (body[i] != pattern(l, i)) return false;
  return true;
}

constexpr std::chrono::seconds long_time{20};

// Sends `l`; waits for space by receiving into `into`, if the thread is the rank's owner.
template <class Receive>
void send(transport& from, int to, const label& l, std::size_t size, Receive&& when_full, bool urgent = false) {
  const byte_buffer head = make_head(l, size);
  byte_buffer body = make(l, l.body);
  while (!from.send(to, head, body, urgent)) {
    EXPECT_EQ(body.size(), l.body) << "nothing is taken when there is no room";
    when_full();
  }
  EXPECT_TRUE(body.empty());
}
const auto yield = [] { std::this_thread::yield(); };

byte_buffer none;

std::size_t random_size(std::mt19937& random, std::size_t limit) {
  const std::size_t most = random() % 8 ? 250 : limit;
  return sizeof(label) + random() % (std::min(most, limit) - sizeof(label) + 1);
}

TEST(inproc, refuses_no_ranks_unknown_ranks_and_large_heads) {
  EXPECT_THROW(make_inproc(0), error);
  auto ends = make_inproc(2);
  EXPECT_EQ(ends[1]->rank(), 1);
  EXPECT_EQ(ends[1]->size(), 2);
  EXPECT_GE(ends[0]->head_limit(), 96u);
  EXPECT_TRUE(ends[0]->any_thread_sends());
  byte_buffer body(10);
  for (const int to : {2, -1}) try {
      ends[0]->send(to, {}, body);
      FAIL();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      EXPECT_THAT(e.what(), testing::HasSubstr("there is no rank " + std::to_string(to)));
      EXPECT_THAT(e.what(), testing::HasSubstr("ranks are 0 to 1"));
    }
  EXPECT_THROW(ends[0]->send(1, byte_buffer(ends[0]->head_limit() + 1), body), error);
  EXPECT_EQ(body.size(), 10u);
}

TEST(inproc, every_size_of_heads_and_bodies) {
  for (const int ranks : {1, 20, 100}) { // rings of three sizes
    auto ends = make_inproc(ranks);
    transport &from = *ends.front(), &to = *ends.back();
    arrival a;
    const auto through = [&](std::size_t head_size, std::size_t body_size) {
      label l{static_cast<std::uint32_t>(head_size), 1, static_cast<std::uint32_t>(body_size), 5};
      send(from, to.rank(), l, head_size, [] { FAIL(); });
      ASSERT_TRUE(to.receive(a));
      EXPECT_EQ(a.source, 0);
      EXPECT_EQ(a.head.size(), head_size);
      EXPECT_TRUE(intact(a.head, a.body)) << head_size << ' ' << body_size;
    };
    for (std::size_t size = sizeof(label); size <= from.head_limit(); size += size < 300 ? 1 : 61) {
      through(size, 0);
      through(size, 1 + size % 50);
    }
    for (const std::size_t body : {std::size_t{1} << 20, std::size_t{3}}) through(from.head_limit(), body);
    byte_buffer body = byte_buffer::copy_of(make({}, 7));
    ASSERT_TRUE(from.send(to.rank(), {}, body)); // no head at all
    ASSERT_TRUE(from.send(to.rank(), {}, body)); // nothing at all
    ASSERT_TRUE(to.receive(a));
    EXPECT_TRUE(a.head.empty());
    EXPECT_EQ(a.body, make({}, 7));
    ASSERT_TRUE(to.receive(a));
    EXPECT_TRUE(a.head.empty() && a.body.empty());
    EXPECT_FALSE(to.receive(a));
  }
}

TEST(inproc, a_borrowed_body_is_copied) {
  struct lender final : byte_lender {
    void take_back(std::byte*) noexcept override { ++returned; }
    int returned = 0;
  } from;
  std::byte memory[40] = {std::byte{1}, std::byte{2}};
  auto ends = make_inproc(1);
  byte_buffer body = byte_buffer::borrow(memory, sizeof memory, from);
  ASSERT_TRUE(ends[0]->send(0, {}, body));
  EXPECT_TRUE(body.empty());
  EXPECT_EQ(from.returned, 1);
  arrival a;
  ASSERT_TRUE(ends[0]->receive(a));
  EXPECT_NE(a.body.data(), memory);
  EXPECT_EQ(a.body, byte_buffer::copy_of(memory));
}

TEST(inproc, a_shared_body_arrives_as_another_share) {
  struct lender final : byte_lender {
    void take_back(std::byte*) noexcept override { owner.reset(); }
    bool read_only() const noexcept override { return true; }
    std::shared_ptr<const void> share() const noexcept override { return owner; }
    std::shared_ptr<const std::array<std::byte, 40>> owner = std::make_shared<const std::array<std::byte, 40>>();
  } from;
  const std::weak_ptr<const void> memory = from.owner;
  auto ends = make_inproc(1);
  auto* const first = const_cast<std::byte*>(from.owner->data());
  const std::size_t bytes = from.owner->size();
  {
    byte_buffer body = byte_buffer::borrow(first, bytes, from);
    ASSERT_TRUE(ends[0]->send(0, {}, body));
    EXPECT_TRUE(body.empty());
    EXPECT_FALSE(memory.expired()) << "the message has a share";
    arrival a;
    ASSERT_TRUE(ends[0]->receive(a));
    EXPECT_EQ(a.body.data(), first);
    EXPECT_EQ(a.body.size(), bytes);
    EXPECT_FALSE(a.body.writable());
    EXPECT_EQ(a.body.share(), memory.lock());
    ASSERT_TRUE(ends[0]->send(0, {}, a.body)); // on, unreceived
  }
  EXPECT_FALSE(memory.expired());
  ends.clear();
  EXPECT_TRUE(memory.expired());
}

TEST(inproc, a_full_ring_leaves_a_shared_body) {
  auto ends = make_inproc(1);
  const shared_buffer<int> shared(buffer<int>(10));
  std::shared_ptr<const void> owner = detail::buffer_access::owner(shared);
  auto* const first = reinterpret_cast<std::byte*>(const_cast<int*>(shared.data()));
  const auto lent = [&] { return byte_buffer::borrow(first, 40, *new detail::share_lender(owner, true)); };
  byte_buffer body = lent();
  int sent = 0;
  for (; ends[0]->send(0, {}, body); body = lent()) ++sent;
  EXPECT_EQ(body.data(), first) << "the body that was refused";
  EXPECT_EQ(shared.use_count(), sent + 3);
  arrival a;
  for (int i = 0; i < sent; ++i) {
    ASSERT_TRUE(ends[0]->receive(a));
    EXPECT_EQ(a.body.data(), first);
  }
  EXPECT_FALSE(ends[0]->receive(a)); // gives credit
  EXPECT_TRUE(ends[0]->send(0, {}, body));
  ASSERT_TRUE(ends[0]->receive(a));
  a.body = {};
  EXPECT_EQ(shared.use_count(), 2);
}

TEST(inproc, what_nobody_receives_is_freed) { // for the sanitizer of leaks
  auto ends = make_inproc(33);
  for (int i = 0; i < 10; ++i) {
    byte_buffer body(100);
    ASSERT_TRUE(ends[0]->send(1, byte_buffer(i % 2 ? 4000 : 20), body));
    ASSERT_TRUE(ends[0]->send(1, byte_buffer(i % 2 ? 4000 : 20), none));
  }
}

// All ranks send to all, and receive what came; with several senders each, and with heads kept and
// given back later in any order, by another thread too.
void storm(int ranks, int senders, int each, bool keep, std::size_t largest_head) {
  auto ends = make_inproc(ranks);
  std::atomic<int> wrong{0};
  std::mutex shelf_lock;
  std::vector<arrival> shelf; // kept heads that another thread gives back
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  std::thread librarian([&] {
    std::mt19937 random(9);
    for (;;) {
      const bool last = over;
      std::vector<arrival> some;
      {
        std::lock_guard hold(shelf_lock);
        some.swap(shelf);
      }
      std::shuffle(some.begin(), some.end(), random);
      for (auto& a : some) wrong += !intact(a.head, a.body);
      if (last) return;
      std::this_thread::yield();
    }
  });
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      transport& me = *ends[static_cast<std::size_t>(r)];
      std::mt19937 random(static_cast<unsigned>(r));
      std::vector<std::uint32_t> next(static_cast<std::size_t>(ranks * senders));
      std::deque<arrival> kept;
      int got = 0;
      arrival a;
      const auto receive = [&] {
        if (!me.receive(a)) return false;
        const label l = read(a.head);
        wrong += !intact(a.head, a.body);
        wrong += l.thread >= static_cast<std::uint32_t>(senders) ||
                 next[static_cast<std::size_t>(a.source * senders) + l.thread % static_cast<unsigned>(senders)]++ !=
                     l.number;
        ++got;
        if (keep && random() % 4 == 0) {
          kept.push_back(std::move(a));
          if (kept.size() > 200) {
            const auto which = kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size());
            wrong += !intact(which->head, which->body);
            if (random() % 2) {
              std::lock_guard hold(shelf_lock);
              shelf.push_back(std::move(*which));
            }
            kept.erase(which);
          }
        }
        return true;
      };
      std::vector<std::thread> helpers;
      const auto work = [&](std::uint32_t thread, auto&& when_full) {
        std::mt19937 dice(static_cast<unsigned>(r) * 100 + thread);
        for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(each); ++i)
          for (int to = 0; to < ranks; ++to) {
            const auto any = static_cast<std::uint32_t>(dice());
            const label l{i, thread, any % 5 ? 0 : any % 300, any};
            send(me, to, l, random_size(dice, largest_head), when_full, dice() % 50 == 0);
          }
      };
      for (int t = 1; t < senders; ++t) helpers.emplace_back([&, t] { work(static_cast<std::uint32_t>(t), yield); });
      work(0, [&] {
        if (!receive()) me.wait(std::chrono::milliseconds(1)); // other threads' refusals are told to this one too
      });
      while (got < ranks * each * senders)
        if (!receive()) me.wait(long_time);
      for (auto& h : helpers) h.join();
      wrong += receive();
      me.finish();
      for (auto& k : kept) wrong += !intact(k.head, k.body);
    });
  for (auto& t : threads) t.join();
  over = true;
  librarian.join();
  EXPECT_EQ(wrong, 0);
}

TEST(inproc, all_to_all) { storm(4, 1, 5000, false, 100); }
TEST(inproc, all_to_all_of_all_sizes) { storm(2, 1, 5000, false, 4080); }
TEST(inproc, several_senders_of_each_rank) { storm(2, 3, 3000, false, 1000); }
TEST(inproc, kept_heads) { storm(2, 1, 10000, true, 100); }
TEST(inproc, kept_heads_of_all_sizes_and_several_senders) { storm(3, 2, 2000, true, 4080); }
TEST(inproc, more_ranks_than_are_looked_at) { storm(12, 1, 300, true, 1000); }
TEST(inproc, many_ranks) { storm(64, 1, 20, true, 300); }
TEST(inproc, more_ranks_than_bits_in_a_word) { storm(80, 1, 4, false, 1000); }

// Fills the ring from rank 0 to the last rank. Returns how many messages it took.
std::uint32_t fill(transport& from, int to, std::uint32_t first = 0, bool urgent = false) {
  for (std::uint32_t i = first;; ++i) {
    const label l{i, 0, 0, 0};
    if (!from.send(to, make_head(l, sizeof l), none, urgent)) return i - first;
    if (i > 1'000'000) return i; // fails the test
  }
}

TEST(inproc, full_rings_refuse_and_urgent_messages_get_through) {
  for (const int ranks : {1, 2, 17, 65}) {
    auto ends = make_inproc(ranks);
    transport &from = *ends.front(), &to = *ends.back();
    const std::uint32_t taken = fill(from, to.rank());
    EXPECT_GE(taken, 16u);
    EXPECT_LE(taken, 256u);
    const std::uint32_t urgent = fill(from, to.rank(), taken, true);
    EXPECT_GE(urgent, 3u);
    EXPECT_LE(urgent, 10u);
    arrival a;
    for (std::uint32_t i = 0; i < taken + urgent; ++i) {
      ASSERT_TRUE(to.receive(a));
      EXPECT_EQ(read(a.head).number, i);
    }
    EXPECT_FALSE(to.receive(a));
    EXPECT_GE(fill(from, to.rank()), taken / 2);
  }
}

TEST(inproc, heads_that_are_kept_for_ever_never_stop_a_ring) {
  for (const int ranks : {1, 17, 65})
    for (const std::size_t size : {std::size_t{16}, std::size_t{100}, std::size_t{500}, std::size_t{4000}}) {
      auto ends = make_inproc(ranks);
      transport &from = *ends.front(), &to = *ends.back();
      std::vector<arrival> kept;
      std::uint32_t sent = 0;
      std::size_t fewest = 1000;
      for (int round = 0; round < 40; ++round) {
        std::size_t in_this = 0;
        for (;; ++sent, ++in_this) {
          const label l{sent, 0, 0, 0};
          if (!from.send(to.rank(), make_head(l, size), none)) break;
        }
        fewest = std::min(fewest, in_this);
        arrival a;
        while (to.receive(a)) kept.push_back(std::move(a));
      }
      EXPECT_GE(fewest, size < 200 ? 5u : 1u) << ranks << ' ' << size;
      ASSERT_EQ(kept.size(), sent);
      for (std::uint32_t i = 0; i < sent; ++i) {
        ASSERT_EQ(read(kept[i].head).number, i);
        ASSERT_TRUE(intact(kept[i].head));
      }
      kept.clear(); // and it recovers
      arrival a;
      for (int round = 0; round < 20; ++round) {
        fill(from, to.rank());
        while (to.receive(a)) EXPECT_TRUE(intact(a.head));
      }
      EXPECT_GE(fill(from, to.rank()), ranks == 1 ? 200u : ranks == 17 ? 40u : 20u);
    }
}

TEST(inproc, heads_come_in_place_while_few_are_kept) {
  auto ends = make_inproc(1);
  arrival a;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(ends[0]->send(0, make_head({}, i % 2 ? 100 : 3000), none));
    ASSERT_TRUE(ends[0]->receive(a));
    EXPECT_TRUE(a.head.borrowed()) << i; // no allocation
  }
}

// What lies in the cells of a large head must never be taken for a message.
TEST(inproc, heads_that_look_like_messages) {
  for (const int ranks : {1, 17, 65}) {
    auto ends = make_inproc(ranks);
    transport &from = *ends.front(), &to = *ends.back();
    std::mt19937 random(1);
    arrival a;
    std::uint64_t cells = 0; // at least so many were used; sequences in heads are near what they will be
    for (int i = 0; i < 20000; ++i) {
      byte_buffer head(sizeof(std::uint64_t) * (1 + random() % 500));
      for (std::size_t at = 0; at < head.size(); at += sizeof cells) {
        const std::uint64_t forged = cells + random() % 600;
        std::memcpy(head.data() + at, &forged, sizeof forged);
      }
      ASSERT_TRUE(from.send(to.rank(), head, none));
      ASSERT_TRUE(to.receive(a));
      ASSERT_EQ(a.head, head);
      ASSERT_FALSE(to.receive(a));
      cells += (head.size() + 16 + 127) / 128;
    }
  }
}

TEST(inproc, a_sender_without_room_sleeps_until_there_is_some) {
  for (const int ranks : {2, 20}) {
    auto ends = make_inproc(ranks);
    constexpr std::uint32_t messages = 20000;
    std::atomic<int> late{0};
    std::thread sender([&] {
      for (std::uint32_t i = 0; i < messages; ++i) {
        const label l{i, 0, 0, 0};
        send(*ends[0], 1, l, sizeof l, [&] {
          const double start = steady_seconds();
          ends[0]->wait(long_time);
          late += steady_seconds() - start > 10;
        });
      }
    });
    arrival a;
    for (std::uint32_t i = 0; i < messages;) {
      const double start = steady_seconds();
      if (!ends[1]->receive(a)) {
        ends[1]->wait(long_time);
        late += steady_seconds() - start > 10;
        continue;
      }
      ASSERT_EQ(read(a.head).number, i++);
    }
    sender.join();
    EXPECT_EQ(late, 0);
  }
}

TEST(inproc, sleeping_receivers_are_woken) { // a ball that goes round
  for (const int ranks : {2, 5, 12}) {
    auto ends = make_inproc(ranks);
    constexpr std::uint32_t rounds = 300;
    std::atomic<int> late{0};
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        transport& me = *ends[static_cast<std::size_t>(r)];
        const int to = (r + 1) % ranks;
        if (r == 0) send(me, to, label{}, sizeof(label), yield);
        arrival a;
        for (std::uint32_t i = 0; i < rounds; ++i) {
          while (!me.receive(a)) {
            const double start = steady_seconds();
            me.wait(long_time);
            late += steady_seconds() - start > 10;
          }
          if (r != 0 || i + 1 < rounds) send(me, to, label{i, 0, 0, 0}, sizeof(label), yield);
        }
      });
    for (auto& t : threads) t.join();
    EXPECT_EQ(late, 0);
  }
}

TEST(inproc, a_wake_before_the_wait_is_not_lost) {
  auto ends = make_inproc(1);
  const double start = steady_seconds();
  ends[0]->wake();
  ends[0]->wait(long_time);
  EXPECT_LT(steady_seconds() - start, 10);       // it did not sleep to the end
  ends[0]->wait(std::chrono::microseconds(100)); // used up: sleeps, and returns by itself
  std::thread other([&] { ends[0]->wake(); });
  ends[0]->wait(long_time);
  other.join();
  EXPECT_LT(steady_seconds() - start, 10);
}

} // namespace
} // namespace tern::net
