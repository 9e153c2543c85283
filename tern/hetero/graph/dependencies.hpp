// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a task has to follow. Internal.

#include <cstdint>

#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/record/record_pool.hpp>

namespace tern::hetero::detail {

/// What a list of successors begins with, as links are put there.
inline link* first_link(std::uintptr_t list) noexcept {
  // address: the list's head, as it was put there
  return reinterpret_cast<link*>(list & ~watched_list);
}

/// Edges between tasks: those that a program asks for, and those that follow from the objects that
/// tasks use. For each fragment of what it uses, a task follows the last writers, and the readers
/// since if it writes. Any thread.
class dependencies {
public:
  explicit dependencies(record_pool& records) noexcept : records_(records) {}

  /// Adds an edge to a task that has not been submitted. \return false if `before` is done already.
  bool follow(task_record* t, task_record* before, std::uintptr_t kind);
  /// \return false if it is done already: the hook will not fire.
  static bool hook(task_record* t, completion_hook& h) noexcept;
  /// Gives the task its place in the order of its objects, under the locks of all of them, so that
  /// of two tasks one comes before the other for all objects.
  /// \return tasks that stand for all that others follow, linked by `next`; the caller submits
  /// them.
  [[nodiscard]] task_record* enter(task_record* t);
  /// The usual case of `enter`, in which no task is followed: the task writes all of one object,
  /// what wrote it last has ended without failure, and no task has read it since.
  /// \return false: it is no such case, and nothing has been done. \param before the task that had
  /// written it last, with the reference that the object had to it; null: the object knew none.
  [[nodiscard]] static bool take_over(task_record* t, task_record*& before) noexcept;
  /// The object that the task has written forgets it: later tasks need not follow it.
  /// \pre the task has run, and has not failed. \return false: it is not all that the object knows.
  /// Else the reference that the object had to it is the caller's.
  [[nodiscard]] static bool leave(task_record* t) noexcept;

private:
  void order(task_record* t, access_mode how, fragment& f, task_record*& gates);
  void depend(task_record* t, use& u, task_record*& gates);
  record_pool& records_;
};

} // namespace tern::hetero::detail
