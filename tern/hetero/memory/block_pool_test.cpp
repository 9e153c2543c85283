// SPDX-License-Identifier: Apache-2.0
// Blocks cut out of slabs: against a model that knows which gaps there are, at the limits, and how
// much is asked of the source and of the heap.
#include <tern/hetero/memory/block_pool.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/test_heap.hpp"

namespace tern::hetero::detail {
namespace {

constexpr bool counts = test_heap::replaced;
using test_heap::allocations;
using test_heap::allowed;
constexpr std::size_t kib = 1024, mib = kib * 1024;

// Addresses of no memory.
struct mock_source final : slab_source {
  std::uintptr_t get(std::size_t bytes) override {
    ++calls;
    last_asked = bytes;
    if (throws) throw std::runtime_error("the device is lost");
    if (bytes > left) return 0;
    left -= bytes;
    // Neither in the order of the addresses nor side by side, which would hide blocks across the
    // border of two.
    const std::uintptr_t at = calls % 2 != 0 ? low -= bytes + 4096 : high;
    if (calls % 2 == 0) high += bytes + 4096;
    slabs[at] = bytes;
    return at;
  }
  void give_back(std::uintptr_t at, std::size_t bytes) noexcept override {
    const auto s = slabs.find(at);
    ASSERT_NE(s, slabs.end());
    EXPECT_EQ(s->second, bytes);
    slabs.erase(s);
    left += bytes;
    ++given_back;
  }
  std::size_t reserved() const {
    std::size_t sum = 0;
    for (const auto& [at, bytes] : slabs) sum += bytes;
    return sum;
  }

  std::map<std::uintptr_t, std::size_t> slabs;
  std::size_t left = SIZE_MAX, last_asked = 0;
  std::uintptr_t low = std::uintptr_t{1} << 46, high = low;
  int calls = 0, given_back = 0;
  bool throws = false;
};

struct block_pool_test : testing::Test {
  ~block_pool_test() override { EXPECT_TRUE(source.slabs.empty()) << "the pool's destructor gives all back"; }
  mock_source source;
};

// What the gaps between the blocks in use say of the next block: the smallest that is large enough,
// at its lowest address.
struct gaps {
  std::uintptr_t fit = 0;
  std::size_t largest = 0;
};
gaps gaps_of(const mock_source& source, const std::map<std::uintptr_t, std::size_t>& used, std::size_t need) {
  gaps g;
  std::size_t best = SIZE_MAX;
  auto u = used.begin();
  for (const auto& [at, bytes] : source.slabs) {
    std::uintptr_t from = at;
    const auto gap = [&](std::uintptr_t to) {
      EXPECT_GE(to, from) << "blocks overlap, or lie outside the slabs";
      const std::size_t size = to - from;
      g.largest = std::max(g.largest, size);
      if (size >= need && size < best) best = size, g.fit = from;
    };
    for (; u != used.end() && u->first < at + bytes; ++u) {
      gap(u->first);
      from = u->first + u->second;
    }
    gap(at + bytes);
  }
  EXPECT_EQ(u, used.end()) << "a block outside the slabs";
  return g;
}

TEST_F(block_pool_test, does_as_a_simple_model) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::size_t alignment = std::size_t{1} << random() % 10;
    block_pool pool(source, {.alignment = alignment,
                             .granule = 4 * kib,
                             .first_slab = 16 * kib,
                             .largest_slab = 128 * kib,
                             .limit = seed % 3 == 0 ? 512 * kib : SIZE_MAX});
    source.left = seed % 3 == 1 ? 600 * kib + 123 : SIZE_MAX;
    std::map<std::uintptr_t, std::size_t> used;
    std::vector<std::uintptr_t> order;
    std::size_t sum = 0;
    const std::size_t usual = kib << random() % 5;
    for (int step = 0; step < 600; ++step) {
      // More and less in turns.
      if (const bool more = step / 100 % 2 == 0; random() % 10 < (more ? 7u : 3u) || order.empty()) {
        const std::size_t bytes = random() % 20 == 0 ? random() % (200 * kib) : random() % usual;
        const std::size_t need = std::max<std::size_t>((bytes + alignment - 1) / alignment * alignment, alignment);
        const gaps before = gaps_of(source, used, need);
        const int calls = source.calls;
        const std::uintptr_t at = pool.allocate(bytes);
        if (before.fit != 0) {
          ASSERT_EQ(at, before.fit);
          ASSERT_EQ(source.calls, calls);
        } else if (at != 0) {
          ASSERT_TRUE(source.slabs.contains(at)) << "the beginning of a new slab";
        } else {
          ASSERT_LT(std::min(source.left, 512 * kib - std::min(pool.bytes_reserved(), 512 * kib)), need + 4 * kib);
        }
        if (at == 0) continue;
        ASSERT_EQ(at % alignment, 0u);
        ASSERT_TRUE(used.emplace(at, need).second);
        order.push_back(at);
        sum += need;
        ASSERT_EQ(pool.size_of(at), need);
      } else {
        std::swap(order[random() % order.size()], order.back());
        pool.free(order.back());
        sum -= used[order.back()];
        used.erase(order.back());
        order.pop_back();
        if (random() % 50 == 0) pool.trim();
      }
      ASSERT_EQ(pool.largest_free(), gaps_of(source, used, 1).largest);
      ASSERT_EQ(pool.bytes_used(), sum);
      ASSERT_EQ(pool.bytes_reserved(), source.reserved());
      ASSERT_EQ(pool.slabs(), source.slabs.size());
      ASSERT_LE(pool.bytes_reserved(), seed % 3 == 0 ? 512 * kib : SIZE_MAX);
    }
    for (const std::uintptr_t at : order) pool.free(at);
    ASSERT_EQ(pool.bytes_used(), 0u);
    ASSERT_EQ(pool.bytes_idle(), pool.bytes_reserved());
    ASSERT_EQ(pool.largest_free(), gaps_of(source, {}, 1).largest) << "each slab is one block again";
    pool.trim();
    ASSERT_TRUE(source.slabs.empty());
    ASSERT_EQ(pool.bytes_reserved(), 0u);
    ASSERT_EQ(pool.largest_free(), 0u);
  }
}

TEST_F(block_pool_test, slabs_double_up_to_the_largest) {
  block_pool pool(source, {.granule = 4 * kib, .first_slab = 16 * kib, .largest_slab = 64 * kib});
  std::vector<std::size_t> asked;
  for (int i = 0; i < 60; ++i) {
    const int calls = source.calls;
    ASSERT_NE(pool.allocate(4 * kib), 0u);
    if (source.calls != calls) asked.push_back(source.last_asked);
  }
  EXPECT_EQ(asked, (std::vector<std::size_t>{16 * kib, 32 * kib, 64 * kib, 64 * kib, 64 * kib}));
}

TEST_F(block_pool_test, a_large_block_has_a_slab_of_its_own_which_is_used_again) {
  block_pool pool(source, {.granule = 4 * kib, .first_slab = 16 * kib, .largest_slab = 16 * kib});
  const std::uintptr_t at = pool.allocate(9 * kib);
  EXPECT_EQ(source.last_asked, 12 * kib);
  EXPECT_NE(pool.allocate(8 * kib), 0u); // half a slab is not much
  EXPECT_EQ(source.last_asked, 16 * kib);
  EXPECT_NE(pool.allocate(100 * kib), 0u);
  EXPECT_EQ(source.last_asked, 100 * kib);
  pool.free(at);
  EXPECT_EQ(pool.slabs(), 3u);
  EXPECT_EQ(pool.allocate(12 * kib), at);
  EXPECT_EQ(pool.slabs(), 3u);
}

TEST_F(block_pool_test, nothing_and_far_too_much) {
  block_pool pool(source);
  const std::uintptr_t a = pool.allocate(0), b = pool.allocate(0);
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  source.left = 100 * mib;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 255, SIZE_MAX - 2 * mib, SIZE_MAX / 2, 101 * mib})
    EXPECT_EQ(pool.allocate(bytes), 0u) << bytes;
  EXPECT_EQ(pool.bytes_used(), 512u);
  EXPECT_EQ(pool.bytes_reserved(), 16 * mib);
}

TEST_F(block_pool_test, within_the_limit_slabs_get_smaller_and_unused_ones_make_room) {
  block_pool pool(source, {.granule = 4 * kib, .first_slab = 16 * kib, .largest_slab = 64 * kib, .limit = 58 * kib});
  const std::uintptr_t first = pool.allocate(16 * kib), second = pool.allocate(16 * kib);
  EXPECT_EQ(pool.bytes_reserved(), 48 * kib);
  const std::uintptr_t third = pool.allocate(16 * kib);
  ASSERT_NE(third, 0u);
  const std::uintptr_t fourth = pool.allocate(5 * kib);
  EXPECT_NE(fourth, 0u);
  EXPECT_EQ(source.last_asked, 8 * kib) << "the next would have had 64 KiB";
  EXPECT_EQ(pool.allocate(4 * kib), 0u);

  // Certainly in vain: nothing is given back for it.
  pool.free(first);
  const int calls = source.calls;
  EXPECT_EQ(pool.allocate(40 * kib), 0u);
  EXPECT_EQ(source.given_back, 0);
  EXPECT_EQ(source.calls, calls);

  pool.free(second);
  EXPECT_EQ(pool.allocate(40 * kib), 0u);
  pool.free(fourth);
  pool.free(third);
  EXPECT_NE(pool.allocate(56 * kib), 0u);
  EXPECT_EQ(source.given_back, 3);
  EXPECT_EQ(pool.bytes_reserved(), 56 * kib);
}

TEST_F(block_pool_test, a_source_that_has_no_more) {
  block_pool pool(source, {.granule = 4 * kib, .first_slab = 16 * kib, .largest_slab = 64 * kib});
  source.left = 40 * kib;
  std::vector<std::uintptr_t> all;
  while (const std::uintptr_t at = pool.allocate(4 * kib)) all.push_back(at);
  EXPECT_EQ(all.size(), 10u) << "all that it has, in the end in slabs of 4 KiB";
  EXPECT_EQ(source.left, 0u);
  for (const std::uintptr_t at : all) pool.free(at);
  EXPECT_EQ(pool.largest_free(), 16 * kib);
  EXPECT_NE(pool.allocate(40 * kib), 0u) << "the slabs were given back for it";
  EXPECT_EQ(pool.slabs(), 1u);

  source.throws = true;
  EXPECT_THROW(pool.allocate(4 * kib), std::runtime_error);
  EXPECT_EQ(pool.bytes_used(), 40 * kib);
  source.throws = false;
  source.left = 4 * kib;
  EXPECT_NE(pool.allocate(4 * kib), 0u);
}

TEST_F(block_pool_test, if_the_bookkeeping_finds_no_memory_nothing_has_changed) {
  if (!counts) GTEST_SKIP() << "sanitizers have their own operator new";
  // The source allocates, too: only what the pool does is refused.
  struct quiet_source final : slab_source {
    explicit quiet_source(mock_source& s) : below(s) {}
    std::uintptr_t get(std::size_t bytes) override {
      const long kept = std::exchange(allowed, -1);
      const std::uintptr_t at = below.get(bytes);
      allowed = kept;
      return at;
    }
    void give_back(std::uintptr_t at, std::size_t bytes) noexcept override { below.give_back(at, bytes); }
    mock_source& below;
  } quiet{source};

  block_pool pool(quiet, {.granule = 4 * kib, .first_slab = 16 * kib, .largest_slab = 16 * kib});
  std::map<std::uintptr_t, std::size_t> used;
  std::mt19937 random(1);
  int failures = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t bytes = random() % 16 == 0 ? 20 * kib : 256 * (1 + random() % 16);
    for (long n = 0;; ++n) {
      const std::size_t reserved = pool.bytes_reserved(), sum = pool.bytes_used(), largest = pool.largest_free();
      allowed = n;
      std::uintptr_t at = 0;
      try {
        at = pool.allocate(bytes);
      } catch (const std::bad_alloc&) {
      }
      allowed = -1;
      if (at != 0) {
        ASSERT_TRUE(used.emplace(at, pool.size_of(at)).second);
        break;
      }
      ++failures;
      ASSERT_EQ(pool.bytes_reserved(), reserved);
      ASSERT_EQ(pool.bytes_used(), sum);
      ASSERT_EQ(pool.largest_free(), largest);
      ASSERT_EQ(source.reserved(), reserved);
    }
    gaps_of(source, used, 1);
  }
  EXPECT_GT(failures, 500);
  allowed = 0; // none for these
  for (const auto& [at, bytes] : used) pool.free(at);
  pool.trim();
  allowed = -1;
  EXPECT_TRUE(source.slabs.empty());
}

// Tiles of a few sizes, as of a factorisation that goes through several matrices, with some odd
// ones among them.
struct request {
  bool is_free;
  std::size_t which, bytes;
};
std::vector<request> sequence(unsigned seed, std::size_t steps, std::size_t most) {
  constexpr std::size_t sizes[] = {512 * 512 * 8, 256 * 256 * 8, 1024 * 1024 * 4, 100 * 100 * 8, 3000, 24 * mib};
  std::mt19937 random(seed);
  std::vector<request> all;
  std::vector<std::size_t> alive;
  std::size_t count = 0;
  for (std::size_t i = 0; i < steps || !alive.empty(); ++i) {
    const bool rising = i < steps && i / (most / 2) % 2 == 0;
    if (!alive.empty() && (i >= steps || alive.size() >= most || random() % 10 < (rising ? 3u : 6u))) {
      std::swap(alive[random() % alive.size()], alive.back());
      all.push_back({true, alive.back(), 0});
      alive.pop_back();
    } else {
      std::size_t bytes = sizes[std::min<std::size_t>(random() % 9, 4)];
      if (const unsigned r = random() % 64; r == 0)
        bytes = sizes[5];
      else if (r < 8)
        bytes = random() % (4 * mib);
      all.push_back({false, count, bytes});
      alive.push_back(count++);
    }
  }
  return all;
}
// \return the most bytes that were asked for at a time
std::size_t work_off(block_pool& pool, const std::vector<request>& all) {
  static thread_local std::vector<std::pair<std::uintptr_t, std::size_t>> at;
  at.resize(all.size());
  std::size_t now = 0, peak = 0;
  for (const request& r : all)
    if (auto& a = at[r.which]; r.is_free) {
      pool.free(a.first);
      now -= a.second;
    } else {
      a = {pool.allocate(r.bytes), r.bytes};
      if (a.first == 0) return 0;
      peak = std::max(peak, now += r.bytes);
    }
  return peak;
}

TEST_F(block_pool_test, little_is_lost_between_tiles) {
  double worst = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    block_pool pool(source);
    const std::size_t peak = work_off(pool, sequence(seed, 20000, 3000));
    ASSERT_GT(peak, 1000 * mib);
    const double share = static_cast<double>(pool.bytes_reserved()) / static_cast<double>(peak);
    EXPECT_LE(share, 1.5) << seed;
    worst = std::max(worst, share);
  }
  std::printf("reserved / peak of use: at most %.3f\n", worst);
}

TEST_F(block_pool_test, who_repeats_asks_neither_the_source_nor_the_heap_again) {
  int late = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    block_pool pool(source);
    const auto all = sequence(seed, 5000, 400);
    ASSERT_NE(work_off(pool, all), 0u);
    // The slabs are all there then, but not in the order in which they came the first time: blocks
    // may lie otherwise.
    int calls = source.calls;
    ASSERT_NE(work_off(pool, all), 0u);
    late += source.calls != calls ? 1 : 0;
    calls = source.calls;
    const long before = allocations;
    for (int round = 0; round < 3; ++round) work_off(pool, all);
    EXPECT_EQ(source.calls, calls) << seed;
    EXPECT_EQ(allocations, before) << seed;
  }
  std::printf("%d of 40 sequences asked the source in the second round\n", late);
}

TEST_F(block_pool_test, speed) {
  for (const std::size_t most : {100u, 1000u, 10000u}) {
    block_pool pool(source);
    const auto all = sequence(7, most * 10, most);
    work_off(pool, all);
    const auto begin = std::chrono::steady_clock::now();
    const int rounds = static_cast<int>(200000 / all.size()) + 1;
    for (int i = 0; i < rounds; ++i) work_off(pool, all);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    std::printf("up to %zu blocks: %.0f ns an operation\n", most,
                took.count() / rounds / static_cast<double>(all.size()));
  }
}

using block_pool_death = block_pool_test;
TEST_F(block_pool_death, wrong_addresses_end_the_process) {
  block_pool pool(source);
  const std::uintptr_t at = pool.allocate(1000), other = pool.allocate(1000);
  EXPECT_DEATH(pool.free(at + 256), "block_pool: 0x.* is not the beginning of a block in use");
  EXPECT_DEATH(pool.free(other + 1024), "not the beginning");
  EXPECT_DEATH(pool.free(0), "not the beginning");
  pool.free(at);
  EXPECT_DEATH(pool.free(at), "freed twice");
  EXPECT_DEATH((void)pool.size_of(at), "not the beginning");
}

TEST(block_pool_slabs, must_be_aligned) {
  struct : slab_source {
    std::uintptr_t get(std::size_t) override { return 4096 + 64; }
    void give_back(std::uintptr_t, std::size_t) noexcept override {}
  } source;
  block_pool pool(source);
  EXPECT_DEATH(pool.allocate(1), "not aligned");
}

} // namespace
} // namespace tern::hetero::detail
