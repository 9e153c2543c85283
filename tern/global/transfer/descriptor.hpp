// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a message says of an object that travels. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/base/archive.hpp>
#include <tern/base/language/hash.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/global/codec.hpp>

namespace tern::global::detail {

/// Where an object's elements are.
enum class form : std::uint8_t {
  none,    ///< it is a handle to no object
  inside,  ///< behind the descriptor
  body,    ///< they are the message's body
  follows, ///< at the origin, until they are asked for
  stored   ///< behind the descriptor, as are all of what is kept (archive_purpose::storage)
};

/// What follows, if anything does.
enum class coding : std::uint8_t {
  none,   ///< the elements
  maybe,  ///< pieces of elements, or frames (codec/frame.hpp) of fewer bytes
  always, ///< frames
  blocks  ///< what kernels make of floats at a rate (coding/device_codec.hpp), with checksums
};

/// Stands in the archive; behind it `room` bytes, which hold the elements if they are `inside`.
/// Both passes of packing reserve them for small objects, before it is known whether they are used.
struct descriptor {
  /// At its origin, if the elements follow; else their checksum, if that is verified; else 0.
  std::uint64_t number = 0;
  std::uint64_t element = 0; ///< a hash of the element's type, its size, and the dimensions
  std::array<std::int32_t, 3> extent{0, 0, 0};
  std::int32_t origin = -1; ///< the rank that has them; -1: they are stored
  form how = form::none;
  coding coded = coding::none;
  std::uint8_t kind = 0; ///< of the device that has elements that follow, as far as is known
  std::uint8_t rate = 0; ///< of blocks; else 0
  std::uint32_t room = 0;

  std::uint64_t count() const noexcept {
    return static_cast<std::uint64_t>(extent[0]) * static_cast<std::uint64_t>(extent[1]) *
           static_cast<std::uint64_t>(extent[2]);
  }
};
static_assert(sizeof(descriptor) == 40);

/// An object's elements for an error.
struct element_type {
  std::uint64_t hash;
  std::size_t bytes;
  std::string_view name;
  int dimensions;
  element_kind kind = element_kind::other;
};
template <class T, int N> element_type element_of() {
  constexpr std::string_view name = tern::detail::type_name<T>();
  constexpr std::uint64_t hash = tern::detail::hash_of(name) * 31 + sizeof(T) * 4 + static_cast<std::uint64_t>(N);
  return {hash, sizeof(T), name, N, kind_of_element<T>()};
}

/// The array that a descriptor tells of.
inline array_shape shape_in(const std::array<std::int32_t, 3>& extent, const element_type& of) noexcept {
  return {.extent = extent, .element = static_cast<std::uint32_t>(of.bytes), .kind = of.kind};
}

/// Reads and checks one. \param ranks of the job. \param sums are verified. \throws
/// error(invalid_data).
descriptor read_descriptor(input_archive& ar, const element_type& wanted, int ranks, bool sums = false);

} // namespace tern::global::detail

namespace tern {
template <> inline constexpr bool is_bitwise<global::detail::descriptor> = true;
} // namespace tern
