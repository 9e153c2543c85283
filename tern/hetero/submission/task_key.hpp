// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which key a task gets from where it is submitted, and what counts it. Internal.

#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// The task gets the key of the calling fiber's innermost scope (affinity.hpp), if there is one. By
/// its submitter.
void set_key_of_scope(task_record& t) noexcept;

/// The task is counted until it has completed: by the account of the frame that the calling fiber
/// submits it in (frame_kind::account), by what counts the task that submits it, or by the fiber's
/// causal context `here`. Hidden tasks, by that alone. By its submitter.
void count_in_context(task_record& t, tern::detail::causal_context* here);

} // namespace tern::hetero::detail
