// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The devices of a runtime, as data and tasks see them. Internal.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tern/hetero/device/device.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/eviction/eviction_rank.hpp>

namespace tern::hetero::detail {

struct handed_task;
struct object_state;
struct task_record;
struct transfer;

/// A device that is not the host, with the worker that drives it: tasks and transfers are put into
/// its queue, and its memory holds instances. Implemented by `device_worker`.
class device_queue {
public:
  virtual ~device_queue() = default;
  device_queue() = default;
  device_queue(const device_queue&) = delete;
  device_queue& operator=(const device_queue&) = delete;

  // Any thread --------------------------------------------------------------------------------------------------------
  /// Placed here, or (then `acquired`) its transfers are over.
  virtual void arrive(task_record* t) noexcept = 0;
  virtual void arrive(transfer* x) noexcept = 0;
  /// A task that its worker may put behind others that are on another device. \pre `takes_across`.
  virtual void arrive(handed_task&& t) = 0;
  /// Does it take tasks behind those of that one's device?
  virtual bool takes_across(const device_queue& from) const noexcept = 0;
  virtual void free_later(memory_handle memory, std::size_t bytes) noexcept = 0;
  /// A task has been submitted that follows one which is in a stream here.
  virtual void look_for_successors() noexcept = 0;
  /// What a task here follows on other devices has ended.
  void look_again() noexcept { look_for_successors(); }
  /// An object has, or no longer has, an instance here. Under the object's lock.
  virtual void holds(object_state& o, std::size_t instance) = 0;
  virtual void held_no_more(object_state& o, std::size_t instance) noexcept = 0;
  virtual bool holds_any() const noexcept = 0;
  virtual const device& of() const noexcept = 0;
  virtual std::int64_t bytes_held() const noexcept = 0;
  virtual int at_work() const noexcept = 0; ///< kernels and copies that the device works on
  /// What a report says of the device: lines; empty if nothing waits for it. \param limit to wait
  /// for a lock.
  virtual std::string describe(std::chrono::milliseconds limit) = 0;
  /// Is the calling code run by its worker?
  virtual bool is_here() const noexcept = 0;
  /// The scheduler has ended: the worker's thread, if it has one, does too.
  virtual void end_thread() noexcept = 0;
  /// Copies go straight from that one's device to this one's.
  bool reaches(const device_queue& other) const noexcept { return of().reaches(other.of()); }

  // Its worker only ---------------------------------------------------------------------------------------------------
  /// \return null: there is not so much left. \throws error(device_lost).
  virtual memory_handle allocate(std::size_t bytes) = 0;
  /// Calls `f(object, instance)` under the object's lock, in the order of `rank(object, instance)`,
  /// until it says no; not for objects that another thread has locked just now, or has dropped. `f`
  /// may forget the instance. \return whether there are such.
  virtual bool each_held(const std::function<eviction_rank(object_state& o, std::size_t instance)>& rank,
                         const std::function<bool(object_state& o, std::size_t instance)>& f) = 0;
  /// A task has got no instance for its use number `got`, but holds those before it: memory is
  /// freed for it.
  virtual void evict_for(task_record& t, std::size_t got) noexcept = 0;
  /// A task has got no instance of the object, which has as many as an object may.
  virtual void set_over_limit(object_state& o) noexcept = 0;
  /// An allocation has found that the device is lost, which has not been handled yet.
  virtual bool has_found_loss() const noexcept = 0;
};

/// All devices of a runtime, the host first, by number: the host alone until devices have been
/// looked for, then all. Any thread; what it refers to stays.
class device_table {
public:
  explicit device_table(device_info host) {
    first_.infos.push_back(std::move(host));
    first_.queues.emplace_back();
  }
  /// Once, by one thread. \param queues one for each device; null: the host.
  void add(std::vector<device_info> infos, std::vector<std::unique_ptr<device_queue>> queues) {
    all_ = {std::move(infos), std::move(queues)};
    now_.store(&all_, std::memory_order_release); // pairs with `now`: the lists
  }
  std::size_t count() const noexcept { return now().infos.size(); }
  const device_info& info(std::size_t d) const noexcept { return now().infos[d]; }
  device_queue* queue(std::size_t d) const noexcept { return now().queues[d].get(); } ///< null: the host
  /// The memory in which kernels of this device work: a device's number, or 0 for the host's.
  std::uint8_t space_of(std::size_t d) const noexcept {
    return info(d).shares_host_memory ? std::uint8_t{0} : static_cast<std::uint8_t>(d);
  }
  /// \return its number. \throws error(not_found).
  std::size_t number_of(std::string_view id) const;
  /// Calls `f(queue)` for each but the host.
  template <class F> void each_queue(F&& f) const {
    for (const auto& q : now().queues)
      if (q) f(*q);
  }

private:
  struct list {
    std::vector<device_info> infos;
    std::vector<std::unique_ptr<device_queue>> queues;
  };
  // acquire: a thread that has a device's number from elsewhere sees it here, too.
  const list& now() const noexcept { return *now_.load(std::memory_order_acquire); }

  list first_, all_;
  std::atomic<const list*> now_{&first_};
};

} // namespace tern::hetero::detail
