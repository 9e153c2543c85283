// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// An array as it travels when a codec has encoded it. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  std::uint32_t chunk = 0, chunks = 1;     ///< which of how many chunks of a larger array it is
};
/// Which part of a larger array a frame has.
struct chunk_place {
  std::uint32_t chunk = 0, chunks = 1;
  friend bool operator==(const chunk_place&, const chunk_place&) = default;
};
static_assert(sizeof(frame_header) == 96 && std::is_trivially_copyable_v<frame_header>);
inline constexpr std::size_t frame_prefix = sizeof(frame_header);

/// \return a frame of the array. \pre the codec takes it. Any thread; takes as long as the codec.
byte_buffer encode_frame(const codec& c, const array_shape& s, std::span<const std::byte> elements,
                         chunk_place at = {});
/// The same of bytes that the codec, or a kernel in its place, has encoded elsewhere: they stand
/// behind `frame_prefix` bytes, which are filled.
void finish_frame(const codec& c, const array_shape& s, std::span<std::byte> frame, chunk_place at = {});

/// Gives the array back. Trusts nothing: first the checksum is compared, then the shape, the place,
/// and the codec's name. \param to all of `wanted`. \return the codec. \throws error(invalid_data).
std::shared_ptr<const codec> decode_frame(std::span<const std::byte> frame, const array_shape& wanted,
                                          std::span<std::byte> to, chunk_place at = {});
/// Where a frame belongs by what it says, if its checksum is right and it can be so.
std::optional<chunk_place> place_of_frame(std::span<const std::byte> frame) noexcept;

} // namespace tern::global::detail
