// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Heads and bodies of many sizes. Their content follows from numbers that both sides know.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <tern/base/bytes.hpp>

namespace tern::test {

inline std::uint64_t mix(std::uint64_t x) { // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// What message `k` from `s` to `d` looks like is a function of these numbers: the receiver knows it
// without a header, so that empty messages are covered too and a message out of order is noticed by
// its content.
inline std::uint64_t seed_of(int s, int d, int k) {
  return mix(mix(static_cast<std::uint64_t>(s) << 40 | static_cast<std::uint64_t>(d) << 20) +
             static_cast<std::uint64_t>(k));
}

/// Each size up to 200, then larger and larger steps to the limit; then random ones.
inline std::size_t head_size(int k, std::uint64_t seed, std::size_t limit) {
  if (k <= 200) return std::min(static_cast<std::size_t>(k), limit);
  if (k <= 300) return limit * static_cast<std::size_t>(k - 200) / 100;
  return mix(seed + 1) % (limit + 1);
}

inline std::size_t body_size(std::uint64_t seed) {
  const auto kind = seed % 100;
  const auto random = mix(seed);
  if (kind < 60) return 0;
  if (kind < 75) return random % 200 + 1;
  if (kind < 90) return random % (32u << 10) + 1;
  if (kind < 99) return random % (256u << 10) + 1;
  // MPI tries all sends that it could not start each time it makes progress: not ten thousands of
  // pieces.
  static const char* const fragment = std::getenv("TERN_MPI_FRAGMENT");
  const bool tiny = fragment && std::strtoul(fragment, nullptr, 10) < 1000;
  return random % (tiny ? 256u << 10 : 4u << 20) + 1;
}

inline void fill(std::byte* at, std::size_t n, std::uint64_t seed) {
  std::uint64_t state = seed | 1;
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(at + i, &state, 8);
  }
  for (; i < n; ++i) at[i] = static_cast<std::byte>(state >> (8 * (i % 8)));
}

inline byte_buffer filled(std::size_t n, std::uint64_t seed) {
  byte_buffer bytes(n);
  fill(bytes.data(), n, seed);
  return bytes;
}

/// A head of `n` bytes that starts with a letter and a number.
inline byte_buffer numbered(char letter, std::uint32_t number, std::size_t n) {
  byte_buffer head = filled(n, mix(number + static_cast<std::uint64_t>(letter) * 1000003));
  head.data()[0] = static_cast<std::byte>(letter);
  std::memcpy(head.data() + 1, &number, sizeof number);
  return head;
}

inline std::uint32_t number_of(const byte_buffer& head) {
  std::uint32_t number = 0;
  if (head.size() >= 1 + sizeof number) std::memcpy(&number, head.data() + 1, sizeof number);
  return number;
}

} // namespace tern::test
