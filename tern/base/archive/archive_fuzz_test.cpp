// SPDX-License-Identifier: Apache-2.0
// A value of everything that archives handle, cut off, damaged and forged: it is refused, or gives
// some value.
#include "archive_refusals.hpp"

#include <cstring>
#include <random>

namespace hostile_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(hostile, truncated_at_every_length) {
  const auto bytes = sample();
  unpack_sample(bytes);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    // An exact copy on the heap, so that the address sanitizer sees a byte too many.
    const auto cut = tern::byte_buffer::copy_of(bytes.bytes().first(n));
    EXPECT_THAT(refusal([&] { unpack_sample(cut); }),
                AllOf(HasSubstr(" at offset "), HasSubstr("wanted"), HasSubstr("available")))
        << n;
  }
}

TEST(hostile, every_byte_flipped) {
  const auto bytes = sample();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
      auto damaged = bytes.copy();
      damaged[i] ^= static_cast<std::byte>(mask);
      try {
        unpack_sample(damaged);
      } catch (const tern::error& e) {
        ASSERT_EQ(e.code(), tern::errc::invalid_data);
      }
    }
}

TEST(hostile, lengths_replaced) {
  const auto bytes = sample();
  std::size_t refusals = 0;
  for (std::size_t i = 0; i + 8 <= bytes.size(); ++i)
    for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
      auto damaged = bytes.copy();
      std::memcpy(damaged.data() + i, &length, 8);
      try {
        unpack_sample(damaged);
      } catch (const tern::error& e) {
        ASSERT_EQ(e.code(), tern::errc::invalid_data);
        ++refusals;
      }
    }
  EXPECT_GT(refusals, bytes.size());
}

TEST(hostile, fuzz) {
  const auto bytes = sample();
  for (unsigned seed = 0; seed < 20000; ++seed) {
    std::minstd_rand random(seed + 1);
    tern::byte_buffer forged;
    if (seed % 2 == 0) { // damage
      forged = bytes.copy();
      for (unsigned n = 1 + static_cast<unsigned>(random()) % 8; n > 0; --n)
        forged[random() % forged.size()] = static_cast<std::byte>(random());
      if (seed % 4 == 0) forged.resize(random() % forged.size());
    } else { // noise, mostly small numbers so that it gets far
      forged.resize(random() % 400);
      for (auto& each : forged) each = random() % 3 ? std::byte{} : static_cast<std::byte>(random() % 5);
    }
    const auto exact = tern::byte_buffer::copy_of(forged);
    try {
      unpack_sample(exact);
    } catch (const tern::error& e) {
      ASSERT_EQ(e.code(), tern::errc::invalid_data) << "seed " << seed << ": " << e.what();
    }
  }
}

} // namespace
} // namespace hostile_test
