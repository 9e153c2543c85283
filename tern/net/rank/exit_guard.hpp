// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What happens to a job when one of its ranks calls `exit`. Internal.

namespace tern::net {

class node;

namespace detail {

/// While there is one, the rank has not ended: if its process calls `exit`, from whatever thread or
/// fiber, that ends all ranks, with one message and the code, or 1 if that were success. Without it
/// the others would wait for ever, or a launcher say that MPI had not been finalized; and
/// destructors of static objects would run under the workers' feet.
class exit_guard {
public:
  explicit exit_guard(node& here) noexcept;
  ~exit_guard();
  exit_guard(const exit_guard&) = delete;
  exit_guard& operator=(const exit_guard&) = delete;

  /// The job is being ended: what that needs `exit` for is fine.
  static void disarm() noexcept;

private:
  static void at_exit(int code, void*);
  node& here_;
  exit_guard *older_ = nullptr, *newer_ = nullptr;
  struct list;
};

} // namespace detail
} // namespace tern::net
