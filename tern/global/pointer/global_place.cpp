// SPDX-License-Identifier: Apache-2.0
#include <tern/global/pointer/global_place.hpp>

#include <limits>

#include <tern/base/error.hpp>

namespace tern::global::detail {

std::uint64_t global_place::check_of(const element_type& of) noexcept {
  return (of.hash ^ of.hash >> 8 ^ of.hash >> 24 ^ of.hash >> 40) & ((1u << check_bits) - 1);
}

global_place global_place::make(int rank, std::uint32_t slot, std::uint32_t generation, const element_type& of,
                                const hetero::detail::box& part) noexcept {
  global_place p;
  p.key = ((static_cast<std::uint64_t>(rank) << slot_bits | slot) << generation_bits | generation) << check_bits |
          check_of(of);
  p.low = part.low;
  for (std::size_t d = 0; d < 3; ++d) p.extent[d] = static_cast<std::int32_t>(part.extent(d));
  return p;
}

hetero::detail::box global_place::part() const noexcept {
  hetero::detail::box b;
  b.low = low;
  for (std::size_t d = 0; d < 3; ++d) b.high[d] = low[d] + extent[d];
  return b;
}

bool global_place::sound() const noexcept {
  for (std::size_t d = 0; d < 3; ++d)
    if (low[d] < 0 || extent[d] < 1 || extent[d] > std::numeric_limits<std::int32_t>::max() - low[d]) return false;
  return true;
}

void global_place::narrow(int d, std::int64_t first, std::int64_t last, const element_type& of) {
  const auto i = static_cast<std::size_t>(d);
  if (first < 0 || first >= last || last > extent[i])
    throw error(errc::invalid_argument,
                "there is no part [" + std::to_string(first) + ", " + std::to_string(last) + ") in dimension " +
                    std::to_string(d - 3 + of.dimensions) + " of a " + text(of),
                "a part has at least one element and lies in [0, " + std::to_string(extent[i]) + ")");
  low[i] += static_cast<std::int32_t>(first);
  extent[i] = static_cast<std::int32_t>(last - first);
}

std::size_t global_place::hash() const noexcept {
  std::uint64_t h = key;
  for (std::size_t d = 0; d < 3; ++d)
    h = (h ^ (static_cast<std::uint64_t>(static_cast<std::uint32_t>(low[d])) << 32 |
              static_cast<std::uint32_t>(extent[d]))) *
        0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(h ^ h >> 32);
}

std::string shape_text(const std::array<std::int32_t, 3>& extent, int dimensions) {
  std::string s;
  for (int d = 3 - dimensions; d < 3; ++d)
    s += (s.empty() ? "" : " x ") + std::to_string(extent[static_cast<std::size_t>(d)]);
  return s;
}

std::string typed_text(const char* kind, const element_type& of) {
  std::string s = kind;
  s += '<';
  s += of.name;
  if (of.dimensions > 1) s += ", " + std::to_string(of.dimensions);
  return s + '>';
}

std::string global_place::text(const element_type& of) const {
  if (!*this) return typed_text("global_ptr", of) + " to nothing";
  return typed_text("global_ptr", of) + " to " + shape_text(extent, of.dimensions) + " of rank " +
         std::to_string(owner());
}

} // namespace tern::global::detail
