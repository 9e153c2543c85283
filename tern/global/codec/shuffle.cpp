// SPDX-License-Identifier: Apache-2.0
#include <tern/global/codec/shuffle.hpp>

#include <algorithm>
#include <cstring>

namespace tern::global::detail {
namespace {

// A few elements at a time: what is read and written then stays in the first cache. An element of a
// known size lets the compiler use vectors.
constexpr std::size_t at_once = 1024;

template <std::size_t Element> void shuffle_fixed(const std::byte* from, std::byte* to, std::size_t n) noexcept {
  for (std::size_t first = 0; first < n; first += at_once) {
    const std::size_t last = std::min(n, first + at_once);
    for (std::size_t b = 0; b < Element; ++b)
      for (std::size_t i = first; i < last; ++i) to[b * n + i] = from[i * Element + b];
  }
}
template <std::size_t Element> void unshuffle_fixed(const std::byte* from, std::byte* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t b = 0; b < Element; ++b) to[i * Element + b] = from[b * n + i];
}

} // namespace

void shuffle_bytes(std::size_t element, std::span<const std::byte> from, std::span<std::byte> to) noexcept {
  const std::size_t n = from.size() / element;
  switch (element) {
  case 1:
    return static_cast<void>(std::memcpy(to.data(), from.data(), from.size()));
  case 4:
    return shuffle_fixed<4>(from.data(), to.data(), n);
  case 8:
    return shuffle_fixed<8>(from.data(), to.data(), n);
  default:
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t b = 0; b < element; ++b) to[b * n + i] = from[i * element + b];
  }
}

void unshuffle_bytes(std::size_t element, std::span<const std::byte> from, std::span<std::byte> to) noexcept {
  const std::size_t n = from.size() / element;
  switch (element) {
  case 1:
    return static_cast<void>(std::memcpy(to.data(), from.data(), from.size()));
  case 4:
    return unshuffle_fixed<4>(from.data(), to.data(), n);
  case 8:
    return unshuffle_fixed<8>(from.data(), to.data(), n);
  default:
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t b = 0; b < element; ++b) to[i * element + b] = from[b * n + i];
  }
}

} // namespace tern::global::detail
