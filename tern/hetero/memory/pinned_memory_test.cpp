// SPDX-License-Identifier: Apache-2.0
// Host memory for drivers to page-lock: what is locked when and by which driver, and what the
// memory is if that fails.
#include <tern/hetero/memory/pinned_memory.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <tern/task/fiber/sanitizer.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t kib = 1024, mib = kib * 1024;

// A driver that locks nothing, and knows what it should have locked.
struct mock_locker {
  locker how() { return {&mock_locker::lock, &mock_locker::unlock, this}; }

  static bool lock(void* who, void* at, std::size_t bytes) noexcept {
    auto& self = *static_cast<mock_locker*>(who);
    std::this_thread::sleep_for(self.takes);
    const std::lock_guard hold(self.mutex);
    ++self.calls;
    if (self.refuses) return false;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % (2 * mib), 0u);
    EXPECT_TRUE(self.locked.emplace(static_cast<std::byte*>(at), bytes).second) << "locked twice";
    return true;
  }
  static void unlock(void* who, void* at) noexcept {
    auto& self = *static_cast<mock_locker*>(who);
    const std::lock_guard hold(self.mutex);
    EXPECT_EQ(self.locked.erase(static_cast<std::byte*>(at)), 1u) << "not locked";
    // Still mapped, or the driver could not unlock it.
    unsigned char in_core = 0;
    EXPECT_EQ(::mincore(at, 4096, &in_core), 0);
  }
  std::size_t bytes() {
    const std::lock_guard hold(mutex);
    std::size_t sum = 0;
    for (const auto& [at, size] : locked) sum += size;
    return sum;
  }

  std::mutex mutex;
  std::map<std::byte*, std::size_t> locked;
  int calls = 0;
  std::atomic<bool> refuses = false;
  std::chrono::microseconds takes{0};
};

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

bool is_mapped(void* page) {
  unsigned char in_core = 0;
  return ::mincore(page, 4096, &in_core) == 0;
}

TEST(locked_memory, hands_out_memory_that_can_be_written) {
  pinned_memory memory(256 * mib);
  std::vector<std::pair<std::byte*, std::size_t>> all;
  for (const std::size_t bytes : {0 * kib, 1 * kib, 100 * kib, 16 * kib, 16 * kib - 1, 5 * mib, 100 * mib, 64 * kib}) {
    std::byte* const p = memory.allocate(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(address(p) % (bytes >= 16 * kib ? 4096 : 64), 0u) << bytes;
    if (bytes != 0) std::memset(p, static_cast<int>(all.size() + 1), bytes);
    EXPECT_TRUE(memory.holds(p));
    EXPECT_TRUE(memory.holds(p + bytes / 2));
    EXPECT_FALSE(memory.is_locked(p));
    all.emplace_back(p, bytes);
  }
  for (std::size_t i = 1; i < all.size(); ++i)
    for (const std::size_t at : {std::size_t{0}, all[i].second / 2, all[i].second - 1})
      EXPECT_EQ(all[i].first[at], static_cast<std::byte>(i + 1)) << "of block " << i;
  EXPECT_GE(memory.bytes_used(), 105 * mib);
  EXPECT_GE(memory.bytes_reserved(), memory.bytes_used());
  EXPECT_EQ(memory.bytes_locked(), 0u);
  for (const auto& [p, bytes] : all) memory.free(p);
  memory.free(nullptr);
  EXPECT_EQ(memory.bytes_used(), 0u);
  const int of_the_stack = 0;
  EXPECT_FALSE(memory.holds(&of_the_stack));
  EXPECT_FALSE(memory.is_locked(&of_the_stack));
  EXPECT_FALSE(memory.holds(nullptr));
}

TEST(locked_memory, is_locked_once_somebody_asks_for_it) {
  mock_locker driver;
  pinned_memory memory(256 * mib);
  std::byte* const before = memory.allocate(1 * mib);
  std::byte* const small = memory.allocate(100);
  ASSERT_TRUE(before && small);
  EXPECT_FALSE(memory.is_locked(before));
  EXPECT_TRUE(memory.lock_with(driver.how()));
  EXPECT_TRUE(memory.is_locked(before));
  EXPECT_TRUE(memory.is_locked(small));
  EXPECT_EQ(driver.calls, 2);

  std::byte* const after = memory.allocate(20 * mib);
  EXPECT_TRUE(memory.is_locked(after));
  EXPECT_TRUE(memory.is_locked(after + 20 * mib - 1));
  EXPECT_EQ(driver.calls, 3);
  EXPECT_EQ(memory.bytes_locked(), memory.bytes_reserved());
  EXPECT_EQ(driver.bytes(), memory.bytes_reserved());
  EXPECT_TRUE(memory.lock_with(driver.how())) << "it is that already";
  EXPECT_EQ(driver.calls, 3);

  // Used again: not locked again.
  memory.free(after);
  EXPECT_EQ(memory.allocate(20 * mib), after);
  EXPECT_EQ(driver.calls, 3);

  EXPECT_TRUE(memory.stop_locking(&driver));
  EXPECT_FALSE(memory.is_locked(after));
  EXPECT_TRUE(memory.holds(after));
  EXPECT_TRUE(driver.locked.empty());
  EXPECT_FALSE(memory.stop_locking(&driver));
  ASSERT_NE(memory.allocate(40 * mib), nullptr);
  EXPECT_EQ(driver.calls, 3);
  std::memset(after, 1, 20 * mib);
}

TEST(locked_memory, the_first_who_asks_locks) {
  mock_locker first, second;
  pinned_memory memory(64 * mib);
  ASSERT_NE(memory.allocate(1 * mib), nullptr);
  EXPECT_FALSE(memory.stop_locking(&first)) << "nobody does yet";
  EXPECT_TRUE(memory.lock_with(first.how()));
  EXPECT_FALSE(memory.lock_with(second.how()));
  EXPECT_EQ(second.calls, 0);
  EXPECT_FALSE(memory.stop_locking(&second));
  EXPECT_EQ(first.bytes(), memory.bytes_reserved());
  EXPECT_TRUE(memory.stop_locking(&first));
  EXPECT_TRUE(memory.lock_with(second.how())) << "the place is free again";
  EXPECT_EQ(second.bytes(), memory.bytes_reserved());
}

TEST(locked_memory, what_cannot_be_locked_is_ordinary_memory) {
  mock_locker driver;
  driver.refuses = true;
  pinned_memory memory(256 * mib);
  std::byte* const before = memory.allocate(1 * mib);
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(memory.bytes_not_locked(), 0u) << "nobody has tried";
  EXPECT_TRUE(memory.lock_with(driver.how()));
  std::byte* const after = memory.allocate(20 * mib);
  ASSERT_NE(after, nullptr);
  std::memset(after, 1, 20 * mib);
  EXPECT_FALSE(memory.is_locked(before));
  EXPECT_FALSE(memory.is_locked(after));
  EXPECT_EQ(memory.bytes_locked(), 0u);
  EXPECT_EQ(memory.bytes_not_locked(), memory.bytes_reserved());

  driver.refuses = false;
  std::byte* const last = memory.allocate(40 * mib);
  EXPECT_TRUE(memory.is_locked(last));
  EXPECT_FALSE(memory.is_locked(after)) << "not tried again";
  EXPECT_EQ(memory.bytes_locked(), 40 * mib);
  EXPECT_EQ(memory.bytes_locked() + memory.bytes_not_locked(), memory.bytes_reserved());
  memory.free(after);
  memory.free(last);
  memory.trim();
  EXPECT_EQ(driver.bytes(), 0u) << "only what it has locked was unlocked";
  EXPECT_TRUE(memory.stop_locking(&driver));
  EXPECT_EQ(memory.bytes_not_locked(), 0u);
}

TEST(locked_memory, keeps_to_its_budget) {
  pinned_memory none(0), tiny(1 * mib);
  EXPECT_EQ(none.allocate(1), nullptr);
  EXPECT_EQ(tiny.allocate(1), nullptr) << "no slab is that small";

  mock_locker driver;
  pinned_memory memory(32 * mib);
  memory.lock_with(driver.how());
  EXPECT_EQ(memory.allocate(33 * mib), nullptr);
  EXPECT_EQ(memory.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(memory.bytes_reserved(), 0u);
  std::vector<std::byte*> all;
  while (std::byte* const p = memory.allocate(3 * mib)) all.push_back(p);
  EXPECT_GE(all.size(), 8u);
  EXPECT_LE(memory.bytes_reserved(), 32 * mib);
  const std::size_t reserved = memory.bytes_reserved();
  memory.free(all.back());
  EXPECT_EQ(memory.allocate(30 * mib), nullptr);
  EXPECT_EQ(memory.bytes_reserved(), reserved) << "nothing is unlocked in vain";
  all.pop_back();

  // What is idle among the large blocks makes room for small ones, and the other way round.
  for (std::byte* const p : all) memory.free(p);
  all.clear();
  while (std::byte* const p = memory.allocate(10 * kib)) all.push_back(p);
  EXPECT_GE(all.size() * 10 * kib, 30 * mib);
  EXPECT_LE(memory.bytes_reserved(), 32 * mib);
  for (std::byte* const p : all) memory.free(p);
  std::byte* const one = memory.allocate(32 * mib);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(memory.bytes_reserved(), 32 * mib);
  EXPECT_EQ(driver.bytes(), 32 * mib);
}

TEST(locked_memory, what_the_system_has_not_is_not_there) {
  pinned_memory memory(SIZE_MAX);
  EXPECT_EQ(memory.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(memory.allocate(SIZE_MAX - mib), nullptr);
  EXPECT_EQ(memory.allocate(std::size_t{1} << 60), nullptr) << "more than addresses";
  EXPECT_EQ(memory.bytes_reserved(), 0u);
  EXPECT_NE(memory.allocate(1 * mib), nullptr);
}

TEST(locked_memory, trim_gives_pages_back_to_the_system) {
  mock_locker driver;
  pinned_memory memory(256 * mib);
  memory.lock_with(driver.how());
  std::byte* const kept = memory.allocate(1 * mib);
  std::byte* const p = memory.allocate(100 * mib);
  ASSERT_TRUE(kept && p);
  std::memset(p, 1, 100 * mib);
  memory.free(p);
  EXPECT_TRUE(is_mapped(p)) << "kept for the next";
  memory.trim();
  EXPECT_FALSE(is_mapped(p));
  EXPECT_FALSE(is_mapped(p + 100 * mib - 4096));
  EXPECT_TRUE(is_mapped(kept));
  EXPECT_FALSE(memory.holds(p));
  EXPECT_FALSE(memory.is_locked(p));
  EXPECT_TRUE(memory.is_locked(kept));
  EXPECT_EQ(driver.bytes(), memory.bytes_reserved());
}

TEST(locked_memory, its_end_unlocks_and_unmaps_all) {
  mock_locker driver;
  std::byte* p = nullptr;
  {
    pinned_memory memory(64 * mib);
    memory.lock_with(driver.how());
    p = memory.allocate(1 * mib);
    ASSERT_NE(memory.allocate(10), nullptr);
    EXPECT_EQ(driver.locked.size(), 2u);
  }
  EXPECT_TRUE(driver.locked.empty());
  EXPECT_FALSE(is_mapped(p));
}

TEST(locked_memory, threads) {
  mock_locker driver;
  driver.takes = std::chrono::microseconds(200);
  pinned_memory memory(96 * mib);
  std::atomic<bool> over = false;
  std::atomic<int> refused = 0;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<std::byte*, std::size_t>> mine;
    for (int i = 0; i < 3000; ++i)
      if (mine.size() < 40 && random() % 2 == 0) {
        const std::size_t bytes = random() % 8 == 0 ? random() % (4 * mib) : random() % (64 * kib);
        std::byte* const p = memory.allocate(bytes);
        if (!p) {
          ++refused;
          continue;
        }
        if (bytes != 0) p[0] = p[bytes - 1] = static_cast<std::byte>(seed);
        mine.emplace_back(p, bytes);
      } else if (!mine.empty()) {
        std::swap(mine[random() % mine.size()], mine.back());
        const auto [p, bytes] = mine.back();
        EXPECT_TRUE(memory.holds(p));
        memory.is_locked(p);
        if (bytes != 0) {
          EXPECT_EQ(p[0], static_cast<std::byte>(seed));
          EXPECT_EQ(p[bytes - 1], static_cast<std::byte>(seed));
        }
        memory.free(p);
        mine.pop_back();
      }
    for (const auto& [p, bytes] : mine) memory.free(p);
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i <= 4; ++i) threads.emplace_back(work, i);
    std::jthread other([&] {
      for (bool fails = false; !over; fails = !fails) {
        driver.refuses = fails;
        EXPECT_TRUE(memory.lock_with(driver.how()));
        memory.trim();
        EXPECT_LE(memory.bytes_locked() + memory.bytes_not_locked(), 96 * mib);
        EXPECT_TRUE(memory.stop_locking(&driver));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    for (auto& t : threads) t.join();
    over = true;
  }
  EXPECT_EQ(memory.bytes_used(), 0u);
  EXPECT_TRUE(driver.locked.empty());
  memory.trim();
  EXPECT_EQ(memory.bytes_reserved(), 0u) << "all blocks became one again; " << refused << " were refused";
}

TEST(locked_memory, look_ups_do_not_wait_until_a_slab_is_locked) {
  struct slow_driver {
    static bool lock(void* who, void*, std::size_t) noexcept {
      auto& self = *static_cast<slow_driver*>(who);
      self.busy = true;
      self.busy.notify_all();
      self.go_on.wait(false); // for ever, if the look-ups waited for this
      return true;
    }
    static void unlock(void*, void*) noexcept {}
    std::atomic<bool> busy = false, go_on = false;
  } driver;
  pinned_memory memory(64 * mib);
  std::byte* const p = memory.allocate(1 * mib);
  std::jthread locks([&] { memory.lock_with({&slow_driver::lock, &slow_driver::unlock, &driver}); });
  driver.busy.wait(false);
  EXPECT_TRUE(memory.holds(p));
  EXPECT_FALSE(memory.is_locked(p)) << "not yet";
  driver.go_on = true;
  driver.go_on.notify_all();
  locks.join();
  EXPECT_TRUE(memory.is_locked(p));
}

TEST(locked_memory_death, wrong_addresses_end_the_process) {
  pinned_memory memory(64 * mib);
  std::byte* const p = memory.allocate(1 * mib);
  EXPECT_DEATH(memory.free(p + 4096), "not the beginning of a block in use");
  std::byte other{};
  EXPECT_DEATH(memory.free(&other), "not the beginning of a block in use");
  memory.free(p);
  EXPECT_DEATH(memory.free(p), "freed twice");
}

// Reads without the compiler's knowing of it beforehand.
std::byte read(const std::byte* p) { return *static_cast<const volatile std::byte*>(p); }

TEST(locked_memory_death, the_address_sanitizer_finds_uses_after_free) {
  if (!tern::detail::address_sanitizer) GTEST_SKIP() << "without the address sanitizer";
  pinned_memory memory(64 * mib);
  for (const std::size_t bytes : {std::size_t{100}, 1 * mib + 3}) {
    std::byte* const p = memory.allocate(bytes);
    std::memset(p, 1, bytes);
    EXPECT_DEATH(read(p + bytes), "use-after-poison") << "behind what was asked for";
    memory.free(p);
    EXPECT_DEATH(read(p), "use-after-poison");
    EXPECT_DEATH(read(p + bytes / 2), "use-after-poison");
    ASSERT_EQ(memory.allocate(bytes), p);
    std::memset(p, 2, bytes);
    memory.free(p);
  }
  // No marks are left on what is given back.
  std::byte* const p = memory.allocate(20 * mib);
  memory.free(p);
  memory.trim();
  void* const again =
      ::mmap(p, 20 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (again != p) GTEST_SKIP() << "something else lies there meanwhile";
  std::memset(again, 3, 20 * mib);
  ::munmap(again, 20 * mib);
}

} // namespace
} // namespace tern::hetero::detail
