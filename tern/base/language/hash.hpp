// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A hash of text that is the same on all ranks, whatever compiler and library built them. Not
/// against attacks.

#include <tern/base/language/compiler.hpp>

#include <cstdint>
#include <string_view>

namespace tern::detail {

/// FNV-1a (Fowler, Noll, Vo), 64 bits; `before` may be the hash of what stands in front.
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t before = 14695981039346656037ull) noexcept {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return before;
}

} // namespace tern::detail
