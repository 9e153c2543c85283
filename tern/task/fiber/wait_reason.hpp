// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a fiber waits for, as it notes it for dumps and for the search for deadlocks.
/// Internal to Tern's layers.

#include <atomic>
#include <cstdint>

namespace tern::detail {

struct fiber;

enum class wait_kind : std::uint8_t {
  none,
  mutex,
  shared_mutex,
  condition,
  semaphore,
  latch,
  barrier,
  once,
  channel,
  future,
  join,
  group,
  sleep,
  predicate,
  capacity,
  collective,
  quiescence,
  other
};

const char* name_of(wait_kind k) noexcept; ///< "mutex"

struct wait_reason {
  wait_kind kind = wait_kind::other;
  const void* object = nullptr;
  /// Where the context that alone can end this wait can be read (a mutex's owner), if there is one:
  /// a cycle of them is a deadlock. May point into `object`, which lives as long as any context
  /// waits for it. 0 there: none.
  const std::atomic<std::uintptr_t>* owner = nullptr;
};

/// Notes that `f` is about to wait.
/// \param since in `ticks`.
void announce_wait(fiber& f, const wait_reason& why, std::int64_t since) noexcept;

} // namespace tern::detail
