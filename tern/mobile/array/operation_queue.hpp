// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The order in which a rank does what is to be done with its elements of one array. Internal.

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include <tern/base/unique_function.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

/// Operations on an array come numbered by the rank that sends them, and may overtake each other on
/// their way down the tree of ranks. The queue takes those of one sender in in order, and runs all
/// one after the other: so what is sent to an element from here is sent in the order of the
/// numbers, and nothing is sent to an element behind its end.
///
/// One that comes early waits without a fiber: the message that it waits for is under way, which
/// counts for quiescence, and it keeps its own epoch open. An operation runs in the fiber that
/// brings it or in one that brought an earlier one. It may wait for space in the network; it does
/// not wait for elements. Thread-safe.
class operation_queue {
public:
  using operation = unique_function<void()>;
  /// Nothing runs before `open`.
  operation_queue() = default;
  operation_queue(const operation_queue&) = delete;
  operation_queue& operator=(const operation_queue&) = delete;

  /// Runs those that have come since, in the calling fiber.
  void open();
  /// The one of that number, from 0, of what rank `sender` sends. In a fiber. `what` does not
  /// throw.
  void enter(int sender, std::uint64_t number, tern::detail::held_context on, operation what);
  /// One without a number.
  void enter(tern::detail::held_context on, operation what);
  /// Drops what waits, and what comes from now on. An operation that is running goes on.
  void close() noexcept;
  /// Takes operations in again, from number 0 on. \pre none is running
  void reopen() noexcept;
  /// For reports: what waits for a number, or empty. Without the lock: empty.
  std::string describe();

private:
  struct item {
    operation what;
    tern::detail::held_context on;
  };
  struct sender_state {
    std::uint64_t next = 0;
    std::map<std::uint64_t, item> early;
  };
  void run();

  tern::detail::spin_lock lock_; // a few instructions at a time
  std::map<int, sender_state> senders_;
  std::deque<item> ready_;
  bool running_ = true; // a fiber runs what is ready; or it is not open
  bool closed_ = false;
};

} // namespace tern::mobile::detail
