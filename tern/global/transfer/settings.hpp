// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Options of transfers, and what they mean. Internal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tern/base/options.hpp>

namespace tern::global::detail {

extern const option<std::string> landing_option; ///< `--tern-global-landing`
extern const option<int> ahead_option;           ///< `--tern-global-ahead`
extern const option<bool> verify_option;         ///< `--tern-global-verify`

struct settings {
  explicit settings(const options& opts);
  std::size_t inside;    ///< bytes that travel within a message, at most
  std::uint64_t landing; ///< bytes that have been asked for and have not landed, at most
  std::size_t ahead;     ///< transfers that have not left, beyond which a send is slowed
  bool verify;
};

/// Pieces of a transfer of so many bytes: large enough that each costs little beside its bytes, and
/// so many that copying out, the wire and copying in overlap.
std::size_t piece_bytes(std::size_t bytes) noexcept;
inline constexpr std::size_t slots_of_transfer = 4, slots_of_rank = 16;

/// XXH3, 64 bits; never 0.
std::uint64_t checksum(std::span<const std::byte> bytes) noexcept;

} // namespace tern::global::detail
