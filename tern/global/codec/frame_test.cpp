// SPDX-License-Identifier: Apache-2.0
#include <tern/global/codec/frame.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tern::global::detail {
namespace {

using testing::HasSubstr;

constexpr std::size_t n = 500;
const array_shape shape = shape_of<float, 2>({5, 100});

std::vector<float> elements() {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i) / 7;
  return x;
}
std::vector<std::string> lossless_codecs() {
  std::vector<std::string> all{"none"};
#ifdef TERN_HAS_ZSTD
  all.emplace_back("zstd:level=1");
#endif
#ifdef TERN_HAS_ZFP
  all.emplace_back("zfp:reversible");
#endif
  return all;
}
byte_buffer frame_of(const std::string& text) {
  const auto x = elements();
  return encode_frame(*make_codec(text), shape, std::as_bytes(std::span(x)));
}
/// As if the frame had been made so: its checksum is right.
void sign(byte_buffer& frame) {
  const std::uint64_t sum = XXH3_64bits(frame.data() + 8, frame.size() - 8);
  std::memcpy(frame.data(), &sum, sizeof sum);
}
std::string refusal(const byte_buffer& frame, const array_shape& wanted = shape) {
  std::vector<std::byte> to(wanted.bytes() + 8, std::byte{0x55});
  std::string why = "nothing";
  try {
    decode_frame(frame.bytes(), wanted, std::span(to).first(wanted.bytes()));
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_data) << e.what();
    why = e.what();
  }
  for (std::size_t i = wanted.bytes(); i < to.size(); ++i) EXPECT_EQ(to[i], std::byte{0x55});
  return why;
}

TEST(frames, give_their_array_back) {
  for (const std::string& text : lossless_codecs()) {
    const byte_buffer frame = frame_of(text);
    std::vector<float> x(n);
    decode_frame(frame.bytes(), shape, std::as_writable_bytes(std::span(x)));
    EXPECT_EQ(x, elements()) << text;
  }
}

TEST(frames, notice_each_byte_that_differs) {
  for (const std::string& text : lossless_codecs()) {
    const byte_buffer frame = frame_of(text);
    for (std::size_t i = 0; i < frame.size(); i += i < frame_prefix ? 1 : 13) {
      byte_buffer damaged = frame.copy();
      damaged[i] ^= std::byte{0x10};
      EXPECT_THAT(refusal(damaged), HasSubstr("checksum")) << text << ", byte " << i;
    }
  }
}

TEST(frames, of_another_length_are_refused) {
  const byte_buffer frame = frame_of("none");
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, frame_prefix - 1})
    EXPECT_THAT(refusal(byte_buffer::copy_of(frame.bytes().first(size))), HasSubstr("bytes in all"));
  byte_buffer cut = byte_buffer::copy_of(frame.bytes().first(frame.size() - 4));
  EXPECT_THAT(refusal(cut), HasSubstr("checksum"));
  sign(cut);
  EXPECT_THAT(refusal(cut), HasSubstr("says 2000 bytes of itself, and has 1996"));
}

// Fields that are wrong, with a checksum that is right.
TEST(frames, of_other_arrays_are_refused) {
  for (const std::string& text : lossless_codecs()) {
    const byte_buffer frame = frame_of(text);
    EXPECT_THAT(refusal(frame, shape_of<float, 2>({100, 5})), HasSubstr("another shape or type"));
    EXPECT_THAT(refusal(frame, shape_of<int, 2>({5, 100})), HasSubstr("another shape or type"));
    EXPECT_THAT(refusal(frame, shape_of<float, 2>({500, 1000})), HasSubstr("another shape or type"));
    const auto with = [&](auto change) {
      byte_buffer other = frame.copy();
      frame_header h;
      std::memcpy(&h, other.data(), sizeof h);
      change(h);
      std::memcpy(other.data(), &h, sizeof h);
      sign(other);
      return refusal(other);
    };
    EXPECT_THAT(with([](frame_header& h) { h.stored += 1; }), HasSubstr("bytes of itself"));
    EXPECT_THAT(with([](frame_header& h) { h.stored = ~std::uint64_t{0}; }), HasSubstr("bytes of itself"));
    EXPECT_THAT(with([](frame_header& h) { h.extent[1] = -5; }), HasSubstr("another shape"));
    EXPECT_THAT(with([](frame_header& h) { h.element = 8; }), HasSubstr("another shape"));
    EXPECT_THAT(with([](frame_header& h) { h.kind = 77; }), HasSubstr("another shape"));
    EXPECT_THAT(with([](frame_header& h) { h.chunks = 3; }), HasSubstr("is chunk 0 of 3, not 0 of 1"));
    EXPECT_THAT(with([](frame_header& h) { h.chunk = 1; }), HasSubstr("is chunk 1 of 1, not 0 of 1"));
    EXPECT_THAT(with([](frame_header& h) { h.codec.fill('x'); }), HasSubstr("there is no codec"));
    EXPECT_THAT(with([](frame_header& h) { h.codec.back() = 'x'; }), HasSubstr("names its codec wrongly"));
    EXPECT_THAT(with([](frame_header& h) { h.codec = {"zfp:rate=99"}; }), HasSubstr("cannot be decoded"));
  }
}

TEST(frames, know_their_place) {
  const auto x = elements();
  byte_buffer frame = encode_frame(*make_codec("none"), shape, std::as_bytes(std::span(x)), {2, 5});
  EXPECT_EQ(place_of_frame(frame.bytes()), (chunk_place{2, 5}));
  std::vector<float> back(n);
  decode_frame(frame.bytes(), shape, std::as_writable_bytes(std::span(back)), {2, 5});
  EXPECT_EQ(back, x);
  EXPECT_FALSE(place_of_frame(frame.bytes().first(50)));
  frame[40] ^= std::byte{1};
  EXPECT_FALSE(place_of_frame(frame.bytes())); // damaged
  frame_header h;
  std::memcpy(&h, frame.data(), sizeof h);
  h.chunk = h.chunks;
  std::memcpy(frame.data(), &h, sizeof h);
  sign(frame);
  EXPECT_FALSE(place_of_frame(frame.bytes())); // there is no such chunk
}

TEST(frames, whose_codec_does_not_fit_are_refused) {
#if defined(TERN_HAS_ZFP)
  // Integers that say that zfp has encoded them.
  const array_shape ints = shape_of<int, 1>({8});
  std::vector<int> x(8, 3);
  byte_buffer frame = encode_frame(*make_codec("none"), ints, std::as_bytes(std::span(x)));
  frame_header h;
  std::memcpy(&h, frame.data(), sizeof h);
  h.codec = {"zfp:rate=8"};
  std::memcpy(frame.data(), &h, sizeof h);
  sign(frame);
  EXPECT_THAT(refusal(frame, ints), HasSubstr("it is lossy"));
#else
  GTEST_SKIP() << "no libzfp";
#endif
}

} // namespace
} // namespace tern::global::detail
