// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks from being ready to being done. Internal.

#include <atomic>
#include <cstdint>

#include <tern/hetero/data/coherence.hpp>
#include <tern/hetero/graph/commute.hpp>
#include <tern/hetero/record/record_pool.hpp>
#include <tern/hetero/schedule/placement.hpp>
#include <tern/hetero/submission/wait_all.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

/// The work of a task that destroys an object.
extern const work_type last_task;

/// Runs tasks on the host, hands the others to their devices, and completes them all. Any thread,
/// unless said.
///
/// A task that only the host can run, on data that only the host has, becomes a tasklet, or is run
/// at once by the worker that has completed its last predecessor. All others are placed by a
/// policy. When a task has ended, what it wrote is valid where it ran, its list of successors is
/// closed and followed, and its failure passed on.
class task_execution final : public host_queue {
public:
  task_execution(record_pool& records, outstanding_tasks& outstanding, coherence& copies, const device_table& devices,
                 task_placement& placement);

  // execution.cpp -----------------------------------------------------------------------------------------------------
  /// Nothing that it waits for is left. \return itself, if the caller is to run it on the host at
  /// once.
  task_record* make_ready(task_record* t, bool may_run_here) noexcept;
  /// One of what it waits for is over.
  void release_dependency(task_record* t) noexcept {
    // acq_rel: what its predecessors wrote is visible to it.
    if (t->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) make_ready(t, false);
  }
  /// It has been submitted, and follows so many.
  void submitted_after(task_record* t, std::int32_t links) noexcept;
  /// From the policy, or (not `placed` any more) because it can run nowhere.
  void arrive(task_record* t) noexcept override;
  /// It is run by a worker as soon as one can.
  void push_to_host(task_record* t) noexcept { push_to_host(t, run_task); }
  /// The same for a tasklet of tasks.
  void push_to_host(tern::detail::tasklet* x, tern::detail::tasklet::run_function run) noexcept;
  /// Runs and completes it; what it makes ready is pushed. \pre it cannot wait.
  void run_here(task_record* t) noexcept {
    run_body(t);
    complete(t, false);
  }
  /// It is ready: runs it now, if all that it uses is here; else as `make_ready`. For one that
  /// waits for its release. \pre it cannot wait.
  void begin_here(task_record* t) noexcept;
  /// The task that the calling fiber runs the function of; null: it runs none.
  static const task_record* task_here() noexcept;

  // completion.cpp ----------------------------------------------------------------------------------------------------
  /// It has run, or is not going to. In the context that found out. \return a successor that the
  /// caller is to run here.
  task_record* complete(task_record* t, bool may_run_here) noexcept;
  /// The same, but it is not counted as completed: the caller does that, soon. \pre it is on no
  /// account (`task_record::on_account`).
  task_record* complete_uncounted(task_record* t, bool may_run_here) noexcept;
  /// A task has run that writes one object: the object forgets it, unless it has failed or others
  /// follow it. \return nothing knows the task any more, and its record is the caller's. Else it is
  /// to be completed. \pre it has none of `own_ways`.
  [[nodiscard]] static bool forget(task_record* t) noexcept;
  /// Flags of tasks of which more is known than what they use and what they run.
  static constexpr std::uint16_t own_ways = task_record::placed | task_record::acquired | task_record::commutes |
                                            task_record::hidden | task_record::handled | task_record::on_account |
                                            task_record::waits_release;
  /// A task that has failed is not going to be submitted.
  void give_up(task_record* t) noexcept;
  /// \return false if it has begun, or is done.
  static bool cancel(task_record* t) noexcept;
  /// Completes a task that waits for its release by the user.
  void release_access(task_record* t) noexcept;
  /// The scheduler has ended: nothing runs any more. Waits for threads that release an access just
  /// now.
  /// \param left_fibers there are fibers that have not ended, and are gone.
  void end(bool left_fibers) noexcept;

private:
  /// \return false if transfers are under way, the last of which comes back with it.
  bool acquire_on_host(task_record* t) noexcept;
  static tern::detail::worker_base* run_task(tern::detail::tasklet* x) noexcept;
  void run_body(task_record* t) noexcept;
  void finish_slowly(task_record* t) noexcept;
  static void destroy_work(task_record* t) noexcept; ///< its closure goes
  /// The scheduler's run is over: neither the task nor its successors run, but what they hold is
  /// given back.
  /// \param tells whether waiters are notified: not if these may be fibers that have ended with the
  /// scheduler.
  void end_without_running(task_record* t, bool tells) noexcept;

  tern::detail::scheduler_core& core_;
  record_pool& records_;
  worker_parts& parts_;
  outstanding_tasks& outstanding_;
  coherence& copies_;
  const device_table& devices_;
  task_placement& placement_;
  bool left_fibers_ = false;      // before the parts' end
  std::atomic<int> releasing_{0}; // threads that release an access while the scheduler may end
  commute_locks commuting_;
  alignas(64) tern::detail::group_state group_; // all tasks are tasklets of it
};

} // namespace tern::hetero::detail
