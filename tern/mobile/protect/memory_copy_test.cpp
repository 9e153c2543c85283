// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/protect/memory_copy.hpp>

#include <string>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace {

using tern::mobile::detail::memory_copy;
using tern::mobile::detail::piece_writer;
using tern::mobile::detail::saved_tables;

std::vector<std::byte> filled(std::size_t n, int with) {
  return std::vector<std::byte>(n, static_cast<std::byte>(with));
}

// Packs objects of these sizes, and puts their pieces in another order than they came.
struct packed {
  explicit packed(const std::vector<std::size_t>& sizes) {
    std::vector<std::tuple<std::uint32_t, bool, memory_copy::piece>> pieces;
    piece_writer to([&](std::uint32_t i, bool tables, memory_copy::piece p) { pieces.emplace_back(i, tables, p); });
    for (std::size_t i = 0; i < sizes.size(); ++i) offsets.push_back(to.add(filled(sizes[i], static_cast<int>(i + 1))));
    saved_tables t;
    t.arrays_made = 17;
    const tern::byte_buffer bytes = tern::pack(t);
    to.finish({bytes.data(), bytes.size()});
    for (auto at = pieces.rbegin(); at != pieces.rend(); ++at)
      copy.put(std::get<0>(*at), std::get<1>(*at), std::get<2>(*at));
  }
  memory_copy copy{3, 9};
  std::vector<std::uint64_t> offsets;
};

TEST(memory_copy, has_the_objects_that_were_added) {
  const std::vector<std::size_t> sizes{10, 0, std::size_t{3} << 20, 7, (std::size_t{1} << 20) - 5, 100};
  const packed p(sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<std::byte> got(sizes[i]);
    p.copy.read(p.offsets[i], got);
    EXPECT_EQ(got, filled(sizes[i], static_cast<int>(i + 1))) << i;
  }
  EXPECT_EQ(p.copy.tables().arrays_made, 17U);
}

TEST(memory_copy, is_read_across_pieces) {
  const packed p({std::size_t{1} << 20, std::size_t{1} << 20});
  std::vector<std::byte> got(std::size_t{2} << 20);
  p.copy.read(0, got);
  EXPECT_EQ(got.front(), std::byte{1});
  EXPECT_EQ(got.back(), std::byte{2});
}

TEST(memory_copy, of_no_objects_has_its_tables) {
  const packed p({});
  EXPECT_EQ(p.copy.tables().arrays_made, 17U);
  EXPECT_EQ(p.copy.bytes(), 0U);
}

TEST(memory_copy, says_which_one_has_not_so_many_bytes) {
  const packed p({10});
  std::vector<std::byte> got(11);
  try {
    p.copy.read(0, got);
    FAIL() << "it was read";
  } catch (const tern::error& e) {
    EXPECT_EQ(e.message(), "copy 9 of rank 3 has no 11 bytes at offset 0");
  }
}

TEST(memory_copy, without_all_pieces_is_none) {
  const memory_copy c(1, 2);
  EXPECT_THROW(static_cast<void>(c.tables()), tern::error);
}

} // namespace
