// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where the value of a kernel's parameter comes from. Internal.

#include <cstdint>

namespace tern::hetero::detail {

/// What an `int` of a task says of a view, where the task runs.
enum class asked : std::uint8_t { pitch, slice, layout };

/// Where a parameter's value comes from.
struct source_of {
  enum kind : std::uint8_t { value, object, number } what = value;
  std::uint8_t which = 0; ///< use of the task
  asked of_it = asked::pitch;
};

} // namespace tern::hetero::detail
