// SPDX-License-Identifier: Apache-2.0
#include <tern/base/bytes.hpp>

#include <cstdlib>
#include <numeric>
#include <string>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using tern::byte_buffer;
using testing::HasSubstr;

byte_buffer of(const std::string& text) {
  byte_buffer b;
  b.append(text.data(), text.size());
  return b;
}
std::string text(const byte_buffer& b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

TEST(bytes, empty_owns_nothing) {
  byte_buffer b;
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.data(), nullptr);
  EXPECT_EQ(b.begin(), b.end());
  EXPECT_EQ(b.release(), nullptr);
  EXPECT_TRUE(byte_buffer(0).empty());
  EXPECT_TRUE(b.copy().empty());
}

TEST(bytes, is_move_only) {
  static_assert(!std::is_copy_constructible_v<byte_buffer> && !std::is_copy_assignable_v<byte_buffer>);
  static_assert(std::is_nothrow_move_constructible_v<byte_buffer> && std::is_nothrow_move_assignable_v<byte_buffer>);
  byte_buffer a = of("abc"), b(std::move(a));
  EXPECT_EQ(text(b), "abc");
  EXPECT_TRUE(a.empty()); // NOLINT: the moved-from state is promised
  a = std::move(b);
  EXPECT_EQ(text(a), "abc");
  byte_buffer& self = a;
  a = std::move(self);
  EXPECT_EQ(text(a), "abc");
}

TEST(bytes, ownership_crosses_c) {
  auto* memory = static_cast<char*>(std::malloc(3));
  memory[0] = 'x', memory[1] = 'y', memory[2] = 'z';
  byte_buffer b = byte_buffer::adopt(memory, 3);
  EXPECT_EQ(text(b), "xyz");
  b.append("!", 1);
  EXPECT_EQ(text(b), "xyz!");
  void* released = b.release();
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.capacity(), 0u);
  std::free(released);
  EXPECT_TRUE(byte_buffer::adopt(nullptr, 0).empty());
}

TEST(bytes, append_grows_geometrically) {
  byte_buffer b;
  std::size_t changes = 0, last = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto value = static_cast<unsigned char>(i);
    b.append(&value, 1);
    if (b.capacity() != last) last = b.capacity(), ++changes;
  }
  EXPECT_EQ(b.size(), 100000u);
  EXPECT_LE(changes, 20u);
  for (int i = 0; i < 100000; i += 997) EXPECT_EQ(b[static_cast<std::size_t>(i)], static_cast<std::byte>(i));
  b.append(nullptr, 0);
  EXPECT_EQ(b.size(), 100000u);
}

TEST(bytes, resize_reserve_clear_keep_content) {
  byte_buffer b = of("abcdef");
  b.reserve(1000);
  EXPECT_GE(b.capacity(), 1000u);
  EXPECT_EQ(text(b), "abcdef");
  b.resize(3);
  EXPECT_EQ(text(b), "abc");
  b.resize(4000);
  b.resize(3);
  EXPECT_EQ(text(b), "abc");
  const auto capacity = b.capacity();
  b.clear();
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.capacity(), capacity);
}

TEST(bytes, copies_compares_converts) {
  byte_buffer a = of("abc");
  const byte_buffer b = a.copy();
  EXPECT_EQ(a, b);
  EXPECT_NE(a.data(), b.data());
  std::span<std::byte> writable = a;
  writable[0] = std::byte{'x'};
  EXPECT_FALSE(a == b);
  const std::span<const std::byte> readable = b;
  EXPECT_EQ(readable.size(), 3u);
  EXPECT_EQ(byte_buffer::copy_of(readable), b);
  EXPECT_EQ(std::accumulate(b.begin(), b.end(), 0, [](int sum, std::byte x) { return sum + std::to_integer<int>(x); }),
            'a' + 'b' + 'c');
}

TEST(bytes, impossible_size_is_an_error_that_changes_nothing) {
  const std::size_t impossible = static_cast<std::size_t>(-1) - 100;
  byte_buffer b = of("abc");
  const auto expect_refused = [](auto&& what) {
    try {
      what();
      FAIL() << "not refused";
    } catch (const tern::error& e) {
      EXPECT_EQ(e.code(), tern::errc::out_of_memory);
      EXPECT_THAT(e.what(), HasSubstr("cannot allocate a buffer of 18446744073709551515 bytes"));
    }
  };
  expect_refused([&] { byte_buffer big(impossible); });
  expect_refused([&] { b.reserve(impossible); });
  EXPECT_THROW(b.resize(impossible), tern::error);
  EXPECT_EQ(text(b), "abc");
}

} // namespace
