// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A kernel of the dialect as one of OpenCL's that is several at a time. Internal.

#include <optional>
#include <string>
#include <string_view>

namespace tern::hetero::detail {

/// The text of a block in which one kernel takes the arguments of `tasks` launches, those of the
/// first one first, and is called as `fused_name` says. Planes of groups in z are the launches; the
/// kernel's body chooses its arguments by them, and finds the names that it has alone. OpenCL's
/// memory has no addresses that a table could hold, so all arguments are parameters.
///
/// Comes behind `prelude(language::opencl_fused)`. The lines stay those of the block.
///
/// \pre tasks > 0. \return nothing if the text does not say what the kernel's parameters are
/// called: macros make the kernel or some parameter, or it is there twice.
std::optional<std::string> fused_text(std::string_view block, std::string_view kernel, int tasks);

} // namespace tern::hetero::detail
