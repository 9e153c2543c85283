// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The runtime of this layer: one for each scheduler, made when a program first uses it. Internal.
///
/// engine.cpp: records, dependencies, completion. coherence.cpp: instances and transfers. placement.cpp: which device.
/// device worker.cpp: what goes on at a device. runtime.cpp: its life. report.cpp: who waits for what.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/graph/task_arguments.hpp>
#include <tern/hetero/graph/task_record.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sync.hpp>

namespace tern::hetero::detail {

class checked_kernels;
class collector;
class device_worker;
struct access_note;

/// A box of an object on its way between two instances. Made and followed under the object's lock; worked off by the
/// device worker of the device that is not the host.
struct transfer {
  object_state* object = nullptr;
  box part;
  std::uint8_t from = 0, to = 0; ///< instances
  std::uint8_t device = 0;       ///< whose device worker does it
  int waits = 0;                 ///< for so many others, which bring the box to `from`
  transfer* next = nullptr;      ///< in queues
  struct waiter {
    task_record* task;
    bool needs; ///< what it brings
  };
  std::vector<waiter> tasks;    ///< wait for it, each with one of its `pending`
  std::vector<transfer*> after; ///< wait for it
  bool save = false;            ///< to make room
  ticket running = 0;
  // Out of the object, to memory of the user's, for a task that counts them. `to` is not meant then.
  task_record* out_of = nullptr;
  std::byte* outside = nullptr; ///< where all that the task copies goes, packed
  // The device's layout is another one.
  std::vector<std::byte> staged;
  const other_layout* unpack = nullptr;
  std::byte* unpack_to = nullptr;
};

/// Transfers that are to begin, or whatever else is to be done with them.
class transfer_chain {
public:
  void push(transfer* x) noexcept {
    x->next = nullptr;
    (first_ ? last_->next : first_) = x;
    last_ = x;
  }
  bool empty() const noexcept { return !first_; }
  transfer* front() const noexcept { return first_; }
  /// Calls `f(x)` for each, in order; they are in no chain then.
  template <class F> void take_each(F&& f) {
    for (transfer* x = std::exchange(first_, nullptr); x;) {
      transfer* const after = std::exchange(x->next, nullptr); // `f` may give it away
      f(x);
      x = after;
    }
    last_ = nullptr;
  }

private:
  transfer *first_ = nullptr, *last_ = nullptr;
};

/// What one worker counts and keeps, so that it does not share a cache line with others.
struct alignas(64) worker_part {
  // Written by that worker alone.
  std::atomic<std::uint64_t> submitted{0}, completed{0};
  task_record* free = nullptr;
  std::uint32_t free_count = 0;
  tern::detail::spin_lock accesses_lock;
  /// A fiber of this worker's collects the tasks that it submits (recorded_tasks.hpp).
  std::atomic<collector*> collects{nullptr};
  access_note* accesses = nullptr;       ///< that it has asked for and that have not ended; under the lock
  std::atomic<std::uint64_t> on_host{0}; ///< tasks of the user's that it has run, beside those that a policy placed
};
static_assert(sizeof(worker_part) == 64);

/// Somebody waits until at most so many tasks are left.
struct progress_waiter {
  std::uint64_t left = 0, id = 0;
  promise<void> reached;
};

/// What a task fails with that reads what is valid nowhere.
std::exception_ptr nothing_there(const task_record& t, const object_state& o, const box& part, bool lost);

class runtime final : public tern::detail::scheduler_extension {
public:
  explicit runtime(tern::detail::scheduler_core& core);
  ~runtime() override;
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  /// That of the calling context's scheduler. \throws error(invalid_state) on a thread that is no worker, naming
  /// `what`.
  static runtime& here(const char* what);
  /// The scheduler ends: objects that are left keep the runtime's memory.
  void ends() noexcept override;
  // For reports (report.cpp).
  std::string describe(std::chrono::milliseconds limit) override;
  int at_work() const noexcept override;
  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  worker_part& part() noexcept; ///< the calling worker's

  // Tasks (engine.cpp) ------------------------------------------------------------------------------------------------
  task_record* allocate();
  void* allocate_block() { return allocate(); }
  void free(task_record* t) noexcept;
  void unreference(task_record* t) noexcept {
    // acquire: what others did with it is over. The last one need not write the count.
    if (t->references.load(std::memory_order_acquire) == 1 ||
        t->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      free(t);
  }
  /// Room for one more use. \pre not submitted.
  use& add_use(task_record* t);
  /// \pre it has its work and uses. May suspend the calling fiber for a moment, if very many tasks are left. Takes over
  /// the task's own reference. \throws error(invalid_argument) for an object of another runtime.
  void submit(task_record* t);
  /// Has a collector of this fiber's (recorded_tasks.hpp) taken it? \throws as `recorded::submit`; then it is the
  /// caller's.
  bool collected(task_record* t) {
    // relaxed: if it is this fiber's, it was this worker that wrote it.
    collector* const c = part().collects.load(std::memory_order_relaxed);
    return c && taken_by(*c, t);
  }
  /// As `submit`, for what the user asks for beside tasks; if it throws, the task is destroyed.
  void request(task_record* t);
  /// A task that has failed is not going to be submitted.
  void give_up(task_record* t) noexcept;
  /// Adds the parts of a reduction to the object. (reduction.cpp)
  void end_reduction(object_state& o);
  /// Adds an edge to a task that has not been submitted. \return false if `before` is done already.
  bool follow(task_record* t, task_record* before, std::uintptr_t kind);
  /// \return false if it is done already: the hook will not fire.
  static bool hook(task_record* t, completion_hook& h) noexcept;
  /// It has run, or is not going to. In the context that found out. \return a successor that the caller is to run here.
  task_record* complete(task_record* t, bool may_run_here) noexcept;
  /// Marks it as failed with this, unless it has failed already.
  static void fail(task_record* t, std::exception_ptr why) noexcept;
  /// One of what it waits for is over.
  void release_dependency(task_record* t) noexcept {
    // acq_rel: what its predecessors wrote is visible to it.
    if (t->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) make_ready(t, false);
  }
  /// Nothing that it waits for is left. \return itself, if the caller is to run it on the host at once.
  task_record* make_ready(task_record* t, bool may_run_here) noexcept;
  void push_to_host(task_record* t) noexcept;
  /// Returns when all that have been submitted are done. \throws the first failure that nobody has been told.
  void wait_all();
  /// \return false if it has begun, or is done.
  static bool cancel(task_record* t) noexcept;
  std::uint64_t outstanding() const noexcept;
  /// Waits until it is done. \throws what it failed with.
  void wait(task_record* t);

  // Data (coherence.cpp) ----------------------------------------------------------------------------------------------
  enum class acquired { ready, no_memory, failed, lost };
  /// Gets instances in the memory of device `d` for all that the task uses, or none, and starts the transfers that are
  /// needed, of which each holds one of the task's `pending`; the caller holds another one. By the device worker of
  /// `d`, or for memory of the host by anyone. `failed`: the task has been marked so. `lost`: the device is, and the
  /// task may run elsewhere.
  acquired acquire(task_record* t, std::uint8_t d) noexcept;
  /// The task has ended: what it wrote is valid where it ran, and nowhere else.
  void release_uses(task_record* t) noexcept;
  /// By a device worker: it is over, or failed.
  void transfer_done(transfer* x, std::exception_ptr failed) noexcept;
  std::int64_t bytes_missing(task_record* t, std::uint8_t d);
  /// The scheduler's run is over: neither it nor what comes after it runs, but what they hold is given back.
  /// \param tells those who wait for them: not if these may be fibers that have gone with the scheduler.
  void end_without_running(task_record* t, bool tells) noexcept;
  /// The last handle is gone.
  void abandon(object_state* o) noexcept;
  void destroy(object_state* o) noexcept; ///< \pre no task uses it any more
  struct eviction {
    bool made = false;      ///< or may come: copies have been started that will make some, somebody looked at an object
    bool in_use = false;    ///< others have something that is in the way, and will let go of it
    std::exception_ptr why; ///< something in the way could not be saved
  };
  /// Frees instances on device `d` that nobody needs, least recently used first, until `bytes` are free; starts copies
  /// of those that must be saved first. By its device worker, for a task that holds its first `got` uses.
  eviction evict(std::uint8_t d, task_record& t, std::size_t got, std::size_t bytes, bool may_save) noexcept;
  /// The same for one instance of an object that has as many as it may.
  eviction evict_one_of(object_state& o, task_record& t, std::size_t got) noexcept;
  void device_lost(std::uint8_t d) noexcept;
  /// What the copies of a transfer look like to the device.
  copy_request describe(const transfer& x);
  /// Begins to copy what a task reads to the user's memory; whichever is the last to end completes the task.
  void copy_out(task_record* t) noexcept;
  void forget(object_state& o, std::size_t instance) noexcept; ///< under its lock

  // Places (placement.cpp) --------------------------------------------------------------------------------------------
  bool allowed(const task_record& t, int device) const noexcept;
  void place(task_record* t) noexcept;
  /// A placed task is not at its device any more.
  void left(std::uint8_t d) noexcept;
  /// It can be given so many tasks more, or fewer, than it has ended.
  void add_slots(std::uint8_t d, int tasks) noexcept;
  /// A placed task's body has begun on the host: it may wait for others that are placed there.
  void begun_on_host() noexcept;
  void dispatch() noexcept;
  void fail_unplaceable(task_record* t) noexcept;
  void lose(std::uint8_t d) noexcept;

  // Devices -----------------------------------------------------------------------------------------------------------
  const options& opts() const noexcept { return opts_; }
  std::size_t device_count() const noexcept { return infos_.size(); }
  const device_info& info(std::size_t d) const noexcept { return infos_[d]; }
  /// In whose memory kernels of this device work.
  std::uint8_t space_of(std::size_t d) const noexcept {
    return infos_[d].shares_host_memory ? std::uint8_t{0} : static_cast<std::uint8_t>(d);
  }
  device_worker* worker_of(std::size_t d) noexcept { return device_workers_[d].get(); } ///< null: the host
  std::uint64_t tick() noexcept { return clock_.fetch_add(1, std::memory_order_relaxed); }
  tern::detail::scheduler_core& core() noexcept { return core_; }
  int workers() const noexcept { return worker_count_; }
  /// Of the host's kernels, where every access is to be checked; null: none is.
  checked_kernels* checked() const noexcept { return checked_.get(); }
  std::size_t records_made() noexcept;   ///< memory, in tasks
  std::size_t transfers_made() noexcept; ///< the same in transfers
  bool implicit() const noexcept { return implicit_.load(std::memory_order_relaxed); }
  /// Nothing runs any more.
  bool is_over() const noexcept {
    return ended_.load(std::memory_order_acquire) || core_.over.load(std::memory_order_acquire);
  }
  void set_implicit(bool on) noexcept { implicit_.store(on, std::memory_order_relaxed); }
  statistics counts() const;
  /// \return its number. \throws error(not_found).
  std::size_t device_called(std::string_view id) const;
  void release_access(task_record* t) noexcept;
  void watch_access(access_note& note) noexcept;
  void forget_access(access_note& note) noexcept;
  /// An object's memory on the host; page-locked, as far as `hetero-pinned` goes, where devices want that. Any thread.
  /// \throws std::bad_alloc.
  std::byte* allocate_host(std::size_t bytes);
  void free_host(std::byte* memory) noexcept;
  void count_copy(direction way, std::size_t bytes) noexcept;
  /// Commuting tasks of several objects lock them under this.
  bool lock_commuting(task_record* t);
  void unlock_commuting(task_record* t) noexcept;
  /// Is this code that a device's device worker runs? It must not wait for what that device worker does.
  bool in_device_worker() const noexcept;

private:
  bool take_commuting(task_record* t) noexcept;
  static tern::detail::worker_base* run_task(tern::detail::tasklet* x) noexcept;
  /// Whose function the calling fiber runs; null: none's.
  static const task_record* task_here() noexcept;
  void run_body(task_record* t) noexcept;
  /// Is it a worker of this runtime's scheduler? After its end nobody is, whatever lies at its address.
  bool is_mine(const tern::detail::worker* w) const noexcept {
    return w && w->home == &core_ && !ended_.load(std::memory_order_relaxed);
  }
  /// Uses that reduce get a part to add to; reductions of what it uses otherwise come to their end before. Under
  /// `reductions_`.
  void settle_reductions(task_record* t);
  void end_reduction_now(object_state& o);
  object_state* part_of_reduction(object_state& o, const box& part, const reducer& how);
  static void wait_until_failure_set(const task_record& t) noexcept;
  /// \return false if transfers are under way, the last of which comes back with it.
  bool acquire_on_host(task_record* t) noexcept;
  void order(task_record* t, access_mode how, fragment& f, task_record*& gates);
  void depend(task_record* t, use& u, task_record*& gates);
  void complete_slowly(task_record* t) noexcept;
  static void destroy_work(task_record* t) noexcept; ///< its closure goes
  void note_failure(task_record* t) noexcept;
  /// It needs what the other was to write.
  static void inherit(task_record& t, const task_record& from) noexcept;
  void count_submitted(worker_part& p, bool mine) noexcept;
  void count_completed() noexcept;
  /// It has been submitted, and follows so many.
  void submitted_after(task_record* t, std::int32_t links) noexcept;
  static bool taken_by(collector& c, task_record* t);
  void tell_of_progress() noexcept;
  /// \return whether so few were left before `until`, if that is not null.
  void wait_for_progress(std::uint64_t left, const std::chrono::microseconds* at_most);

  acquired acquire_use(task_record* t, use& u, std::uint8_t space);
  bool find_instance(object_state& o, use& u, std::uint8_t space);
  bool fetch(task_record* t, object_state& o, use& u, transfer_chain& begun);
  transfer* new_transfer(object_state& o, const box& part, std::uint8_t from, std::uint8_t to);
  void drop_use(use& u) noexcept;
  /// Under the object's lock. \return whether it is gone, or is being saved. \throws why it cannot be saved.
  bool save_or_forget(object_state& o, std::size_t i, bool may_save, transfer_chain& begun);
  void start(transfer* x) noexcept;
  transfer* make_transfer(); ///< from those that were used before, if there are
  void unmake(transfer* x) noexcept;
  void copied_out(task_record* t, std::exception_ptr failed) noexcept;

  friend class device_worker;
  // What is only read while tasks come and go.
  tern::detail::scheduler_core& core_;
  const int worker_count_; // the core may be gone
  const bool light_;       // whoever completes needs no barrier to be seen by who waits
  bool host_runs_ = true;
  device_kinds kinds_beside_host_ = 0;
  std::atomic<bool> implicit_{true};
  std::atomic<bool> ended_{false};
  bool left_fibers_ = false;      // when it ended; before `ended_`
  std::atomic<int> releasing_{0}; // threads that release an access while the scheduler may end
  std::atomic<int> watchers_{0};
  const std::unique_ptr<worker_part[]> parts_;
  const options opts_;
  const std::unique_ptr<checked_kernels> checked_;

  alignas(64) std::atomic<std::uint32_t> references_{1};
  alignas(64) tern::detail::group_state group_; // all tasks are tasklets of it
  alignas(64) std::atomic<task_record*> shared_free_{nullptr};
  alignas(64) tern::detail::spin_lock foreign_; // protects the last part, of those that are no workers
  tern::detail::spin_lock chunks_lock_;
  std::vector<std::unique_ptr<task_record[]>> chunks_;
  tern::detail::spin_lock progress_lock_;
  std::vector<progress_waiter> progress_;
  tern::detail::spin_lock failure_lock_;
  std::vector<task_record*> failed_; // referenced; not those that failed because others did
  std::atomic<std::uint64_t> clock_{1};
  tern::detail::spin_lock transfers_lock_;
  std::vector<std::unique_ptr<transfer>> transfers_; // all, for their end
  transfer* free_transfers_ = nullptr;

  mutex reductions_;

  tern::detail::spin_lock commute_lock_; // who has which object, and who waits for it

  std::vector<device_info> infos_;
  std::shared_ptr<pinned_memory> locked_; // before the device workers, whose devices lock it
  std::vector<std::unique_ptr<device_worker>> device_workers_;
  mutable tern::detail::spin_lock policy_lock_;
  std::unique_ptr<policy> policy_;
  std::vector<device_load> loads_;
  std::vector<std::uint64_t> tasks_of_; // that each device has run; of the host, of those that the policy placed
  std::size_t at_policy_ = 0;           // tasks that wait for a device which has room
  struct copied {
    std::atomic<std::uint64_t> times{0}, bytes{0};
  };
  std::array<copied, 4> copies_; ///< by direction
};

} // namespace tern::hetero::detail
