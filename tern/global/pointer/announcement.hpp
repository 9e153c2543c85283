// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank says of an operation to the owner of its target. Internal.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tern/base/archive.hpp>
#include <tern/global/pointer/global_place.hpp>

namespace tern::global::detail {

enum class operation_kind : std::uint32_t { put = 1, get = 2, accumulate = 3, accumulate_in_order = 4, fetch = 5 };

/// The message. It travels among those of the application, so that no other overtakes it.
struct announcement {
  std::uint64_t operation = 0; ///< at the initiator: to be answered with it
  std::uint64_t element = 0;   ///< a hash of the elements' type
  global_place place;          ///< the target; the source of a get
  std::uint64_t data = 0;      ///< at the initiator: to be requested; 0 for a get
  std::uint64_t landing = 0;   ///< at the initiator: the number under which data are to come; else 0
  operation_kind kind{};
  std::uint32_t how = 0; ///< an `accumulation`

  bool brings_data() const noexcept { return kind != operation_kind::get; }
  bool fetches_data() const noexcept { return kind == operation_kind::get || kind == operation_kind::fetch; }
};
static_assert(sizeof(announcement) == 72);

/// Reads and checks one. \throws error(invalid_data).
announcement read_announcement(std::span<const std::byte> bytes, int source, int owner);

} // namespace tern::global::detail

namespace tern {
template <> inline constexpr bool is_bitwise<global::detail::announcement> = true;
} // namespace tern
