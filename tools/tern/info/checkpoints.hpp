// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `tern info FOLDER`: what is in a folder of checkpoints.

#include <string>

namespace tern::tool {

/// Prints what is in it. \return the exit code: 1 if a checkpoint in it is damaged. \throws
/// error(not_found) if it is no folder of checkpoints.
int describe_checkpoints(const std::string& folder, bool as_json);

} // namespace tern::tool
