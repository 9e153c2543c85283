// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data on their way into a new object. Internal; for layers above.

#include <exception>

#include <tern/base/bytes.hpp>
#include <tern/hetero/access.hpp>

namespace tern::hetero::detail {

/// Writes all of a new object from outside of tasks: the object is *arriving*.
///
/// It is a hidden task that has no body. Tasks and accesses that come later wait for it, and so
/// does `wait_all`. It ends by `land` or `fail`; the destructor fails it if neither came. The
/// object may lose all its handles before: then what lands goes with it.
///
/// Threads: made in a fiber of the object's scheduler, the rest in any context, one at a time.
class incoming {
public:
  /// \pre `fresh` has never been used.
  explicit incoming(object_state& fresh);
  ~incoming();
  incoming(const incoming&) = delete;
  incoming& operator=(const incoming&) = delete;

  /// The object's memory on the host from now on, with all of its elements, packed. They are valid,
  /// and what waits goes on. The object owns the buffer. \pre as many bytes as the object, in
  /// memory that may be written to.
  void land(byte_buffer memory) noexcept;
  /// They will not come. Tasks that need them fail with `why`.
  void fail(std::exception_ptr why) noexcept;

private:
  task_record* held_;
};

/// Gives a new object its elements at once. \pre as `incoming::land`, and `fresh` was never used.
void land_at_once(object_state& fresh, byte_buffer memory) noexcept;

} // namespace tern::hetero::detail
