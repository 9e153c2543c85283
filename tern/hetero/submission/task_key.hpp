// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which key a task gets from where it is submitted. Internal.

#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// The task gets the key of the calling fiber's innermost scope (affinity.hpp), if there is one. By
/// its submitter.
void set_key_of_scope(task_record& t) noexcept;

} // namespace tern::hetero::detail
