// SPDX-License-Identifier: Apache-2.0
#include <tern/net/memory/memory_pool.hpp>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::net {
namespace {

TEST(memory_pool, gives_every_size_aligned_and_disjoint) {
  memory_pool pool;
  std::vector<byte_buffer> all;
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{4097},
                           std::size_t{5120}, std::size_t{5121}, std::size_t{8191}, std::size_t{8192},
                           std::size_t{8193}, std::size_t{100'000}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1}) {
    all.push_back(pool.take(size));
    EXPECT_EQ(all.back().size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back().data()) % 64, 0u);
    std::memset(all.back().data(), static_cast<int>(all.size()), size); // the address sanitizer looks at the ends
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const std::byte b : all[i].bytes()) ASSERT_EQ(b, static_cast<std::byte>(i + 1));
}

TEST(memory_pool, uses_again_what_came_back_and_keeps_no_more_than_it_may) {
  memory_pool pool(1 << 20);
  std::byte* first = nullptr;
  {
    const byte_buffer b = pool.take(300'000);
    first = const_cast<std::byte*>(b.data());
  }
  EXPECT_EQ(pool.kept(), 320u << 10);
  EXPECT_EQ(pool.take(290'000).data(), first); // of the same size class
  {
    std::vector<byte_buffer> many;
    for (int i = 0; i < 10; ++i) many.push_back(pool.take(300'000));
  }
  EXPECT_EQ(pool.kept(), 3 * (320u << 10));
  EXPECT_THROW(pool.take(~std::size_t{0} / 2), error);
}

TEST(memory_pool, buffers_may_outlive_it_and_go_to_other_threads) {
  std::vector<byte_buffer> late;
  {
    memory_pool pool;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        std::vector<byte_buffer> mine;
        for (int i = 0; i < 2000; ++i) {
          mine.push_back(pool.take(static_cast<std::size_t>(i) * 37 % 20'000));
          if (mine.size() > 7) mine.erase(mine.begin());
        }
      });
    for (auto& t : threads) t.join();
    for (int i = 0; i < 5; ++i) late.push_back(pool.take(10'000));
  }
  for (auto& b : late) std::memset(b.data(), 1, b.size());
}

} // namespace
} // namespace tern::net
