// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the process does with memory that it frees. Internal; docs/decisions/0024 says why.

#include <tern/base/options.hpp>

namespace tern::net {

/// For the whole process, before a job starts.
void keep_memory(const options& opts);

} // namespace tern::net
