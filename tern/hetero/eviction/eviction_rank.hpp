// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The order in which instances leave a device's memory. Internal.

#include <compare>
#include <cstdint>
#include <optional>

#include <tern/hetero/eviction/upcoming_uses.hpp>

namespace tern::hetero::detail {

/// The smaller goes first: what is never used again and need not be saved; what is never used
/// again; what has been saved to go, so that this was not for nothing; what is used again, the
/// latest first; then that of which the future is not known, the longest unused first. What tasks
/// of one key use (affinity.hpp) goes together, as late as the last of it would.
struct eviction_rank {
  enum kind : std::uint8_t { idle_clean, idle, leaving, used_later, unknown };
  kind what = unknown;
  std::uint64_t first = 0, second = 0; ///< within its kind
  friend auto operator<=>(const eviction_rank&, const eviction_rank&) = default;

  static eviction_rank of_idle(bool clean, std::uint64_t last_used) noexcept {
    return {clean ? idle_clean : idle, last_used, 0};
  }
  static eviction_rank of_next(const use_order& next, bool leaves = false) noexcept {
    return {leaves ? leaving : used_later, ~next.turn, ~next.within};
  }
  static eviction_rank of_unknown(std::uint64_t last_used) noexcept { return {unknown, last_used, 0}; }
};

} // namespace tern::hetero::detail
