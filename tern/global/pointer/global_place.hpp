// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a global pointer is without its type. Internal.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tern/global/transfer/descriptor.hpp>
#include <tern/hetero/access.hpp>

namespace tern::global::detail {

/// Which export, and which of its elements. All bits 0: names nothing.
///
/// `key`: the rank, the number of the export there, how often that number was used before, and some
/// bits of a hash of the elements' type: what is damaged, or is of something else, is mostly found
/// out by the call. The owner checks all.
struct global_place {
  static constexpr unsigned rank_bits = 20, slot_bits = 18, generation_bits = 18, check_bits = 8;
  static constexpr std::uint32_t most_slots = (1u << slot_bits) - 1, generations = 1u << generation_bits;

  std::uint64_t key = 0;
  std::array<std::int32_t, 3> low{0, 0, 0}, extent{0, 0, 0};

  static global_place make(int rank, std::uint32_t slot, std::uint32_t generation, const element_type& of,
                           const hetero::detail::box& part) noexcept;
  int owner() const noexcept { return static_cast<int>(key >> (slot_bits + generation_bits + check_bits)); }
  std::uint32_t slot() const noexcept {
    return static_cast<std::uint32_t>(key >> (generation_bits + check_bits)) & most_slots;
  }
  std::uint32_t generation() const noexcept {
    return static_cast<std::uint32_t>(key >> check_bits) & (generations - 1);
  }
  bool fits(const element_type& of) const noexcept { return (key & ((1u << check_bits) - 1)) == check_of(of); }
  std::int64_t count() const noexcept { return std::int64_t{extent[0]} * extent[1] * extent[2]; }
  /// Its elements in the object. \pre `sound`
  hetero::detail::box part() const noexcept;
  /// No element lies before the first, and none beyond what an object may have.
  bool sound() const noexcept;
  /// In dimension `d` of three. \throws error(invalid_argument).
  void narrow(int d, std::int64_t first, std::int64_t last, const element_type& of);
  explicit operator bool() const noexcept { return key != 0; }
  std::size_t hash() const noexcept;
  std::string text(const element_type& of) const;

  friend bool operator==(const global_place&, const global_place&) = default;
  friend auto operator<=>(const global_place&, const global_place&) = default;

private:
  static std::uint64_t check_of(const element_type& of) noexcept;
};
static_assert(sizeof(global_place) == 32);

/// "3 x 4"
std::string shape_text(const std::array<std::int32_t, 3>& extent, int dimensions);
/// "hetero_object<double, 2>", with `of`'s dimensions if there are several.
std::string typed_text(const char* kind, const element_type& of);

} // namespace tern::global::detail

namespace tern {
template <> inline constexpr bool is_bitwise<global::detail::global_place> = true;
} // namespace tern
