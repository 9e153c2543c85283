// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Names of mobile objects.

#include <tern/base/language/compiler.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tern::mobile {

/// 64 bits: the rank where the object was born (24) and a number on that rank (40, from 1). Zero
/// names nothing. A number is never given twice.
struct object_id {
  std::uint64_t bits = 0;
  constexpr object_id() noexcept = default;
  constexpr explicit object_id(std::uint64_t b) noexcept : bits(b) {}
  constexpr object_id(int home, std::uint64_t number) noexcept
      : bits(static_cast<std::uint64_t>(home) << 40 | number) {}
  constexpr int home() const noexcept { return static_cast<int>(bits >> 40); }
  constexpr std::uint64_t number() const noexcept { return bits & ((std::uint64_t{1} << 40) - 1); }
  constexpr explicit operator bool() const noexcept { return bits != 0; }
  constexpr auto operator<=>(const object_id&) const noexcept = default;
};
/// "3:17": born on rank 3 as its 17th object.
std::string to_string(object_id id);

} // namespace tern::mobile

template <> struct std::hash<tern::mobile::object_id> {
  std::size_t operator()(tern::mobile::object_id id) const noexcept {
    return static_cast<std::size_t>(id.bits * 0x9e3779b97f4a7c15ull);
  }
};
