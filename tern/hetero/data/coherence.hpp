// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which copies of objects are valid, and how others become so: MSI for each fragment of an object.
/// Internal.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>

#include <tern/hetero/data/device_table.hpp>
#include <tern/hetero/data/host_memory.hpp>
#include <tern/hetero/data/host_paging.hpp>
#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/data/transfer.hpp>
#include <tern/hetero/eviction/memory_reserve.hpp>
#include <tern/hetero/eviction/upcoming_uses.hpp>
#include <tern/hetero/statistics.hpp>

namespace tern::hetero::detail {

/// What coherence tells the tasks. Implemented by the runtime. Any thread.
class coherence_client {
public:
  /// One of what the task waits for is over.
  virtual void release_dependency(task_record* t) noexcept = 0;
  /// A copy that frees memory of a device has begun, or has ended: wait_all waits for it.
  virtual void save_began() noexcept = 0;
  virtual void save_ended() noexcept = 0;
  /// Is the calling code a device's worker, which others may wait for, or a function that must only
  /// submit?
  virtual bool must_not_wait() const noexcept = 0;
  /// How many tasks have been submitted and have not ended.
  virtual std::uint64_t tasks_left() const noexcept = 0;
  /// The runtime lives as long as it has references: one for each object.
  virtual void add_reference() noexcept = 0;
  virtual void release() noexcept = 0;

protected:
  ~coherence_client() = default;
};

/// The error of a task that reads what is valid nowhere.
std::exception_ptr not_written_error(const task_record& t, const object_state& o, const box& part, bool lost);

/// The instances of all objects of a runtime and the transfers between them.
///
/// A task that is about to run gets an instance for each of its uses in the memory of its device,
/// and a transfer for what is not valid there. While it runs, its instances stay. When it has
/// ended, what it wrote is valid in its instance alone; where it has been given to a stream behind
/// which others may come, that step is made already then. Only tasks come here that have nothing
/// left to follow but what is in streams of their own device: so no other task writes what they
/// read, and what is valid here is what will be when those are over.
///
/// Requires: a task's uses are ordered by the runtime. Threads: as each function says; objects are
/// locked for moments. Source: MSI, as in StarPU, for fragments instead of whole objects.
class coherence {
public:
  coherence(coherence_client& client, const device_table& devices) noexcept : client_(client), devices_(devices) {}

  coherence_client& client() const noexcept { return client_; }
  host_memory& memory() noexcept { return memory_; }
  const host_memory& memory() const noexcept { return memory_; }
  const device_table& devices() const noexcept { return devices_; }
  /// The host's memory is limited. Before the first object.
  void limit_host(host_paging& by, std::size_t bytes) noexcept {
    paging_ = &by;
    set_least_memory(static_cast<std::int64_t>(bytes));
  }
  host_paging* paging() const noexcept { return paging_; } ///< null: it is not
  /// For the order in which instances were used.
  std::uint64_t tick() noexcept { return clock_.fetch_add(1, std::memory_order_relaxed); }

  // Fetching (fetch.cpp) ----------------------------------------------------------------------------------------------
  enum class acquired { ready, no_memory, failed, lost };
  /// Gets instances in the memory of device `d` for all that the task uses, or none, and starts the
  /// transfers that are needed, of which each holds one of the task's `pending`; the caller holds
  /// another one. By the worker of `d`; for memory of the host, any thread. `failed`: the task has
  /// been marked so. `lost`: the device is, and the task may run elsewhere.
  acquired acquire(task_record* t, std::uint8_t d) noexcept;
  /// The same for a task whose predecessors have ended, or are in streams of `d`. Nothing is
  /// evicted for it, and no transfer begins that would have to wait for one of these: `no_memory`
  /// then, also where another reason stands against it. By the worker of `d`, which has the task
  /// for itself.
  acquired acquire_behind(task_record* t, std::uint8_t d) noexcept;
  /// The same for a task of the host, not by a policy, whose predecessors that have not ended are
  /// in streams of `d`: it gets instances, and `behind` those copies from `d` that are to begin
  /// behind these predecessors, each of which holds one of the task's `pending`. \return false:
  /// nothing has been done, as nothing is missing, or what is cannot come in that way.
  bool acquire_home_behind(task_record* t, std::uint8_t d, transfer_chain& behind) noexcept;
  /// The same for a task that will run on another device, to which data go by way of the host: it
  /// gets no instances, and `behind` the first half of their way, as far as that is to begin now.
  /// The task waits for these copies, and does not need them. Nothing is done where they could go
  /// straight.
  void bring_home_behind(task_record* t, std::uint8_t d, transfer_chain& behind) noexcept;
  /// The same as `acquire_behind` for a task that is handed over to device `d`. `behind` gets the
  /// copies to `d` that are to begin behind what the task follows, of which each holds one of the
  /// task's `pending`. The task is to be launched behind these: it waits for nothing else but what
  /// it follows, and copies home that these follow. By the worker of `d`.
  acquired acquire_across(const handed_task& t, std::uint8_t d, transfer_chain& behind) noexcept;
  /// What the copy was put behind has come to where it comes from. `x.again`: more than once. By
  /// its worker.
  bool source_is_over(transfer& x) noexcept;
  /// The copy is made once more: so must be what was put behind it.
  void made_again(transfer& x) noexcept;
  /// Calls `f(transfer&)` for the copies home of what a task reads that device `d` has under way.
  /// By its worker.
  void each_way_home(task_record& t, std::uint8_t d, const std::function<void(transfer&)>& f);
  /// The task has been put into a stream of its device: what it writes is valid there, and nowhere
  /// else, for those that come after it. If it fails, nothing reads that before it is written anew.
  void written_when_given(task_record* t) noexcept;
  /// The task has ended: what it wrote is valid where it ran, and nowhere else. Any thread.
  void release_uses(task_record* t) noexcept;
  /// The task's uses hold their blocks in the host's memory, or it has failed: its transfers begin.
  void admitted(task_record* t) noexcept {
    bring_data(t);
    client_.release_dependency(t);
  }
  void start(transfer* x) noexcept {
    if (!paging_ || holds_host_block(*x)) devices_.queue(x->device)->arrive(x);
  }
  /// By a device's worker: it is over, or failed.
  void transfer_done(transfer* x, std::exception_ptr failed) noexcept;
  /// What the copies of a transfer look like to the device.
  copy_request describe(const transfer& x);
  std::int64_t bytes_missing(task_record* t, std::uint8_t d);
  /// A piece of what a task reads.
  struct data_piece {
    std::uint64_t number; ///< equal for equal pieces
    std::int64_t bytes;
    std::uint8_t from;    ///< a memory that has it; 0: the host's, also if none has
    std::uint64_t spaces; ///< the memories that have it, a bit for each
  };
  /// Calls `f` for each, under its object's lock.
  void each_piece(task_record* t, const std::function<void(const data_piece&)>& f);
  void count_copy(direction way, std::size_t bytes) noexcept;
  /// One of them comes behind tasks that have not ended.
  void count_copy_behind() noexcept { behind_.fetch_add(1, std::memory_order_relaxed); }
  /// Fills in the numbers of copies and bytes.
  void add_to(statistics& s) const noexcept;
  transfer_pool& transfers() noexcept { return transfers_; }

  /// By the worker of a transfer that is not settled: it gets memory on this device, or goes home.
  /// \return false: it is no longer this worker's.
  bool settle(transfer* x, bool lost) noexcept;

  // Instances (instances.cpp) -----------------------------------------------------------------------------------------
  /// Under its lock: the instance goes.
  void forget(object_state& o, std::size_t instance) noexcept;
  /// \pre no task uses it any more.
  void destroy(object_state* o) noexcept;

  // Eviction (eviction.cpp) -------------------------------------------------------------------------------------------
  struct eviction {
    bool made = false;      ///< memory is free, or may be soon: copies have been started, or an object was locked
    bool in_use = false;    ///< others have something that is in the way, and will drop it
    std::exception_ptr why; ///< something in the way could not be saved
  };
  /// Bytes for which a task that holds its first `got` uses has no instance on device `d`. By its
  /// worker.
  std::size_t bytes_lacking(task_record& t, std::size_t got, std::uint8_t d);
  /// Frees instances on device `d` that no task needs, in the order of eviction_rank, until `bytes`
  /// are free, or a batch; starts copies of those that must be saved first, and of those that would
  /// go next. By its worker, for a task that holds its first `got` uses.
  eviction evict(std::uint8_t d, task_record& t, std::size_t got, std::size_t bytes,
                 const memory_reserve& reserve) noexcept;
  /// Starts copies of what would have to be saved soon, if objects are larger than the memory. By
  /// the worker of `d`.
  void save_ahead(std::uint8_t d, const memory_reserve& reserve) noexcept;
  /// What devices have of the part is the first to go, and is copied home if they have little
  /// memory. By a task that follows all others that use it.
  void let_go(object_state& o, const box& part);
  /// By the submitter of a task that a policy places: what it uses is foreseen, if objects are
  /// larger than a device's memory.
  void note_uses(task_record& t) noexcept {
    if (upcoming_.on() || object_bytes_.load(std::memory_order_relaxed) > least_memory_.load(std::memory_order_relaxed))
        [[unlikely]] {
      foresee();
      upcoming_.note(t);
    }
  }
  upcoming_uses& upcoming() noexcept { return upcoming_; }
  void foresee() noexcept {
    if (!upcoming_.on()) upcoming_.start(client_.tasks_left());
  }
  /// A memory has so much: if objects take more than the least one has, their uses are noted.
  void set_least_memory(std::int64_t bytes) noexcept {
    least_memory_.store(std::min(bytes, least_memory_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
  }
  void count_object(std::int64_t bytes) noexcept { object_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  /// The same for one instance of an object that has as many as it may.
  eviction evict_one_of(object_state& o, task_record& t, std::size_t got) noexcept;
  /// By its worker: the device is lost, and with it what only its instances held.
  void on_device_lost(std::uint8_t d) noexcept;

private:
  /// Under an object's lock: `found(object, fragment, part of it that the task reads)`.
  template <class F> void look_for_missing(task_record* t, std::uint8_t d, F&& found);
  bool find_instance(object_state& o, use& u, const task_record& t, std::uint8_t space);
  /// \return 0: there is no memory, or the object has as many as it may.
  std::size_t add_instance(object_state& o, const box& where, std::uint8_t space);
  void drop_use(use& u) noexcept;
  transfer* new_transfer(object_state& o, const box& part, std::uint8_t from, std::uint8_t to);
  bool fetch(task_record* t, object_state& o, use& u, transfer_chain& begun);
  void bring_data(task_record* t);
  void bring_data(task_record* t, transfer_chain& begun) noexcept;
  /// Under the object's lock. \param needs what it brings: fails if that does; else it must only
  /// not be under way any more. \pre the caller holds one of the task's `pending`.
  static void await(task_record* t, transfer* x, bool needs);
  static bool can_come_behind(const use& u);
  bool can_come_across(const handed_task& t, use& u, std::uint8_t d);
  void come_across(const handed_task& t, use& u, std::uint8_t d, transfer_chain& behind);
  std::uint8_t source_across(const object_state& o, const fragment& f, std::uint8_t d) const noexcept;
  static bool can_come_home_behind(const use& u, std::uint8_t space, bool& any);
  bool holds_host_block(transfer& x) noexcept;
  bool holds_host_block(const task_record& t, const use& u) noexcept;
  void park(task_record& t) noexcept;
  /// Under the object's lock: starts copies of what only the instance has, home or to another
  /// device that has room and is nearer. \throws why it cannot be saved.
  void save(object_state& o, std::size_t i, bool home_only, transfer_chain& begun);
  /// A device near that of an instance, with a quarter of its memory free; 0: there is none.
  std::uint8_t keeper_near(const instance& x) const noexcept;
  bool has_quarter_free(std::uint8_t d, std::size_t beside) const noexcept;
  /// Goes through what device `d` holds, for a task or (null) ahead of need.
  eviction make_room(std::uint8_t d, task_record* t, std::size_t got, std::size_t bytes, std::size_t batch,
                     std::size_t ahead) noexcept;

  coherence_client& client_;
  const device_table& devices_;
  host_memory memory_;
  host_paging* paging_ = nullptr;
  transfer_pool transfers_;
  std::atomic<std::uint64_t> clock_{1};
  struct copied {
    std::atomic<std::uint64_t> times{0}, bytes{0};
  };
  std::array<copied, 4> copies_; ///< by direction
  std::atomic<std::uint64_t> behind_{0};
  upcoming_uses upcoming_;
  alignas(64) std::atomic<std::int64_t> object_bytes_{0}; ///< of all objects
  std::atomic<std::int64_t> least_memory_{INT64_MAX};
};

} // namespace tern::hetero::detail
