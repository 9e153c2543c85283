// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For reports: locks whose holder may have crashed. Internal.

#include <chrono>
#include <mutex>
#include <thread>

namespace tern::net {

/// \return not locked if that takes longer than `limit`: the thread that holds it may have crashed,
/// or stand still for ever.
template <class Lock>
std::unique_lock<Lock> try_for_a_while(Lock& lock, std::chrono::milliseconds limit = std::chrono::milliseconds(200)) {
  std::unique_lock<Lock> hold(lock, std::try_to_lock);
  for (const auto until = std::chrono::steady_clock::now() + limit;
       !hold && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    static_cast<void>(hold.try_lock());
  }
  return hold;
}

} // namespace tern::net
