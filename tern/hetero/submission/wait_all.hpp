// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How many tasks are left, and what waits for that. Internal.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include <tern/hetero/record/record_pool.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

/// Counts the tasks of a runtime, and keeps those that failed until wait_all says so. Any thread.
///
/// Each worker counts for itself. A thread that waits says so, passes a barrier for all threads,
/// then counts; one that completes a task counts, then looks whether a thread waits. One of the two
/// sees the other.
class outstanding_tasks {
public:
  explicit outstanding_tasks(record_pool& records);

  /// \param mine `p` is the calling worker's. \param tasks none of which has been counted as
  /// completed.
  static void count_submitted(worker_part& p, bool mine, std::uint64_t tasks = 1) noexcept {
    if (mine)
      p.submitted.store(p.submitted.load(std::memory_order_relaxed) + tasks, std::memory_order_release);
    else
      p.submitted.fetch_add(tasks, std::memory_order_release);
  }
  /// So many have completed: at least one.
  void count_completed(std::uint64_t tasks = 1) noexcept;
  std::uint64_t count() const noexcept; ///< that are left
  /// Returns when none is left.
  void wait();
  /// What a wait has shown: no task completed; at its end a worker had nothing to do and no task
  /// was ready; or there was enough to do.
  enum class progress : std::uint8_t { none, too_narrow, enough };
  /// Returns when about `left` are left, or after `at_most`.
  progress wait_for_fewer(std::uint64_t left, std::chrono::microseconds at_most);
  /// Keeps a task that has failed, unless the program learns of it otherwise.
  void note_failure(task_record* t) noexcept;
  /// Throws the failure that was noted first, if there is one, and drops all.
  void rethrow_failure();
  /// The scheduler has ended, and with it the fibers that wait.
  void drop_waiters() noexcept;
  /// Drops what has failed. \return how many failures the program has not seen.
  std::size_t drop_failures() noexcept;

private:
  std::uint64_t completed() const noexcept;
  progress progress_now() const noexcept;
  void wake_waiters() noexcept;
  /// Waits until at most so many tasks are left.
  struct waiter {
    std::uint64_t left = 0, id = 0;
    promise<progress> reached;
  };
  /// Where waiters for so many count as watchers.
  std::atomic<int>& watchers_of(std::uint64_t left) noexcept;
  /// \return its number.
  std::uint64_t add(waiter&& w);
  record_pool& records_;
  worker_parts& parts_;
  const bool light_; // a thread that completes a task needs no barrier to be seen by one that waits
  std::atomic<int> watchers_{0};
  // Those that may be told some tasks late, as a look costs as much as a short task.
  std::atomic<int> late_watchers_{0};
  tern::detail::spin_lock waiters_lock_;
  std::vector<waiter> waiters_;
  std::uint64_t last_id_ = 0;
  tern::detail::spin_lock failure_lock_;
  std::vector<task_record*> failed_; // referenced; not those that failed because others did
};

} // namespace tern::hetero::detail
