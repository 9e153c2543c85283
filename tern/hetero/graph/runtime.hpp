// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The runtime of this layer: one for each scheduler, made when a program first uses it. Internal.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <tern/hetero/data/coherence.hpp>
#include <tern/hetero/data/device_table.hpp>
#include <tern/hetero/graph/dependencies.hpp>
#include <tern/hetero/graph/execution.hpp>
#include <tern/hetero/graph/reduction.hpp>
#include <tern/hetero/paging/host_pager.hpp>
#include <tern/hetero/record/record_pool.hpp>
#include <tern/hetero/sampling/task_sampler.hpp>
#include <tern/hetero/schedule/placement.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/hetero/submission/submission_window.hpp>
#include <tern/hetero/submission/wait_all.hpp>
#include <tern/task/once.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

class checked_kernels;
class collector;
class pinned_memory;
class runtime;

/// The worker of device `number`, with a thread of its own or as a fiber. Defined in device/worker.
std::unique_ptr<device_queue> make_device_worker(runtime& r, std::uint8_t number, std::unique_ptr<device> d,
                                                 bool own_thread);
/// What reports say of tasks, accesses and devices: see scheduler_extension::describe. Defined in
/// report.
std::string describe_tasks(runtime& r, std::chrono::milliseconds limit);

/// A facade: what each part does is said there.
///
/// `submit` gives a task its place in the order of its objects (dependencies). When nothing is left
/// that it follows, it runs on the host or is placed on a device (task_execution, task_placement),
/// for which its data are brought there (coherence). Lives until its scheduler has ended and the
/// last object and handle are gone. Threads: any, unless said.
class runtime final : public tern::detail::scheduler_extension, public coherence_client {
public:
  explicit runtime(tern::detail::scheduler_core& core);
  ~runtime() override;
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  /// That of the calling context's scheduler. \throws error(invalid_state) on a thread that is no
  /// worker, naming `what`.
  static runtime& here(const char* what);

  // The scheduler's extension -----------------------------------------------------------------------------------------
  /// The scheduler ends: objects that are left keep the runtime's memory.
  void ends() noexcept override;
  std::string describe(std::chrono::milliseconds limit) override { return describe_tasks(*this, limit); }
  int at_work() const noexcept override;

  // Coherence's client ------------------------------------------------------------------------------------------------
  void release_dependency(task_record* t) noexcept override { execution_.release_dependency(t); }
  void save_began() noexcept override { outstanding_tasks::count_submitted(records_.parts().here(), false); }
  void save_ended() noexcept override { outstanding_.count_completed(); }
  bool must_not_wait() const noexcept override {
    return records_.parts().here().collects.load(std::memory_order_relaxed) != nullptr || in_device_worker();
  }
  std::uint64_t tasks_left() const noexcept override { return outstanding_.count(); }
  void add_reference() noexcept override { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept override;

  // Tasks -------------------------------------------------------------------------------------------------------------
  /// \pre it has its work and uses. May suspend the calling fiber for a moment, if many tasks are
  /// left (submission_window). Takes over the task's own reference. \throws error(invalid_argument)
  /// for an object of another runtime.
  void submit(task_record* t);
  /// The first half of `submit`: the task gets its place in the order.
  /// \param wide is set for tasks that only the widest window holds up. \return it follows no
  /// other: the caller makes it ready. Else that has happened, or will. Throws as `submit`.
  [[nodiscard]] bool give_place(task_record* t, bool& wide);
  /// The last part: so many have been submitted. May suspend the calling fiber.
  void window_after(std::uint64_t tasks, bool wide) {
    const tern::detail::worker* const w = tern::detail::this_worker();
    if (parts().is_mine(w) && w->running)
      window_.submitted(parts().here(), tasks, wide || task_execution::task_here() != nullptr);
  }
  /// Has a collector of this fiber (recorded_tasks.hpp) taken it? \throws as `recorded::submit`;
  /// then it is the caller's.
  bool collected(task_record* t) {
    // relaxed: if it is this fiber's, it was this worker that wrote it.
    collector* const c = records_.parts().here().collects.load(std::memory_order_relaxed);
    return c && taken_by(*c, t);
  }
  /// As `submit`, for what the user asks for beside tasks; if it throws, the task is destroyed.
  /// \param at_once in a fiber: one that nothing holds up runs before this returns.
  void request(task_record* t, bool at_once = false);
  /// Returns when all that have been submitted are done. \throws the first failure that the program
  /// has not seen.
  void wait_all();
  /// Waits until it is done. \throws what it failed with.
  static void wait(task_record* t);
  /// The last handle of an object is gone.
  void abandon(object_state* o) noexcept;
  /// Looks for devices, unless that has happened, if a task of these kinds could run on one:
  /// drivers are opened, which may take a second. May suspend the calling fiber. \throws
  /// error(invalid_option) for what options say of devices; the next call looks again.
  void look_for_devices(device_kinds kinds = any_device) {
    constexpr auto host_only = kinds_of(device_kind::host);
    if ((kinds | host_only) != host_only && !devices_found_.load(std::memory_order_acquire)) [[unlikely]]
      find_devices_once();
  }
  /// Its number, having looked for devices unless it is the host. \throws error(not_found) and as
  /// `look_for_devices`.
  std::size_t device_named(std::string_view id);
  /// Is this code that a device's worker runs? It must not wait for what that worker does.
  bool in_device_worker() const noexcept;

  // Its parts ---------------------------------------------------------------------------------------------------------
  record_pool& records() noexcept { return records_; }
  const worker_parts& parts() const noexcept { return records_.parts(); }
  dependencies& order() noexcept { return order_; }
  outstanding_tasks& outstanding() noexcept { return outstanding_; }
  const submission_window& window() const noexcept { return window_; }
  task_execution& execution() noexcept { return execution_; }
  task_placement& placement() noexcept { return placement_; }
  const task_placement& placement() const noexcept { return placement_; }
  coherence& copies() noexcept { return copies_; }
  const host_pager* pager() const noexcept { return pager_.get(); } ///< null: the host's memory is not limited
  reductions& reducing() noexcept { return reductions_; }
  const device_table& devices() const noexcept { return devices_; }
  task_sampler& sampler() noexcept { return sampler_; }

  /// How many tasks can run at once, about: workers and devices, or one device where these have not
  /// been looked for at the beginning. Does not change, as results of reductions depend on it.
  std::size_t runners() const noexcept { return runners_; }

  const options& opts() const noexcept { return opts_; }
  tern::detail::scheduler_core& core() noexcept { return parts().core(); }
  /// Of the host's kernels, where every access is to be checked; null: none is.
  checked_kernels* checked() const noexcept { return checked_.get(); }
  /// Are new tasks ordered by the objects that they use?
  bool implicit() const noexcept { return implicit_.load(std::memory_order_relaxed); }
  void set_implicit(bool on) noexcept { implicit_.store(on, std::memory_order_relaxed); }
  /// Nothing runs any more.
  bool is_over() const noexcept { return parts().ended() || parts().core().over.load(std::memory_order_acquire); }
  statistics counts() const;

private:
  static bool taken_by(collector& c, task_record* t);
  /// \return memory that they pin.
  std::shared_ptr<pinned_memory> find_all_devices();
  void find_devices_once();

  record_pool records_;
  std::atomic<bool> implicit_{true};
  const options opts_;
  const std::unique_ptr<checked_kernels> checked_;
  task_sampler sampler_; // looks at `devices_` when tasks run
  alignas(64) std::atomic<std::uint32_t> references_{1};
  alignas(64) dependencies order_;
  outstanding_tasks outstanding_;
  submission_window window_;
  coherence copies_;
  std::unique_ptr<host_pager> pager_;
  task_placement placement_;
  reductions reductions_;
  task_execution execution_;
  std::size_t runners_ = 0;
  once_flag finding_devices_;
  std::atomic<bool> devices_found_{false};
  device_table devices_; // goes first: its workers use what is above, and its devices unpin host memory
};

} // namespace tern::hetero::detail
