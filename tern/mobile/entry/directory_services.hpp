// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the lower rooms ask of the directory, away from the fast paths. Internal.

#include <cstdint>
#include <memory>

namespace tern::mobile {
struct entry;
struct invocation;
} // namespace tern::mobile

namespace tern::mobile::detail {

struct deferred_actions;

/// One for each rank: the directory. Threads: any worker of the rank, and where messages arrive.
class directory_services {
public:
  /// Not under a lock.
  virtual void perform(deferred_actions& then) = 0;
  /// A message that cannot run at once. \param runs_here its deliverer counts it as done.
  virtual void arrive_late(std::unique_ptr<invocation> one, bool runs_here) = 0;
  /// Destroys the object. The caller is its last invocation and has exclusive access. \param reply
  /// to rank `origin`.
  virtual void end_object(entry& e, int origin, std::uint64_t reply) = 0;
  /// Objects take another amount of memory. \param room one may have become idle. Not under a lock.
  virtual void memory_changed(bool room) = 0;

protected:
  ~directory_services() = default;
};

} // namespace tern::mobile::detail
