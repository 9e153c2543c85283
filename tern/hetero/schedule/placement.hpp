// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that several devices could run, between being ready and arriving at one. Internal.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tern/hetero/data/coherence.hpp>
#include <tern/hetero/data/device_table.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/record/task_record.hpp>
#include <tern/hetero/sampling/task_sampler.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

/// Where tasks go that run on the host. Implemented by `task_execution`.
class host_queue {
public:
  /// `placed` there, or to fail there. Any thread.
  virtual void arrive(task_record* t) noexcept = 0;

protected:
  ~host_queue() = default;
};

/// Asks a policy when and where tasks run, and counts what each device has to do. Any thread; the
/// policy is called by one at a time.
class task_placement {
public:
  explicit task_placement(const device_table& devices) noexcept : devices_(devices) {}
  /// Once, before any task. Of the devices, the host is there.
  void start(host_queue& host, std::unique_ptr<policy> how, int workers);
  /// Once, when the other devices have been added to the table, and to `sampler`. \param host_runs
  /// kernels run on the host, too; true if tasks were submitted before.
  void add_devices(bool host_runs, const task_sampler& sampler);

  /// Does a policy choose where it runs? Else the host does, at once.
  bool chooses_for(const task_record& t) const noexcept {
    // relaxed: devices that a task could run on were added before it was submitted.
    return (t.kinds & kinds_beside_host_.load(std::memory_order_relaxed)) != 0 ||
           (t.kinds & kinds_of(device_kind::host)) == 0 ||
           (!host_runs_.load(std::memory_order_relaxed) && t.kinds != kinds_of(device_kind::host)) ||
           ((t.flags & task_record::extended) && (t.priority != 0 || t.device_mask != -1));
  }
  bool allowed(const task_record& t, int device) const noexcept;
  /// Can the device run all kernels of the task, apart from where it is allowed?
  bool runs_on(task_record& t, std::size_t device) const noexcept;
  void place(task_record* t) noexcept { place({&t, 1}); }
  /// Several at once: the policy is asked when it knows them all.
  void place(std::span<task_record* const> tasks) noexcept;
  /// Asks the policy whether the task is to go to device `d` behind its predecessors, which are
  /// there; then it is at the device, and has no slot.
  bool follow(task_record* t, std::uint8_t d) noexcept;
  /// That was so, but it cannot: it is as if it had never been asked for.
  void does_not_follow(task_record* t, std::uint8_t d) noexcept;
  /// One that follows has been launched before its predecessors had ended.
  void launched_behind() noexcept { behind_.fetch_add(1, std::memory_order_relaxed); }
  /// So many have been launched as one.
  void launched_together(std::size_t tasks) noexcept { together_.fetch_add(tasks, std::memory_order_relaxed); }
  /// A placed task is not at its device any more. What it runs, or ran, may be gone.
  void task_left(task_record* t) noexcept;
  /// It can be given so many tasks more, or fewer, than it has ended.
  void add_slots(std::uint8_t d, int tasks) noexcept;
  /// A placed task's body has begun on the host: it may wait for others that are placed there.
  void begun_on_host() noexcept;
  void on_device_lost(std::uint8_t d, const std::string& why) noexcept;

  /// Fills in the devices, with the tasks that each has run; of the host, those that a policy has
  /// placed there.
  void add_to(statistics& s) const;
  /// What a report says of tasks that wait for a device: a line, or none. \param limit to wait for
  /// the lock.
  std::string describe(std::chrono::milliseconds limit) const;

private:
  /// Calls `change` and asks the policy under one hold of the lock, then goes on asking.
  template <class F> void dispatch_after(F&& change) noexcept;
  /// A task that the policy has given to where it cannot run fails.
  void check(placement& next) const noexcept;
  /// It is planned, for a device that is lost.
  bool free_of_plan(const task_record& t) const noexcept;
  void fail_unplaceable(task_record* t) noexcept;
  /// What devices miss on which it might run otherwise.
  std::string what_is_missing(task_record& t) const;

  const device_table& devices_;
  host_queue* host_ = nullptr;
  std::atomic<bool> host_runs_{true};
  std::atomic<device_kinds> kinds_beside_host_{0};
  std::atomic<std::uint64_t> selective_{0};  // devices that do not run all kernels, a bit for each
  mutable tern::detail::spin_lock lock_;     // of all that follows
  std::array<std::atomic<bool>, 64> lost_{}; // by device; read without the lock
  std::unique_ptr<policy> policy_;
  std::vector<device_load> loads_;
  std::vector<std::uint64_t> tasks_of_; // that each device has run; of the host, of those that the policy placed
  std::vector<std::string> losses_;     // of each device, why it is lost; empty: it is not
  std::size_t waiting_ = 0;             // for a device that has a free slot
  std::atomic<std::uint64_t> behind_{0};
  std::atomic<std::uint64_t> together_{0};
};

/// Of the runtime that the task belongs to; defined where that is known.
const task_placement& placement_of(const task_record& t) noexcept;
/// The same, for where its data are and what is known of its time.
coherence& copies_of(const task_record& t) noexcept;
task_sampler& sampler_of(const task_record& t) noexcept;

} // namespace tern::hetero::detail
