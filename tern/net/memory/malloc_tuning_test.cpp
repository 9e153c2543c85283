// SPDX-License-Identifier: Apache-2.0
#include <tern/net/memory/malloc_tuning.hpp>

#include <cstdlib>
#include <cstring>

#include <sys/resource.h>

#include <gtest/gtest.h>

namespace {

long page_faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

// Not under sanitizers, which bring an allocator of their own.
TEST(heap, keeps_large_blocks_that_are_freed) {
  tern::net::keep_memory(tern::options());
  constexpr std::size_t block = std::size_t{4} << 20;
  constexpr int times = 50;
  const auto use = [] {
    void* const volatile p = std::malloc(block); // volatile: it must be allocated, though no code reads it
    ASSERT_NE(p, nullptr);
    std::memset(p, 1, block);
    std::free(p);
  };
  use();
  const long before = page_faults();
  for (int i = 0; i < times; ++i) use();
  EXPECT_LT(page_faults() - before, static_cast<long>(block / 4096)); // else as many each time
}

} // namespace
