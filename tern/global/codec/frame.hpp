// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// An array as it travels when a codec has encoded it. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tern/base/bytes.hpp>
#include <tern/global/codec.hpp>

namespace tern::global::detail {

/// Bytes below which nothing is encoded without being told.
inline constexpr std::size_t least_encoded = std::size_t{64} << 10;
inline constexpr std::size_t longest_codec = 55;

/// Stands in front of the encoded bytes.
struct frame_header {
  std::uint64_t checksum = 0; ///< XXH3 of all that follows, encoded bytes too
  std::uint64_t stored = 0;   ///< encoded bytes
  std::array<std::int32_t, 3> extent{1, 1, 1};
  std::uint32_t element = 1;
  std::uint8_t kind = 0;
  std::array<char, longest_codec> codec{}; ///< its text; zeros behind it
  std::uint64_t unused = 0;                ///< 0
};
static_assert(sizeof(frame_header) == 96 && std::is_trivially_copyable_v<frame_header>);
inline constexpr std::size_t frame_prefix = sizeof(frame_header);

/// \return a frame of the array. \pre the codec takes it. Any thread; takes as long as the codec.
byte_buffer encode_frame(const codec& c, const array_shape& s, std::span<const std::byte> elements);
/// The same of bytes that the codec, or a kernel in its place, has encoded elsewhere: they stand
/// behind `frame_prefix` bytes, which are filled.
void finish_frame(const codec& c, const array_shape& s, std::span<std::byte> frame);

/// Gives the array back. Trusts nothing: first the checksum is compared, then the shape, then the
/// codec's name. \param to all of `wanted`. \throws error(invalid_data).
void decode_frame(std::span<const std::byte> frame, const array_shape& wanted, std::span<std::byte> to);

} // namespace tern::global::detail
