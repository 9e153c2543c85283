// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Groups of a kernel on the host. Internal.

#include <cstddef>
#include <cstdint>
#include <utility>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

/// The group of this number, x running fastest.
inline dialect::group_context group_at(const grid& s, std::int64_t number, char* dynamic) noexcept {
  int x = 0, y = 0, z = 0;
  if (number != 0) { // the only one of a small task: two divisions would take as long as it does
    x = static_cast<int>(number % s.groups[0]);
    const std::int64_t row = number / s.groups[0];
    y = static_cast<int>(row % s.groups[1]);
    z = static_cast<int>(row / s.groups[1]);
  }
  return {
      x,           y,           z,           s.items[0], s.items[1], s.items[2], s.items[0] * s.items[1] * s.items[2],
      s.groups[0], s.groups[1], s.groups[2], dynamic};
}

/// Runs the groups from `first` up to `last` one after the other, in the calling fiber.
/// \param dynamic the kernel's dynamic memory, aligned to 64 bytes; the groups share it.
/// \pre the shape has the kernel's fixed size, if it has one.
template <class Group, class... Params>
void run_groups(const kernel<Group, Params...>& k, const grid& s, std::int64_t first, std::int64_t last, char* dynamic,
                Params... params) {
  for (std::int64_t n = first; n < last; ++n) k.body(Group(group_at(s, n, dynamic)), params...);
}

template <class Group, class... Params, std::size_t... I>
void run_with(const kernel<Group, Params...>& k, const grid& g, std::int64_t first, std::int64_t last, char* dynamic,
              const void* const* values, std::index_sequence<I...>) {
  run_groups<Group, Params...>(k, g, first, last, dynamic, *static_cast<const Params*>(values[I])...);
}
template <class Group, class... Params>
void run_on_host(const void* k, const grid& g, std::int64_t first, std::int64_t last, char* dynamic,
                 [[maybe_unused]] const void* const* values) {
  run_with(*static_cast<const kernel<Group, Params...>*>(k), g, first, last, dynamic, values,
           std::index_sequence_for<Params...>());
}

} // namespace tern::hetero::detail
