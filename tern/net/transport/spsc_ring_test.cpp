// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/spsc_ring.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/net/transport/ring_poller.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::net::detail {
namespace {

using found = ring_receiver::found;
using bytes = std::vector<std::byte>;

bytes pattern(std::uint64_t number, std::size_t size) {
  bytes b(size);
  for (std::size_t i = 0; i < size; ++i) b[i] = static_cast<std::byte>(31 * number + 7 * i + i / 64);
  return b;
}

// A ring and both its ends.
struct pair_of_ends {
  explicit pair_of_ends(std::uint32_t cells)
      : memory(std::aligned_alloc(128, ring_end::bytes_of(cells)), &std::free), lent(cells) {
    std::memset(memory.get(), 0, ring_end::bytes_of(cells));
    shared = ::new (memory.get()) ring_shared{};
    out.open(shared, cells, cells >= 64 ? 8 : 4);
    in.open(shared, cells, lent.data());
  }
  std::byte* cells() const { return reinterpret_cast<std::byte*>(shared + 1); }
  void give_back(const std::byte* head) {
    lent[static_cast<std::size_t>(head - cells()) / ring_end::cell_bytes].store(0, std::memory_order_release);
  }
  /// As the users of a ring do: small ones, records of many cells, and else pieces of one cell,
  /// marked as special.
  bool send(const bytes& head, bool urgent = false, const std::uint64_t* extra = nullptr) {
    if (!extra && head.size() <= ring_end::small_head) return out.send_small(head.data(), head.size(), urgent, 0);
    std::uint32_t cells = ring_end::cells_of(head.size(), extra != nullptr);
    const std::uint32_t space = out.space(cells, urgent);
    if (space == 0) return false;
    const std::uint8_t flags = extra ? ring_record::with_extra : 0;
    std::size_t done = 0;
    if (space < cells) {
      constexpr std::uint32_t piece = ring_end::small_head - ring_end::extra_bytes;
      if (!out.space_for_singles(static_cast<std::uint32_t>(head.size() / piece + 1), urgent)) return false;
      for (; head.size() - done > piece; done += piece) {
        EXPECT_EQ(out.space(1, urgent), 1u);
        std::memcpy(out.place(), head.data() + done, piece);
        out.publish({piece, ring_record::special, 1}, 0);
      }
      cells = 1;
      EXPECT_EQ(out.space(1, urgent), 1u);
    }
    if (head.size() > done) std::memcpy(out.place(), head.data() + done, head.size() - done);
    if (extra) {
      const std::uint64_t both[2] = {*extra, ~*extra};
      std::memcpy(out.extra_place(cells), both, sizeof both);
    }
    out.publish({static_cast<std::uint32_t>(head.size() - done), flags, cells}, 0);
    return true;
  }
  struct received {
    bytes head;
    const std::byte* at = nullptr; // lent
    std::uint64_t extra = 0;
    bool woke = false;
  };
  bool receive(received& into, bool lend = true) {
    into = {};
    for (;;) {
      into.woke |= in.give_credit();
      ring_record r;
      const found what = in.look(r);
      EXPECT_NE(what, found::broken);
      if (what != found::record) return false;
      pieces.insert(pieces.end(), in.head(), in.head() + r.size());
      const bool more = (r.flags() & ring_record::special) != 0;
      if (r.flags() & ring_record::with_extra) {
        std::uint64_t both[2];
        std::memcpy(both, in.extra(r), sizeof both);
        EXPECT_EQ(both[0], ~both[1]);
        into.extra = both[0];
      }
      if (!more && lend && in.may_lend() && pieces.size() == r.size()) {
        into.at = in.head();
        in.lend(r);
      }
      in.pass(r);
      if (more) continue;
      into.head = std::exchange(pieces, {});
      return true;
    }
  }

  std::unique_ptr<void, decltype(&std::free)> memory;
  ring_shared* shared = nullptr;
  std::vector<std::atomic<std::uint8_t>> lent;
  bytes pieces; // of a head of which more is to come
  ring_sender out;
  ring_receiver in;
};

constexpr std::uint32_t shapes[] = {32, 64, 256, 1024};

// `space_now` promises space for all of it, whatever lies about in the ring.
TEST(ring, what_has_room_as_records_of_one_cell_has_room_as_larger_ones) {
  constexpr int rounds = tern::detail::sanitized ? 1'000 : 20'000;
  for (const std::uint32_t cells : shapes) {
    pair_of_ends ring(cells);
    pair_of_ends::received one;
    std::mt19937_64 random(cells);
    const auto roll = [&](std::uint64_t n) { return random() % n; };
    std::vector<const std::byte*> kept;
    std::uint64_t found_space = 0, filled = 0;
    for (int round = 0; round < rounds; ++round) {
      // A few heads, of which some stay for a while.
      for (std::uint64_t i = roll(4); i > 0 && ring.send(bytes(roll(100))); --i) {
      }
      while (roll(8) != 0 && ring.receive(one))
        if (one.at) kept.push_back(one.at);
      while (!kept.empty() && (roll(3) == 0 || kept.size() > cells / 8)) {
        std::swap(kept[roll(kept.size())], kept.back());
        ring.give_back(kept.back());
        kept.pop_back();
      }
      const auto most = static_cast<std::uint32_t>(1 + roll(ring.out.largest()));
      const auto singles = static_cast<std::uint32_t>(1 + roll(cells / 2));
      const bool urgent = roll(4) == 0;
      if (!ring.out.space_now(singles, most, urgent)) continue;
      ++found_space;
      for (std::size_t left = singles * ring_end::small_head; left > 0;) {
        const std::uint32_t wanted = std::min(most, ring_end::cells_of(left, false)),
                            got = ring.out.space(wanted, urgent);
        ASSERT_TRUE(got == wanted || got == 1) << got << " for " << wanted;
        const std::size_t part = std::min(left, got * ring_end::cell_bytes - ring_end::header_bytes);
        std::memset(ring.out.place(), 0, part);
        ring.out.publish({static_cast<std::uint32_t>(part), 0, got}, 0);
        left -= part;
      }
      ++filled;
      while (ring.receive(one, roll(2) == 0))
        if (one.at) kept.push_back(one.at);
    }
    EXPECT_GT(found_space, static_cast<std::uint64_t>(rounds / 20)) << cells;
    EXPECT_EQ(filled, found_space);
  }
}

TEST(ring, heads_of_all_sizes_with_and_without_extra) {
  for (const std::uint32_t cells : shapes) {
    pair_of_ends ring(cells);
    pair_of_ends::received one;
    const std::size_t most = ring.out.largest() * ring_end::cell_bytes - ring_end::header_bytes - ring_end::extra_bytes;
    for (std::uint64_t size = 0; size <= most; size += size < 300 ? 1 : 67)
      for (const bool extra : {false, true}) {
        const bytes head = pattern(size, size); // its own allocation: nothing behind it may be read
        ASSERT_TRUE(ring.send(head, false, extra ? &size : nullptr));
        ASSERT_TRUE(ring.receive(one));
        ASSERT_EQ(one.head, head);
        EXPECT_EQ(one.extra, extra ? size : 0);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.at) % 16, 0u);
        ring.give_back(one.at);
        ASSERT_FALSE(ring.receive(one));
      }
  }
}

TEST(ring, is_refused_when_full_keeps_room_for_urgent_ones_and_is_told_of_credit) {
  for (const std::uint32_t cells : shapes) {
    pair_of_ends ring(cells);
    std::uint64_t sent = 0, got = 0;
    for (int round = 0; round < 5; ++round) {
      while (ring.send(pattern(sent, 20))) ++sent;
      EXPECT_TRUE(ring.out.starved());
      const std::uint64_t usual = sent - got;
      EXPECT_GE(usual, cells / 2u);
      EXPECT_LT(usual, cells);
      while (ring.send(pattern(sent, 20), true)) ++sent;
      EXPECT_GE(sent - got - usual, round == 0 ? 4u : 1u);
      EXPECT_FALSE(ring.out.space_for_singles(2, false));
      bool woke = false;
      for (pair_of_ends::received one; ring.receive(one); ++got) {
        ASSERT_EQ(one.head, pattern(got, 20));
        if (one.at) ring.give_back(one.at);
        woke |= one.woke;
      }
      EXPECT_TRUE(woke);
      EXPECT_FALSE(ring.out.starved());
      EXPECT_EQ(got, sent);
    }
  }
}

TEST(ring, heads_that_are_kept_for_ever_never_stop_it) {
  for (const std::uint32_t cells : shapes)
    for (const std::size_t size : {20, 200, 400, 4000}) {
      if (ring_end::cells_of(size, false) > ring_end::most_cells_of(cells)) continue;
      pair_of_ends ring(cells);
      std::vector<std::pair<const std::byte*, std::uint64_t>> kept;
      std::uint64_t sent = 0, got = 0;
      for (int round = 0; round < (tern::detail::sanitized ? 30 : 100); ++round) {
        std::uint64_t before = sent;
        while (ring.send(pattern(sent, size))) ++sent;
        ASSERT_GT(sent, before) << cells << ' ' << size << ' ' << round;
        for (pair_of_ends::received one; ring.receive(one); ++got) {
          ASSERT_EQ(one.head, pattern(got, size));
          if (!one.at) continue;
          if (got % 4 == 0)
            kept.emplace_back(one.at, got);
          else
            ring.give_back(one.at);
        }
        ASSERT_EQ(got, sent);
      }
      EXPECT_FALSE(kept.empty());
      for (const auto& [at, number] : kept) {
        const bytes head = pattern(number, size);
        ASSERT_TRUE(std::equal(head.begin(), head.end(), at));
        ring.give_back(at);
      }
      for (int round = 0; round < 20; ++round) { // and it recovers
        while (ring.send(pattern(sent, 20))) ++sent;
        for (pair_of_ends::received one; ring.receive(one);)
          if (one.at) ring.give_back(one.at);
      }
      std::uint64_t more = 0;
      while (ring.send(pattern(sent, 20))) ++more;
      EXPECT_GE(more, cells * 3 / 4 - 9);
    }
}

TEST(ring, what_lies_in_a_large_head_is_never_taken_for_a_record) {
  for (const std::uint32_t cells : shapes) {
    pair_of_ends ring(cells);
    std::mt19937 random(1);
    pair_of_ends::received one;
    std::uint64_t used = 0; // at least so many cells; sequences in heads are near what they will be
    for (int i = 0; i < (tern::detail::sanitized ? 2'000 : 20'000); ++i) {
      bytes head(8 * (1 + random() % (ring.out.largest() * ring_end::cell_bytes / 8 - 2)));
      for (std::size_t at = 0; at < head.size(); at += 8) {
        const std::uint64_t forged = used + random() % (2 * cells);
        std::memcpy(head.data() + at, &forged, sizeof forged);
      }
      ASSERT_TRUE(ring.send(head));
      ASSERT_TRUE(ring.receive(one));
      ASSERT_EQ(one.head, head);
      if (one.at) ring.give_back(one.at);
      ASSERT_FALSE(ring.receive(one));
      used += ring_end::cells_of(head.size(), false);
    }
  }
}

TEST(ring, records_that_fit_no_ring_are_broken) {
  const auto broken = [](ring_record r) {
    pair_of_ends ring(256);
    std::memcpy(ring.cells() + 8, &r.word, sizeof r.word);
    const std::uint64_t sequence = 1;
    std::memcpy(ring.cells(), &sequence, sizeof sequence);
    return ring.in.look(r) == found::broken;
  };
  EXPECT_FALSE(broken({112, 0, 1}));
  EXPECT_TRUE(broken({113, 0, 1}));
  EXPECT_FALSE(broken({96, ring_record::with_extra, 1}));
  EXPECT_TRUE(broken({97, ring_record::with_extra, 1}));
  EXPECT_FALSE(broken({240, 0, 2}));
  EXPECT_TRUE(broken({241, 0, 2}));
  EXPECT_TRUE(broken({0xffffffff, ring_record::with_extra, 2}));
  EXPECT_TRUE(broken({0, 0, 0}));
  EXPECT_TRUE(broken({0, ring_record::skip, 0}));
  EXPECT_TRUE(broken({0, 0, 33}));
  EXPECT_TRUE(broken({0, 0, 0x10001}));
  EXPECT_TRUE(broken({0, 8, 1}));

  for (const std::uint64_t credit : {std::uint64_t{2000}, ~std::uint64_t{0}}) { // of what was never sent
    pair_of_ends ring(256);
    ring.shared->credit = credit;
    EXPECT_EQ(ring.out.space(1, false), 0u);
    EXPECT_TRUE(ring.out.broken());
  }
}

// One thread sends, one receives and keeps some, one gives back what the second has kept, in any
// order.
void hammer(std::uint32_t cells, std::size_t largest, unsigned keep) {
  pair_of_ends ring(cells);
  constexpr std::uint64_t messages = tern::detail::sanitized ? 15'000 : 60'000;
  std::atomic<int> wrong{0};
  std::vector<std::atomic<const std::byte*>> shelf(64);
  std::atomic<bool> over{false};
  const auto size_of = [largest](std::uint64_t number) {
    const std::uint64_t x = number * 0x9e3779b97f4a7c15U >> 20;
    return static_cast<std::size_t>(8 + x % ((x >> 20) % 4 ? std::min<std::size_t>(largest, 120) : largest));
  };
  const auto message = [&](std::uint64_t number) {
    bytes head = pattern(number, size_of(number));
    std::memcpy(head.data(), &number, sizeof number);
    return head;
  };
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < messages; ++i) {
      const bytes head = message(i);
      while (!ring.send(head, i % 50 == 0, i % 7 == 0 ? &i : nullptr)) {
        wrong += ring.out.broken();
        while (ring.out.starved()) std::this_thread::yield(); // ends: the credit that comes clears it
      }
    }
  });
  std::thread librarian([&] {
    for (bool last = false; !last;) {
      last = over;
      for (auto& place : shelf)
        if (const std::byte* at = place.exchange(nullptr, std::memory_order_acquire)) {
          std::uint64_t number = 0;
          std::memcpy(&number, at, sizeof number);
          const bytes head = message(number);
          wrong += !std::equal(head.begin(), head.end(), at);
          ring.give_back(at);
        }
      std::this_thread::yield();
    }
  });
  std::mt19937 random(4);
  std::uint64_t got = 0;
  for (pair_of_ends::received one; got < messages;) {
    if (!ring.receive(one, random() % 8 != 0)) {
      std::this_thread::yield();
      continue;
    }
    wrong += one.head != message(got);
    wrong += one.extra != (got % 7 == 0 ? got : 0);
    ++got;
    if (!one.at) continue;
    const std::byte* nothing = nullptr;
    if (random() % 100 >= keep ||
        !shelf[random() % shelf.size()].compare_exchange_strong(nothing, one.at, std::memory_order_release))
      ring.give_back(one.at);
  }
  sender.join();
  over = true;
  librarian.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ring, two_threads) { hammer(256, 100, 0); }
TEST(ring, two_threads_and_kept_heads) { hammer(256, 100, 40); }
TEST(ring, two_threads_and_kept_heads_of_all_sizes) { hammer(256, 3000, 40); }
TEST(ring, two_threads_at_the_smallest_ring) { hammer(32, 400, 40); }
TEST(ring, two_threads_at_the_largest_ring) { hammer(1024, 8000, 80); }

TEST(ring_rota, takes_from_all_in_turn) {
  for (const std::size_t senders : {1, 5, 8, 9, 64, 65, 200}) {
    std::vector<ring_poller::word> marks(ring_poller::words_for(senders));
    std::vector<int> waiting(senders, 0), taken(senders, 0);
    ring_poller rota;
    rota.open(senders, marks.data());
    EXPECT_EQ(rota.has_marks(), senders > ring_poller::few_senders);
    const auto ready = [&](std::size_t i) { return waiting[i] > 0; };
    const auto take = [&](std::size_t i) {
      if (waiting[i] == 0) return false;
      --waiting[i];
      ++taken[i];
      return true;
    };
    EXPECT_FALSE(rota.next(take, ready));
    EXPECT_FALSE(rota.any(ready));
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < senders; ++i) {
        waiting[i] = 100;
        if (rota.has_marks()) ring_poller::mark(marks.data(), i);
      }
      EXPECT_TRUE(rota.any(ready));
      for (std::size_t n = 0; n < 33 * senders; ++n)
        EXPECT_TRUE(rota.next(take, ready)); // none has had all of its turns
      EXPECT_LT(*std::max_element(taken.begin(), taken.end()) - 100 * round, 100);
      EXPECT_GT(*std::min_element(taken.begin(), taken.end()) - 100 * round, senders == 1 ? 0 : 31);
      for (std::size_t n = 0; n < 67 * senders; ++n) EXPECT_TRUE(rota.next(take, ready));
      EXPECT_FALSE(rota.next(take, ready));
      EXPECT_FALSE(rota.any(ready));
    }
  }
}

} // namespace
} // namespace tern::net::detail
