// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The options that say how many objects stay in memory, and where the others go.

#include <string>

#include <tern/base/options.hpp>

namespace tern::mobile {

/// `mobile-memory`, `mobile-directory`, `mobile-disk`.
extern const option<std::string> memory_option, directory_option, disk_option;

} // namespace tern::mobile
