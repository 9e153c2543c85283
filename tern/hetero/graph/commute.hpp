// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that commute lock their objects. Internal.

#include <tern/hetero/record/task_record.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

/// Locks of objects for tasks that commute: a task that has nothing left to follow gets those of
/// all its objects at once, or waits in the list of an object that another task has. Any thread.
class commute_locks {
public:
  /// \return false: it waits, and comes out of `unlock` of the task that has what it needs.
  bool lock(task_record* t);
  /// \return tasks that have got all their locks, linked by `next`.
  [[nodiscard]] task_record* unlock(task_record* t) noexcept;

private:
  bool take(task_record* t) noexcept;
  tern::detail::spin_lock lock_; // of object_state::commuter and the lists
};

} // namespace tern::hetero::detail
