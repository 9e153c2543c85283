// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Reductions: tasks that add to an object, in any order of execution. Internal.

#include <mutex>

#include <tern/hetero/data/object_state.hpp>
#include <tern/task/sync.hpp>

namespace tern::hetero::detail {

class runtime;
struct reducer;

/// Turns tasks that reduce into ordinary tasks on ordinary objects. Task number i of a reduction
/// uses part i mod p, read and write. So parts are independent of each other, and the order of
/// additions within each, and of the parts, depends on the order of submission alone: results are
/// the same in each run, in the last bits as well.
///
/// Threads: any, in a fiber: `settle` and `end` may wait for each other.
class reductions {
public:
  explicit reductions(runtime& home) noexcept : home_(home) {}
  /// A task is about to be submitted. Its uses that reduce get a part to add to; reductions of what
  /// it uses otherwise are ended first. \return locked if there are such: until the task has its
  /// place in the order.
  std::unique_lock<mutex> settle(task_record* t);
  /// Adds the parts of a reduction to the object.
  void end(object_state& o);

private:
  void end_now(object_state& o);
  object_state* part_of(object_state& o, const box& part, const reducer& how);
  runtime& home_;
  mutex lock_;
};

} // namespace tern::hetero::detail
