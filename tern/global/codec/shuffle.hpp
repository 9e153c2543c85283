// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bytes of elements, sorted by their place in the element. Internal.

#include <cstddef>
#include <span>

namespace tern::global::detail {

/// First the first byte of each element, then the second of each: those are more alike than
/// neighbours are. Any thread. \pre `from` is a whole number of elements, and `to` has as many
/// bytes elsewhere.
void shuffle_bytes(std::size_t element, std::span<const std::byte> from, std::span<std::byte> to) noexcept;
/// The reverse.
void unshuffle_bytes(std::size_t element, std::span<const std::byte> from, std::span<std::byte> to) noexcept;

} // namespace tern::global::detail
