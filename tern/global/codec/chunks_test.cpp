// SPDX-License-Identifier: Apache-2.0
#include <tern/global/codec/chunks.hpp>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tern::global::detail {
namespace {

std::vector<array_shape> chunked_shapes() {
  return {shape_of<float, 1>({1}),        shape_of<float, 1>({4}),        shape_of<float, 1>({1001}),
          shape_of<float, 2>({9, 100}),   shape_of<float, 2>({5, 33}),    shape_of<float, 2>({1, 77}),
          shape_of<float, 2>({77, 1}),    shape_of<float, 3>({13, 6, 7}), shape_of<float, 3>({1, 21, 10}),
          shape_of<float, 3>({17, 1, 9}), shape_of<float, 3>({33, 4, 1}), shape_of<float, 3>({3, 40, 2})};
}

TEST(chunks, are_all_of_the_array) {
  for (const array_shape& s : chunked_shapes())
    for (const std::size_t bytes : {1u, 16u, 100u, 1000u, 1000000u}) {
      const array_chunks cut(s, bytes);
      std::size_t all = 0;
      for (std::size_t i = 0; i < cut.count(); ++i) {
        EXPECT_EQ(cut.offset(i), all) << s.text();
        all += cut.shape(i).bytes();
        EXPECT_TRUE(i + 1 == cut.count() || cut.shape(i).bytes() == cut.each());
      }
      EXPECT_EQ(all, s.bytes()) << s.text();
    }
}

TEST(chunks, are_about_as_large_as_asked_for) {
  EXPECT_EQ(array_chunks(shape_of<float, 1>({1 << 20}), 1 << 18).count(), 16u);
  EXPECT_EQ(array_chunks(shape_of<float, 1>({1 << 20}), (1 << 18) + 15).each(), std::size_t{1} << 18);
  EXPECT_EQ(array_chunks(shape_of<float, 2>({100, 1000}), 1).shape(3).extent[1], 4); // four rows at least
  EXPECT_EQ(array_chunks(shape_of<float, 2>({9, 100}), 1).count(), 1u);              // no row is left alone
  EXPECT_EQ(array_chunks(shape_of<float, 2>({13, 100}), 1).shape(1).extent[1], 5);
  EXPECT_EQ(array_chunks(shape_of<float, 2>({14, 100}), 1).shape(3).extent[1], 2);
}

#ifdef TERN_HAS_ZFP
// What arrives does not depend on the size of chunks.
TEST(chunks, by_zfp_are_what_the_whole_array_is) {
  const auto through = [](const codec& c, const array_shape& s, std::span<const std::byte> from,
                          std::span<std::byte> to) {
    std::vector<std::byte> bytes(c.bound(s));
    const std::size_t made = c.encode(s, from, bytes);
    c.decode(s, std::span(bytes).first(made), to);
  };
  for (const array_shape& s : chunked_shapes())
    for (const char* const text : {"zfp:rate=3", "zfp:rate=8", "zfp:rate=17.5", "zfp:accuracy=0.01", "zfp:reversible"})
      for (const std::size_t bytes : {1u, 100u, 500u, 2000u}) {
        const auto c = make_codec(text);
        std::vector<float> x(s.count());
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = std::sin(0.1f * static_cast<float>(i)) * static_cast<float>(i % 7 + 1);
        std::vector<std::byte> whole(s.bytes()), parts(s.bytes());
        const std::span<const std::byte> from = std::as_bytes(std::span(x));
        through(*c, s, from, whole);
        const array_chunks cut(s, bytes);
        for (std::size_t i = 0; i < cut.count(); ++i) {
          const array_shape one = cut.shape(i);
          through(*c, one, from.subspan(cut.offset(i), one.bytes()),
                  std::span(parts).subspan(cut.offset(i), one.bytes()));
        }
        EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size()), 0)
            << text << " of " << s.text() << " in chunks of " << bytes;
      }
}
#endif

} // namespace
} // namespace tern::global::detail
