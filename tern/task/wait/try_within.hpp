// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Locking with a limit in real time, for reports.

#include <mutex>
#include <thread>

#include <tern/base/language/durations.hpp>

namespace tern::detail {

/// \return not locked if that takes longer than `limit`: the holder may have crashed, or be stuck.
template <class Lock> std::unique_lock<Lock> try_within(Lock& lock, std::chrono::milliseconds limit) {
  std::unique_lock<Lock> hold(lock, std::try_to_lock);
  for (const auto until = std::chrono::steady_clock::now() + limit;
       !hold && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    static_cast<void>(hold.try_lock());
  }
  return hold;
}

} // namespace tern::detail
