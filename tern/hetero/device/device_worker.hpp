// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What goes on at a device that is not the host: one device worker for each, a fiber that lives while there is
/// something to do. It alone talks to the device. Internal.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tern/hetero/device/device.hpp>
#include <tern/hetero/device/device_trace.hpp>
#include <tern/hetero/device/fusion.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/task/semaphore.hpp>

namespace tern::hetero::detail {

/// A task's way: it arrives when a policy has placed it; waits until there is memory for all that it uses, in the order
/// of arrival; its transfers begin; when the last has ended it comes back, and its kernel is launched into the next of
/// the streams for kernels, together with small equal ones where that has proved faster (fusion.hpp); when that has
/// ended it is completed. Transfers from and to the device are taken as they
/// come. Completion is asked for, not told: `done` of what runs, and if nothing has ended, others run first.
///
/// With `hetero-threads` a thread does all that in the fiber's place, which only waits for it: so the scheduler does
/// not end meanwhile.
class device_worker {
public:
  device_worker(runtime& r, std::uint8_t number, std::unique_ptr<device> d, bool own_thread);
  ~device_worker();
  device_worker(const device_worker&) = delete;
  device_worker& operator=(const device_worker&) = delete;

  // Anybody -----------------------------------------------------------------------------------------------------------
  /// Placed here, or (then `acquired`) its transfers are over.
  void arrive(task_record* t) noexcept;
  void arrive(transfer* x) noexcept;
  void free_later(memory_handle memory, std::size_t bytes) noexcept;
  /// An object has, or has not any more, an instance here. Under the object's lock.
  void holds(object_state& o, std::size_t instance);
  void held_no_more(object_state& o, std::size_t instance) noexcept;
  bool holds_any() const noexcept;
  /// Copies go straight from that one's device to this one's.
  bool reaches(const device_worker& other) const noexcept { return device_->reaches(*other.device_); }
  const device& of() const noexcept { return *device_; }
  std::int64_t bytes_held() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  /// Kernels and copies that the device works on.
  int at_work() const noexcept {
    return kernels_now_.load(std::memory_order_relaxed) + copies_now_.load(std::memory_order_relaxed);
  }
  /// What a report says of the device: lines; empty if nothing waits for it. (report.cpp)
  std::string describe(std::chrono::milliseconds limit);

  /// Is the calling code run by it?
  bool is_here() const noexcept;
  /// The scheduler has ended: its thread, if it has one, does too.
  void end_thread() noexcept;

  // The runtime, in the device worker's fiber
  // --------------------------------------------------------------------------------
  memory_handle allocate(std::size_t bytes);
  /// Calls `f(object, instance)` under the object's lock, the longest unused first; not for objects that somebody else
  /// has locked just now, or has let go of. `f` may let go of the instance.
  /// \return whether there are such.
  template <class F> bool each_held(F&& f);
  /// A task has got no instance for its use number `got`, but holds those before it.
  void evict_for(task_record& t, std::size_t got) noexcept;
  /// A task has not got an instance of it, as it has too many.
  void set_over_limit(object_state& o) noexcept { over_limit_ = &o; }
  bool lost() const noexcept { return lost_; }
  /// An allocation has found that the device is lost, and nobody has heard yet.
  bool has_found_loss() const noexcept { return found_loss_ != nullptr; }

private:
  struct block {
    memory_handle memory;
    std::size_t bytes;
  };
  struct held {
    object_state* object;
    std::uint64_t number; ///< the object's
    std::size_t instance;
    std::uint64_t last_used;
  };
  void ring() noexcept;
  void work() noexcept;
  void work_in_thread() noexcept; ///< of the fiber
  void thread_body() noexcept;
  void yield() const noexcept;
  bool take_arrivals() noexcept;
  bool admit() noexcept;
  bool poll() noexcept;
  // launch.cpp
  struct launched {
    task_record* task;              ///< its `running` is the ticket
    fused_kind* kind;               ///< null: of no kind that is measured
    std::vector<task_record*> rest; ///< in the same launch
  };
  struct described {
    task_record* task;
    launch_request what;
    std::size_t arguments; ///< the first, in `arguments_`
    bool launched;
  };
  bool launch_ready() noexcept;
  /// Does each of its streams for kernels have something to do?
  bool saturated() const noexcept;
  void launch_by_kind() noexcept;
  bool launch_equal(fused_kind& kind) noexcept;
  bool describe(task_record* t, launch_request& what, argument* arguments) noexcept;
  void launch(task_record* t, const launch_request& what, fused_kind* kind) noexcept;
  void end(launched&& l, const std::exception_ptr& why) noexcept;
  static std::exception_ptr with_name(const task_record& t, const std::exception_ptr& why) noexcept;
  int next_stream() noexcept;
  ticket put(task_record* t, int stream, const launch_request& what);
  ticket put_each(task_record* t, int stream, const launch_sequence& all);
  void end_steps(task_record* t) noexcept;
  void begin(transfer* x) noexcept;
  void finish(task_record* t) noexcept;
  void finish(transfer* x, std::exception_ptr failed) noexcept;
  void handle_loss(std::exception_ptr why) noexcept;
  bool is_loss(const std::exception_ptr& why) const noexcept;
  bool wait_or_finish() noexcept;
  std::vector<held> by_age(bool& skipped) noexcept;
  object_state* lock_held(const held& h, bool& skipped) noexcept;
  bool has_arrivals() const noexcept;
  // For reports (report.cpp).
  void note_progress(bool did) noexcept;
  std::string snapshot() noexcept;
  /// Nobody else completes it. \pre it has not begun.
  static void claim(task_record* t) noexcept;
  void evict_larger_copies(task_record& t) noexcept;
  error no_memory(task_record& t);
  static std::exception_ptr with_object(const transfer& x, const std::exception_ptr& why) noexcept;

  runtime& home_;
  const std::uint8_t number_;
  const std::unique_ptr<device> device_;
  launch_fuser* const fuser_; // the device's; null: it has none

  const bool own_thread_;
  std::thread thread_;                                 // once it has been needed; by the fiber
  std::atomic<std::thread::id> thread_id_;             // while there is one; others look at it at any time
  std::atomic<tern::detail::fiber*> runs_in_{nullptr}; // or in its thread
  semaphore begin_{0}, idle_{0};
  bool stop_ = false; // before `begin_`

  mutable tern::detail::spin_lock guard_; // of what arrives
  std::vector<task_record*> tasks_in_;
  std::vector<transfer*> transfers_in_;
  std::vector<block> frees_in_;
  bool active_ = false; // there is a fiber
  bool sleeps_ = false; // and it waits for the bell
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
  std::vector<launched> running_;
  fusion fusion_;
  std::vector<described> described_; // for their memory, with the next two
  std::vector<argument> arguments_;
  std::vector<launch_request> equal_;
  std::vector<transfer*> moving_;
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
  unsigned next_stream_ = 0;
  bool opened_ = false, lost_ = false;
  std::exception_ptr found_loss_;
  int idle_rounds_ = 0;
  int still_rounds_ = 0; // in which nothing has gone on, as far as they are counted

  // What it tells reports. Relaxed: for people.
  std::atomic<int> kernels_now_{0}, copies_now_{0}, waiting_now_{0};
  std::atomic<std::int64_t> still_since_{0}; // ticks; 0: it goes on
  tern::detail::spin_lock snapshot_lock_;
  std::string snapshot_; // once nothing has gone on for a while: all that only the device worker may look at

  mutable tern::detail::spin_lock held_guard_;
  std::map<std::pair<std::uint64_t, std::size_t>, object_state*> held_; // by the object's number and the instance
  std::atomic<std::int64_t> bytes_{0};
};

template <class F> bool device_worker::each_held(F&& f) {
  bool skipped = false;
  for (const held& h : by_age(skipped)) {
    object_state* const o = lock_held(h, skipped);
    if (!o) continue;
    const std::unique_lock hold(o->lock, std::adopt_lock);
    if (o->instances[h.instance].exists) f(*o, h.instance);
  }
  return skipped;
}

} // namespace tern::hetero::detail
