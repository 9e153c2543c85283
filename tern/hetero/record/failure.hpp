// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a task fails. Internal.

#include <exception>

#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// Marks the task as failed with `why`, unless it has failed already. Any thread.
void fail(task_record* t, std::exception_ptr why) noexcept;
/// Fails `t`, which needs what `from` was to write. \pre `from` has failed.
void inherit_failure(task_record& t, const task_record& from) noexcept;
/// Returns when the reason of a failure can be read: a few instructions after the mark `failed`.
void wait_until_failure_set(const task_record& t) noexcept;

} // namespace tern::hetero::detail
