// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts of arrays.
#include <tern/mobile/layout/array_box.hpp>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {

array_box array_box::part(const array_layout& of, const std::array<std::int64_t, 3>& from,
                          const std::array<std::int64_t, 3>& to, const std::array<std::int64_t, 3>& by) const {
  array_box b;
  for (std::size_t d = 0; d < static_cast<std::size_t>(of.plan().dimensions); ++d) {
    if (by[d] < 1 || from[d] < 0 || from[d] >= to[d] || to[d] > count(d))
      throw error(errc::invalid_argument,
                  "a section of " + of.title() + " (" + of.plan().type + ") goes from " + std::to_string(from[d]) +
                      " to before " + std::to_string(to[d]) + " by " + std::to_string(by[d]) + " in dimension " +
                      std::to_string(d) + ", where there are " + std::to_string(count(d)) + " elements",
                  "a section has at least one element, and lies in what it is taken from");
    b.step[d] = step[d] * by[d];
    b.low[d] = low[d] + from[d] * step[d];
    b.high[d] = b.low[d] + (to[d] - from[d] - 1) / by[d] * b.step[d] + 1;
  }
  return b;
}

void array_box::check(const array_layout& of) const {
  for (std::size_t d = 0; d < 3; ++d)
    if (step[d] < 1 || low[d] < 0 || low[d] >= high[d] || high[d] > of.plan().size[d])
      throw error(errc::invalid_data, "a message names a section that " + of.title() + " does not have");
}

} // namespace tern::mobile::detail
