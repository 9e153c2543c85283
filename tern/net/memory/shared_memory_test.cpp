// SPDX-License-Identifier: Apache-2.0
#include <tern/net/memory/shared_memory.hpp>

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/net/buffer.hpp>
#include <tern/net/memory/lent_buffer.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tern::net::detail {
namespace {

constexpr std::size_t place = segment_layout::place_bytes;

struct closer {
  void operator()(foreign_segment* s) const noexcept { s->close(); }
};
using foreign = std::unique_ptr<foreign_segment, closer>;

/// Another mapping of the segment, as another process has one.
foreign map_of(const shared_pool& pool) { return foreign(foreign_segment::open(getpid(), pool.file())); }

std::byte of(std::size_t n) { return static_cast<std::byte>(n % 251); }
void fill(byte_buffer& b, std::size_t n) { std::memset(b.data(), std::to_integer<int>(of(n)), b.size()); }
bool is_filled(const byte_buffer& b, std::size_t n) {
  return b[0] == of(n) && std::memcmp(b.data(), b.data() + 1, b.size() - 1) == 0;
}

TEST(shared_pool, takes_nothing_before_it_is_asked_and_has_only_its_sizes) {
  shared_pool pool;
  EXPECT_TRUE(pool.take(shared_pool::least - 1).empty());
  EXPECT_TRUE(pool.take(shared_pool::most + 1).empty());
  EXPECT_TRUE(pool.take(std::size_t{1} << 40).empty());
  EXPECT_EQ(pool.file(), -1);
  EXPECT_EQ(pool.take(shared_pool::most).size(), shared_pool::most);
  EXPECT_GE(pool.file(), 0);
}

TEST(shared_pool, blocks_are_disjoint_and_begin_a_page) {
  shared_pool pool;
  std::vector<byte_buffer> all;
  for (const std::size_t size : {place, place + 1, 2 * place, 5 * place, std::size_t{1} << 20, place, 3 * place}) {
    all.push_back(pool.take(size));
    ASSERT_EQ(all.back().size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back().data()) % 4096, 0u);
    fill(all.back(), all.size());
  }
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(is_filled(all[i], i + 1)) << i;
}

TEST(shared_pool, what_came_back_last_is_used_first) {
  shared_pool pool;
  byte_buffer a = pool.take(place), b = pool.take(place);
  const std::byte* const was = a.data();
  b = {};
  a = {};
  EXPECT_EQ(pool.take(place).data(), was);
  EXPECT_EQ(pool.used(), 2 * place);
}

TEST(shared_pool, a_lent_block_is_used_again_when_all_have_given_it_back) {
  shared_pool pool(4);
  byte_buffer sent = pool.take(place);
  fill(sent, 7);
  const std::byte* const was = sent.data();
  const std::uint64_t where = pool.lend(sent);
  ASSERT_NE(where, 0u);
  EXPECT_TRUE(segment_layout::exclusive(where));
  sent = {};
  EXPECT_EQ(pool.lent(), 1u);

  const foreign there = map_of(pool);
  ASSERT_TRUE(there);
  byte_buffer got = there->take(where, place);
  ASSERT_EQ(got.size(), place);
  EXPECT_TRUE(got.writable());
  EXPECT_TRUE(is_filled(got, 7));
  fill(got, 8);
  EXPECT_NE(pool.take(place).data(), was); // gone at once, and kept as free
  got = {};
  byte_buffer other = pool.take(place);
  EXPECT_NE(other.data(), was);
  EXPECT_EQ(pool.take(place).data(), was); // none else was free
  EXPECT_EQ(pool.lent(), 0u);
}

TEST(shared_pool, shares_are_read_only_and_count_each_message) {
  shared_pool pool(2);
  shared_buffer<std::byte> shared;
  byte_buffer first, second;
  const foreign there = map_of(pool);
  ASSERT_FALSE(there) << "there is no file yet";
  {
    byte_buffer made = pool.take(2 * place);
    fill(made, 3);
    const auto owner = std::make_shared<byte_buffer>(std::move(made));
    const auto lent = [&] { return byte_buffer::borrow(owner->data(), owner->size(), *new share_lender(owner, true)); };
    const foreign here = map_of(pool);
    ASSERT_TRUE(here);
    const byte_buffer one = lent(), two = lent();
    const std::uint64_t where = pool.lend(one);
    EXPECT_EQ(pool.lend(two), where);
    EXPECT_FALSE(segment_layout::exclusive(where));
    first = here->take(where, 2 * place);
    second = here->take(where, 2 * place);
  }
  EXPECT_EQ(pool.lent(), 1u);
  EXPECT_FALSE(first.writable());
  EXPECT_TRUE(is_filled(first, 3));
  std::shared_ptr<const void> kept = second.share(); // as a handler's shared_buffer
  ASSERT_TRUE(kept);
  second = {};
  EXPECT_TRUE(pool.take(2 * place).empty());
  first = {};
  EXPECT_TRUE(pool.take(2 * place).empty());
  kept.reset();
  EXPECT_EQ(pool.take(2 * place).size(), 2 * place);
}

TEST(shared_pool, lends_only_what_begins_a_block_and_stays_as_it_is) {
  shared_pool pool;
  byte_buffer block = pool.take(4 * place);
  byte_buffer plain(place);
  EXPECT_EQ(pool.lend(plain), 0u);
  EXPECT_EQ(pool.lend(byte_buffer()), 0u);
  const auto owner = std::make_shared<byte_buffer>(std::move(block));
  EXPECT_EQ(pool.lend(byte_buffer::borrow(owner->data() + place, place, *new share_lender(owner, true))), 0u);
  EXPECT_EQ(pool.lend(byte_buffer::borrow(owner->data() + 64, place, *new share_lender(owner, true))), 0u);
  // Its owner may change it once the message has been sent.
  EXPECT_EQ(pool.lend(byte_buffer::borrow(owner->data(), place, *new share_lender(owner, false))), 0u);
  loan waits;
  EXPECT_EQ(pool.lend(byte_buffer::borrow(owner->data(), place, waits)), 0u);
  waits.wait();
  const std::uint64_t where = pool.lend(byte_buffer::borrow(owner->data(), place, *new share_lender(owner, true)));
  ASSERT_NE(where, 0u);
  pool.unlend(where);
  EXPECT_EQ(pool.lent(), 0u);
}

TEST(shared_pool, an_end_is_an_end_and_neighbours_come_together) {
  shared_pool pool(64);
  std::vector<byte_buffer> all;
  for (byte_buffer one = pool.take(place); !one.empty(); one = pool.take(place)) all.push_back(std::move(one));
  EXPECT_EQ(all.size(), 64u);
  all.pop_back();
  EXPECT_FALSE(pool.take(place).empty());
  EXPECT_TRUE(pool.take(2 * place).empty());
  all.clear();
  byte_buffer whole;
  for (int tries = 0; whole.empty(); ++tries) {
    ASSERT_LT(tries, 100);
    whole = pool.take(64 * place);
  }
  fill(whole, 1);
  EXPECT_TRUE(pool.take(place).empty());
  whole = {};
  for (int i = 0; i < 64; ++i) { // and apart again
    all.push_back(pool.take(place));
    ASSERT_FALSE(all.back().empty());
    fill(all.back(), static_cast<std::size_t>(i));
  }
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(is_filled(all[i], i));
}

TEST(shared_pool, a_block_of_another_size_does_not_reach_its_end) {
  shared_pool pool(13); // no power of two
  byte_buffer one = pool.take(place), eight = pool.take(8 * place);
  EXPECT_TRUE(eight.empty());
  byte_buffer four = pool.take(4 * place);
  EXPECT_FALSE(four.empty());
  EXPECT_FALSE(pool.take(2 * place).empty()); // of what lies between
}

TEST(foreign_segment, believes_no_message) {
  shared_pool pool;
  byte_buffer block = pool.take(place);
  const foreign there = map_of(pool);
  ASSERT_TRUE(there);
  EXPECT_TRUE(there->take(segment_layout::where(0, true), place).empty()); // has no holder
  EXPECT_TRUE(there->take(segment_layout::where(segment_layout::places, true), place).empty());
  EXPECT_TRUE(there->take(~std::uint64_t{0}, place).empty());
  const std::uint64_t where = pool.lend(block);
  EXPECT_TRUE(there->take(where, 0).empty());
  EXPECT_TRUE(there->take(where, segment_layout::bytes).empty());
  EXPECT_TRUE(there->take(where, ~std::size_t{0}).empty());
  EXPECT_EQ(there->take(where, place).size(), place);
}

TEST(foreign_segment, maps_no_other_file) {
  EXPECT_FALSE(foreign(foreign_segment::open(getpid(), 1 << 20)));
  EXPECT_FALSE(foreign(foreign_segment::open(getpid(), -1)));
  EXPECT_FALSE(foreign(foreign_segment::open(0, 0)));
  const int other = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(other, 0);
  EXPECT_FALSE(foreign(foreign_segment::open(getpid(), other)));
  ::close(other);
}

TEST(foreign_segment, outlives_the_owner_and_whoever_opened_it) {
  auto pool = std::make_unique<shared_pool>();
  byte_buffer block = pool->take(3 * place);
  fill(block, 5);
  const std::uint64_t where = pool->lend(block);
  foreign there = map_of(*pool);
  ASSERT_TRUE(there);
  byte_buffer kept = there->take(where, 3 * place);
  block = {};
  pool.reset(); // as its process ends
  there.reset();
  EXPECT_TRUE(is_filled(kept, 5));
  fill(kept, 6);
  EXPECT_TRUE(is_filled(kept, 6));
}

// A process that is killed with blocks gives none back. Their sender waits for nothing and takes
// other memory; what another receiver has comes back as ever.
TEST(foreign_segment, a_receiver_that_is_killed_keeps_what_it_has_and_no_more) {
  shared_pool pool(4);
  byte_buffer first = pool.take(place), second = pool.take(place);
  fill(first, 1);
  fill(second, 2);
  const std::byte* const kept = first.data();
  const std::byte* const returned = second.data();
  const std::uint64_t there = pool.lend(first), here = pool.lend(second);
  const pid_t owner = getpid();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) { // touches nothing that another thread of the test's process could have
    foreign_segment* const of_owner = foreign_segment::open(owner, pool.file());
    char ok = 0;
    if (of_owner) {
      byte_buffer body = of_owner->take(there, place);
      ok = !body.empty() && is_filled(body, 1) ? 1 : 0;
      static_cast<void>(!write(ends[1], &ok, 1));
      for (;;) pause(); // with the body
    }
    static_cast<void>(!write(ends[1], &ok, 1));
    for (;;) pause();
  }
  char ok = 0;
  ASSERT_EQ(read(ends[0], &ok, 1), 1);
  EXPECT_EQ(ok, 1);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ends[0]);
  close(ends[1]);

  const foreign other = map_of(pool);
  ASSERT_TRUE(other);
  EXPECT_TRUE(is_filled(other->take(here, place), 2)); // and gives it back
  first = {};
  second = {};
  std::vector<byte_buffer> all;
  for (int tries = 0; tries < 20; ++tries)
    if (byte_buffer b = pool.take(place); !b.empty()) all.push_back(std::move(b));
  EXPECT_EQ(all.size(), 3u); // of four
  bool again = false;
  for (const byte_buffer& b : all) {
    EXPECT_NE(b.data(), kept);
    again |= b.data() == returned;
  }
  EXPECT_TRUE(again);
  EXPECT_EQ(pool.lent(), 1u);
}

TEST(shared_pool, is_used_only_by_jobs_that_share_it) {
  EXPECT_TRUE(shared_pool::take_here(place).empty());
  shared_pool::begin_use();
  EXPECT_FALSE(shared_pool::take_here(place).empty());
  EXPECT_TRUE(shared_pool::take_here(place - 1).empty());
  EXPECT_TRUE(shared_pool::of_process().lend(byte_buffer(place)) == 0);
  shared_pool::end_use();
  EXPECT_TRUE(shared_pool::take_here(place).empty());
}

/// Messages on their way.
class way {
public:
  struct message {
    std::uint64_t where;
    std::size_t size, number;
  };
  void send(message m) {
    {
      std::lock_guard hold(lock_);
      all_.push_back(m);
    }
    there_.notify_one();
  }
  message receive() {
    std::unique_lock hold(lock_);
    there_.wait(hold, [&] { return !all_.empty(); });
    const message m = all_.front();
    all_.pop_front();
    return m;
  }

private:
  std::mutex lock_;
  std::condition_variable there_;
  std::deque<message> all_;
};

// Two senders' threads, two "processes" that each have a thread that receives and one that gives
// back what was kept for a while. What a sender takes is nowhere in use.
TEST(shared_pool, many_threads_and_two_mappings) {
  constexpr std::size_t messages = 4000, window = 6; // so that a block of any size comes back
  shared_pool pool(256);
  static_cast<void>(pool.take(place)); // so that there is a file
  std::array<way, 2> ways;
  std::atomic<std::size_t> wrong{0};
  const auto sender = [&](std::size_t first) {
    for (std::size_t n = first; n < messages; n += 2) {
      const std::size_t size = place + n * 977 % (7 * place);
      byte_buffer b = pool.take(size);
      for (; b.empty(); b = pool.take(size)) std::this_thread::yield(); // all are over there
      fill(b, n);
      ways[n / 2 % 2].send({pool.lend(b), size, n});
    }
  };
  const auto receiver = [&](std::size_t at) {
    const foreign there = map_of(pool);
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::pair<byte_buffer, std::size_t>> kept;
    bool over = false;
    std::thread second([&] {
      for (;;) {
        std::pair<byte_buffer, std::size_t> one;
        {
          std::unique_lock hold(lock);
          changed.wait(hold, [&] { return over || kept.size() > window; });
          if (kept.empty()) return;
          one = std::move(kept.front());
          kept.pop_front();
        }
        if (!is_filled(one.first, one.second)) ++wrong;
        fill(one.first, one.second + 1);
      }
    });
    for (std::size_t i = 0; i < messages / 2; ++i) {
      const way::message m = ways[at].receive();
      byte_buffer b = there->take(m.where, m.size);
      if (b.empty() || !is_filled(b, m.number)) {
        ++wrong;
        continue;
      }
      fill(b, m.number + 13);
      std::lock_guard hold(lock);
      kept.emplace_back(std::move(b), m.number + 13);
      changed.notify_one();
    }
    {
      std::lock_guard hold(lock);
      over = true;
    }
    changed.notify_one();
    second.join();
  };
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < 2; ++i) {
    all.emplace_back(receiver, i);
    all.emplace_back(sender, i);
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(wrong, 0u);
  byte_buffer whole; // all has come back
  for (int tries = 0; whole.empty() && tries < 200; ++tries) whole = pool.take(256 * place);
  EXPECT_EQ(whole.size(), 256 * place);
  EXPECT_EQ(pool.lent(), 0u);
}

} // namespace
} // namespace tern::net::detail
