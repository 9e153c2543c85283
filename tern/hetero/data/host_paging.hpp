// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The host's copies of objects where its memory is limited: in memory, or on disk. Internal.
///
/// Instance 0 then is a block that comes and goes as a whole. That it is valid (bit 0 of
/// `fragment::valid`) says that the host has it, in memory or on disk. What uses it counts in
/// `instance::users` from the beginning, and either holds it, when it is in memory, or is parked:
/// the block need not come, or may go once more, until all that the user needs is in memory.

#include <cstddef>
#include <cstdint>
#include <exception>

#include <tern/task/store/stored.hpp>

namespace tern::hetero::detail {

struct object_state;
struct task_record;
struct transfer;

/// Under the object's lock.
struct host_block {
  enum place : std::uint8_t {
    absent,  ///< not in memory; on disk if it has a copy there, else nothing of it is valid
    here,    ///< in memory
    saving,  ///< in memory, and just being written to disk
    loading, ///< just being read
  };
  place at = absent;
  bool has_copy = false;     ///< `copy` is what is in memory, or would be
  int parked = 0;            ///< users that wait and do not hold it
  int open = 0;              ///< users that hold it for as long as the program likes
  tern::detail::stored copy; ///< its place on disk
  std::exception_ptr failed; ///< why it did not come the last time

  bool is_held(int users) const noexcept { return users > parked; }
};

/// Keeps the host's copies of objects within a limit. Implemented by `host_pager`. Any thread.
class host_paging {
public:
  virtual ~host_paging() = default;
  host_paging() = default;
  host_paging(const host_paging&) = delete;
  host_paging& operator=(const host_paging&) = delete;

  /// Under the object's lock: the block in memory is about to change, and no copy is right.
  virtual void changes(object_state& o) noexcept = 0;
  /// May what needs only blocks in memory go on, though others wait? Not too often.
  virtual bool may_pass() noexcept = 0;
  /// What it uses is parked. When all is in memory it holds that, and `coherence::admitted` is
  /// called; also if that fails, and then the task is marked so.
  virtual void arrive(task_record* t) noexcept = 0;
  /// The same for a transfer, which then goes to its device; or ends with a failure.
  virtual void arrive(transfer* x) noexcept = 0;
  /// Waits until the object's block is in memory, and holds it until `let_go`. May suspend the
  /// calling fiber; where it must not, memory is taken beyond the limit. \throws what reading it
  /// failed with, error(out_of_memory).
  virtual std::byte* hold(object_state& o) = 0;
  virtual void let_go(object_state& o) noexcept = 0;
  /// Under the object's lock: it ends.
  virtual void forget(object_state& o) noexcept = 0;
  /// Something is held no more.
  virtual void look_again() noexcept = 0;
};

} // namespace tern::hetero::detail
