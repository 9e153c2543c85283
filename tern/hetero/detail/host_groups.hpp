// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Groups of a kernel on the host. Internal.

#include <array>
#include <cstdint>

#include <tern/hetero/dialect.hpp>

namespace tern::hetero::detail {

/// How many groups, and how many items each has, in x, y, z.
struct grid_shape {
  std::array<int, 3> groups{1, 1, 1}, items{1, 1, 1};
  std::int64_t count() const noexcept { return std::int64_t{groups[0]} * groups[1] * groups[2]; }
};

/// The group of this number, x running fastest.
inline dialect::group_context group_at(const grid_shape& s, std::int64_t number, char* dynamic) noexcept {
  const auto x = static_cast<int>(number % s.groups[0]);
  const std::int64_t row = number / s.groups[0];
  return {x,
          static_cast<int>(row % s.groups[1]),
          static_cast<int>(row / s.groups[1]),
          s.items[0],
          s.items[1],
          s.items[2],
          s.items[0] * s.items[1] * s.items[2],
          s.groups[0],
          s.groups[1],
          s.groups[2],
          dynamic};
}

/// Runs the groups from `first` up to `last` one after the other, in the calling fiber.
/// \param dynamic the kernel's dynamic memory, aligned to 64 bytes; the groups share it.
/// \pre the shape has the kernel's fixed size, if it has one.
template <class Group, class... Params>
void run_groups(const kernel<Group, Params...>& k, const grid_shape& s, std::int64_t first, std::int64_t last,
                char* dynamic, Params... params) {
  for (std::int64_t n = first; n < last; ++n) k.body(Group(group_at(s, n, dynamic)), params...);
}

} // namespace tern::hetero::detail
