// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What options of this layer mean. Internal.

#include <cstdint>
#include <optional>
#include <string_view>

namespace tern::hetero::detail {

/// A number of bytes: "4096", "512K", "2G"; with K, M, G or T, of 1024 each. \return nothing: it is no such number.
std::optional<std::uint64_t> bytes_in(std::string_view text) noexcept;

} // namespace tern::hetero::detail
