// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The worker of a device that is not the host: it alone talks to the device. Internal.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tern/hetero/device/device.hpp>
#include <tern/hetero/device/worker/device_trace.hpp>
#include <tern/hetero/device/worker/followers.hpp>
#include <tern/hetero/device/worker/fusion.hpp>
#include <tern/hetero/device/worker/worker_report.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/paging/resident_instances.hpp>
#include <tern/task/semaphore.hpp>

namespace tern::hetero::detail {

/// Drives one device, in a fiber that lives while there is something to do.
///
/// A task arrives when a policy has placed it. It waits until there is memory for all that it uses,
/// in the order of arrival; then its transfers begin. When the last has ended the task comes back,
/// and its kernel is launched into the next of the streams for kernels, together with small equal
/// ones where that has proved faster (fusion.hpp). When the kernel has ended the task is completed.
/// Transfers from and to the device begin as they arrive. The device is asked (`done`) what has
/// ended; while nothing has, other fibers run.
///
/// A device that `launches_behind` gets tasks whose predecessors are in its streams, before these
/// have ended: up to `hetero-ahead` of them (queued_launches.cpp). Of a stream only the first
/// operation is asked for, and a task not before its predecessors have been completed.
///
/// With `hetero-threads` a thread does all that in the fiber's place, which only waits for it: so
/// the scheduler does not end meanwhile. Threads: as device_queue says.
class device_worker final : public device_queue {
public:
  device_worker(runtime& r, std::uint8_t number, std::unique_ptr<device> d, bool own_thread);
  ~device_worker() override;

  void arrive(task_record* t) noexcept override;
  void arrive(transfer* x) noexcept override;
  void arrive(handed_task&& t) override;
  bool takes_across(const device_queue& from) const noexcept override;
  void free_later(memory_handle memory, std::size_t bytes) noexcept override;
  void look_for_successors() noexcept override;
  void holds(object_state& o, std::size_t instance) override { resident_.add(o, instance); }
  void held_no_more(object_state& o, std::size_t instance) noexcept override { resident_.remove(o, instance); }
  bool holds_any() const noexcept override { return !resident_.empty(); }
  const device& of() const noexcept override { return *device_; }
  std::int64_t bytes_held() const noexcept override { return bytes_.load(std::memory_order_relaxed); }
  int at_work() const noexcept override { return report_.at_work(); }
  std::string describe(std::chrono::milliseconds limit) override;
  bool is_here() const noexcept override;
  void end_thread() noexcept override;

  memory_handle allocate(std::size_t bytes) override;
  bool each_held(const std::function<eviction_rank(object_state& o, std::size_t instance)>& rank,
                 const std::function<bool(object_state& o, std::size_t instance)>& f) override {
    return resident_.each(rank, f);
  }
  void evict_for(task_record& t, std::size_t got) noexcept override;
  void set_over_limit(object_state& o) noexcept override { over_limit_ = &o; }
  bool has_found_loss() const noexcept override { return found_loss_ != nullptr; }

private:
  struct block {
    memory_handle memory;
    std::size_t bytes;
  };
  void wake() noexcept;
  void work() noexcept;
  void work_in_thread(bool begun) noexcept; ///< of the fiber
  void thread_body() noexcept;
  void yield() const noexcept;
  bool take_arrivals() noexcept;
  bool poll() noexcept;
  // admission.cpp
  bool admit() noexcept;
  // launch.cpp
  struct launched {
    task_record* task;
    fused_kind* kind;                  ///< null: of no kind that is measured
    std::vector<task_record*> rest;    ///< in the same launch
    ticket running = 0;                ///< its end
    sampled_kernel* sampled = nullptr; ///< null: its time is not to be taken
    int stream = 0;
    double expected = 0; ///< seconds; 0: not known
    bool beside = false; ///< others were in other streams meanwhile
    // Only of tasks that are counted in an account:
    double items = 0;       ///< of all its kernels; 0: not known
    std::int64_t began = 0; ///< when it was launched; 0: it is not counted
    std::int64_t took = 0;  ///< nanoseconds, as the device says; 0: it does not
    int shared_by = 1;      ///< streams that had something to do when it was launched
  };
  struct described {
    task_record* task;
    launch_request what;
    std::size_t arguments; ///< the first, in `arguments_`
    bool launched;
  };
  bool launch_ready() noexcept;
  /// Does each of its streams for kernels have something to do?
  bool saturated(std::size_t launches = 1) const noexcept;
  void launch_by_kind() noexcept;
  bool launch_equal(fused_kind& kind) noexcept;
  /// How many tasks more a policy may give the device while it runs so many in one launch.
  static int slots_of_fused(std::size_t tasks) noexcept;
  bool describe(task_record* t, launch_request& what, argument* arguments) noexcept;
  /// What the launch's time is to be kept by; null: it is not to be taken.
  sampled_kernel* to_sample(task_record& t, const launch_request& what) noexcept;
  void launch(task_record* t, launch_request what, fused_kind* kind) noexcept;
  void has_begun(launched&& l);
  void end(launched&& l, const std::exception_ptr& why) noexcept;
  void will_charge(launched& l, const launch_request& what) noexcept;
  void note_took(launched& l) noexcept;
  void charge(const launched& l) noexcept;
  int busy_streams() const noexcept;
  // queued_launches.cpp
  bool launch_followers() noexcept;
  followers::state offer(task_record* t, const followers::successor& s) noexcept;
  void launch_behind(task_record* t, const followers::successor& s) noexcept;
  void launch_behind(task_record* t, std::span<const ticket> after, std::span<const event_ref> others,
                     int stream) noexcept;
  bool takes_more_behind() const noexcept;
  bool has_equals(task_record* t) const noexcept;
  void gave(launched& l) noexcept;
  void launch_again(launched&& l) noexcept;
  // copies_home.cpp
  bool goes_home_first(const task_record& t) const noexcept;
  void bring_home(task_record* t, const followers::successor& s) noexcept;
  void followed_ended(const task_record* t) noexcept;
  void followed_again(const task_record* t) noexcept;
  // across.cpp
  void hand_over(task_record* t, const followers::successor& s) noexcept;
  bool launch_handed() noexcept;
  bool take(handed_task& h) noexcept;
  bool may_be_over(transfer* x) noexcept;
  void let_go(handed_task& h) noexcept;
  static void forget_others(transfer* x) noexcept;
  static constexpr int streams_most = 2 + 64; ///< of a device that launches behind
  static constexpr std::uint64_t bit_of(int stream) noexcept { return std::uint64_t{1} << (stream - 2); }
  bool is_asked(const launched& l, std::uint64_t waiting_streams) const noexcept;
  static std::exception_ptr with_name(const task_record& t, const std::exception_ptr& why) noexcept;
  int next_stream() noexcept;
  void mark_last(int stream, const task_record* next);
  int stream_behind(const followers::successor& s) noexcept;
  ticket put(task_record* t, int stream, const launch_request& what);
  ticket put_each(task_record* t, int stream, const launch_sequence& all, std::span<const ticket> after);
  void end_steps(task_record* t) noexcept;
  void begin(transfer* x, std::span<const ticket> after = {}, std::span<const event_ref> others = {}) noexcept;
  void finish(task_record* t) noexcept;
  void finish(transfer* x, std::exception_ptr failed) noexcept;
  void handle_loss(std::exception_ptr why) noexcept;
  bool is_loss(const std::exception_ptr& why) const noexcept;
  void measure_power() noexcept;
  bool wait_or_finish() noexcept;
  bool has_arrivals() const noexcept;
  /// What only the worker may look at, for reports: lines.
  std::string snapshot() noexcept;
  std::string holder_of(const object_state& o, std::size_t instance) const;
  /// From now on it cannot be cancelled. \pre it has not begun.
  static void claim(task_record* t) noexcept;
  void evict_larger_copies(task_record& t) noexcept;
  error no_memory(task_record& t);
  static std::exception_ptr with_object(const transfer& x, const std::exception_ptr& why) noexcept;

  runtime& home_;
  const std::uint8_t number_;
  const std::unique_ptr<device> device_;
  launch_fuser* const fuser_; // the device's; null: it has none

  const std::size_t ahead_; // tasks that it may get before their predecessors have ended; 0: none
  const bool own_thread_;
  std::thread thread_;                                 // once it has been needed; by the fiber
  std::atomic<std::thread::id> thread_id_;             // while there is one; others look at it at any time
  std::atomic<tern::detail::fiber*> runs_in_{nullptr}; // or in its thread
  std::atomic<bool> thread_is_there_{false};           // once it has been needed
  semaphore begin_{0}, idle_{0};
  bool stop_ = false; // before `begin_`

  mutable tern::detail::spin_lock guard_; // of what arrives
  std::vector<task_record*> tasks_in_;
  std::vector<transfer*> transfers_in_;
  std::vector<handed_task> handed_in_;
  std::vector<block> frees_in_;
  bool active_ = false; // there is a fiber
  bool sleeps_ = false; // and it waits for `wakeup_`
  bool has_new_successors_ = false;
  semaphore wakeup_{0};

  // The fiber's.
  device_tracks tracks_;
  std::vector<task_record*> tasks_now_;
  std::vector<transfer*> transfers_now_;
  std::vector<block> frees_now_;
  std::vector<task_record*> waiting_;           // for memory; the first comes first
  std::size_t preparing_ = 0;                   // have memory, and wait for transfers
  std::vector<task_record*> ready_, launching_; // have all that they need
  std::vector<task_record*> gathered_;          // to be launched together, and claimed
  std::vector<launched> running_;               // none before what it follows
  followers followers_;
  std::uint64_t given_ = 0;               // operations
  std::vector<std::uint64_t> last_given_; // in each stream: the number of the last one
  std::vector<std::int64_t> charged_to_;  // in each stream: until when its time has been charged
  std::vector<ticket> after_;             // for its memory
  std::vector<task_record*> followed_;    // as well
  fusion fusion_;
  std::vector<described> described_; // for their memory, with the next two
  std::vector<argument> arguments_;
  std::vector<launch_request> equal_;
  std::vector<handed_task> handed_; // by workers of other devices
  std::vector<transfer*> moving_;
  std::size_t behind_ = 0; // of them: those that follow tasks that have not ended
  // Of sequences, but for the last ones.
  std::unordered_map<task_record*, std::vector<ticket>> steps_; // address: looked up only
  object_state* over_limit_ = nullptr;                          // by the task that is being admitted
  struct {
    bool possible = false;  // the device has that much
    bool made = false;      // or is about to be
    bool in_use = false;    // by others
    bool larger = false;    // it uses parts of larger copies
    std::exception_ptr why; // something could not be saved
  } eviction_;              // for the task that is being admitted
  bool starved_ = false;    // others have what is in the way
  bool progress_ = true;    // something has happened since the last look for memory
  std::int64_t look_again_at_ = 0;
  memory_reserve reserve_;
  bool stalled_ = false;      // `reserve_` knows of it
  std::size_t allocated_ = 0; // bytes, since a look at what should be saved ahead
  unsigned next_stream_ = 0;
  bool opened_ = false, lost_ = false;
  bool measures_power_ = false, was_busy_ = false; // at the last look
  std::int64_t looked_at_ = 0;                     // when that was
  double busy_seconds_ = 0;
  std::exception_ptr found_loss_;
  int idle_rounds_ = 0;
  std::int64_t idle_since_ = 0; // when the first of them began

  worker_report report_;
  resident_instances resident_;
  std::atomic<std::int64_t> bytes_{0};
};

} // namespace tern::hetero::detail
