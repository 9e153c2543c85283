// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a device's worker tells reports. Internal.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

/// How much a device has to do, and, once nothing has ended there for a while, a snapshot of all
/// that only its worker may look at. Threads: `note` by the worker, the others by any.
class worker_report {
public:
  /// What the device has to do now.
  struct load {
    std::size_t kernels = 0, copies = 0, waiting = 0;
  };
  /// After each round. \param did something has gone on in it. \param poll_delay how long the
  /// worker sleeps next, in nanoseconds. \param snapshot makes the text.
  void note(bool did, const load& now, std::int64_t poll_delay, const std::function<std::string()>& snapshot) noexcept;
  int at_work() const noexcept {
    return kernels_.load(std::memory_order_relaxed) + copies_.load(std::memory_order_relaxed);
  }
  /// Lines; empty if the device has nothing to do. \param limit to wait for a lock.
  std::string describe(const std::string& id, const tern::detail::scheduler_core& core,
                       std::chrono::milliseconds limit);

private:
  static constexpr std::int64_t goes_on = -1;
  // Relaxed: for people.
  std::atomic<int> kernels_{0}, copies_{0}, waiting_{0};
  std::atomic<std::int64_t> still_since_{goes_on}; // ticks
  int still_rounds_ = 0;                           // in which nothing has gone on, as far as they are counted
  tern::detail::spin_lock lock_;
  std::string snapshot_;
};

} // namespace tern::hetero::detail
