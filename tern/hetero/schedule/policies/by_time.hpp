// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the policies share that go by how long tasks are expected to take. Internal.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <tern/hetero/policy.hpp>
#include <tern/hetero/schedule/policies/affinity_table.hpp>
#include <tern/hetero/schedule/policies/load_estimate.hpp>

namespace tern::hetero::detail {

/// A queue for each device, into which a task is put when it becomes ready: where `choose` says, of
/// the devices on which its time is known. EFT, when it is expected to end on one, is max(when the
/// device has time, when the data can be there) + its expected time. What copies take is expected
/// as well; links are queues, and data that are on their way for another task count as such.
///
/// In a queue higher priorities come first. Of equal ones, of the first 16, that with the fewest
/// missing bytes does: what has been copied is used before it has to go.
///
/// Expectations may have been wrong. A device that has nothing to do takes the first task of
/// another one's queue, if by what is known now it ends earlier there.
///
/// Of a plan's tasks, which may run on one device only, a device takes one from another of its
/// model if it has had nothing to do for more than a tenth of what the task takes: the plan was
/// wrong about when that one has time.
///
/// A device on which the task's time is not known is tried: by one task of a size class at a time,
/// and by at most a tenth of the tasks that the device could run; the host also not if its tries
/// took more than a tenth of the time of the tasks elsewhere. (A GPU's first task of a kernel waits
/// until that is compiled: its time says little.) The others go by the times that
/// are known. Where none is, or one never will be (a function of the program's; a device that does
/// not measure), the task goes where the fewest bytes are missing, and a device without work takes
/// it from one that has too much, as under `locality`.
///
/// A task with a key goes to its key's home, and leaves it as affinity_table says. It is no try.
class by_time : public policy {
public:
  void push(ready_task t, std::span<const device_load> devices) final;
  std::optional<placement> pop(std::span<const device_load> devices) final;
  bool follow(ready_task t, int device, std::span<const device_load> devices) final;
  void ended(ready_task t, int device, std::span<const device_load> devices) final;
  /// What there is is learned of when the first task comes; or before, so that nothing is at the
  /// devices then.
  void know(std::span<const device_load> devices) {
    if (devices_.size() < devices.size()) add_devices(devices);
  }

protected:
  struct candidate {
    std::size_t device;
    double seconds;         ///< that the task is expected to take there
    double copies, arrival; ///< seconds on the link; when all of its data are there
    double end;             ///< EFT
  };
  struct queue_of {
    ready_queue tasks;
    load_estimate load;
    int slots = 0;            ///< free ones, when it had no task
    double link_free = 0;     ///< when copies to it can begin
    std::size_t possible = 0; ///< tasks that it could run, so far
    std::size_t tries = 0;    ///< of these
    double tried_seconds = 0; ///< that those took which have ended
    double idle_since = 0;    ///< when it has ended what it had
    bool helps = false;       ///< what it had last was from another one's plan
    std::size_t unknown = 0;  ///< tasks in the queue that could run elsewhere, of which the time is not known
  };

  /// One of `all`, which are in the order of devices and at least one. \param now seconds.
  virtual const candidate& choose(const ready_task& t, std::span<const candidate> all,
                                  std::span<const device_load> devices, double now) = 0;
  /// Device `d` has a free slot and nothing in its queue: tasks may be moved into it.
  virtual void fill(std::size_t /*d*/, std::span<const device_load> /*devices*/) {}

  /// Finds the task's data, for what follows.
  void look_at_data(const ready_task& t) { t.find_data(data_); }
  /// Would the task better go to `d`, which has nothing to do, than stay in the queue of `from`? It
  /// ends earlier there by what is known now.
  virtual bool moves(const ready_task&, std::size_t /*from*/, double /*seconds_there*/, std::size_t /*d*/,
                     double /*seconds*/) {
    return true;
  }

  /// May the task leave `there`, if that is the home of its key? Else it may.
  bool may_leave(const ready_task& t, const candidate& there, const candidate& here, double now);
  /// What copies of the data to the device take, in seconds, as far as no other task has had them
  /// begun; and when all are there. \pre look_at_data, as for the next.
  candidate look_at_copies(const ready_task& t, std::size_t device, double seconds, double now);
  /// Others that need the same data there need not wait for copies of their own.
  void promise_data(const ready_task& t, const candidate& c, double now);
  void put(ready_task t, std::size_t d, float seconds);
  /// \pre the task has been taken out of the device's queue.
  void taken_out(const ready_task& t, std::size_t d) noexcept;

  // As a task's note, which is its expected time:
  static constexpr float not_known = -1;
  static constexpr float never_moves = -2; ///< not known either, and it can run on this device only
  std::vector<queue_of> devices_;

private:
  struct attempt {
    ready_task task;
    std::uint64_t size_class;
    std::size_t device;
    double began = -1; ///< when it was given to the device; below 0: it waits
  };
  struct promise { ///< a piece of data is on its way for another task, or will be
    double arrival;
    double until; ///< when that task is expected to begin
  };
  static constexpr std::size_t looked_at = 16; ///< in a queue, for the one with the fewest missing bytes
  static constexpr std::size_t tried_of = 10;  ///< one in so many tasks may be a try

  /// There is one device, the host, so far: nothing is to be chosen, and nothing need be expected.
  bool is_alone() const noexcept { return devices_.size() == 1; }
  void add_devices(std::span<const device_load> devices);
  void place_again(std::size_t lost, std::span<const device_load> devices);
  std::optional<placement> pop_of_others(std::span<const device_load> devices);
  placement give(ready_task t, std::size_t d);
  void count_time_elsewhere(const ready_task& t, std::size_t d) noexcept;
  /// Completes `candidates_`, of which the devices and seconds are known.
  void expect_ends(const ready_task& t, double now);
  /// The same, and chooses.
  const candidate& best_of(const ready_task& t, std::span<const device_load> devices, double now);
  std::size_t by_bytes(const ready_task& t, std::span<const device_load> devices) const;
  std::optional<std::size_t> home_of(const ready_task& t, std::uint64_t key, std::span<const device_load> devices);
  /// Null: at home, where its time is not known.
  const candidate* at_home_or_elsewhere(const ready_task& t, std::uint64_t key, std::size_t home);
  bool push_with_key(const ready_task& t, std::uint64_t key, std::span<const device_load> devices);
  bool follow_home(ready_task t, std::uint64_t key, std::size_t home, int device);
  bool takes_more(const device_load& l, std::size_t d) const noexcept;
  std::optional<ready_task> take(std::size_t d);
  std::optional<ready_task> take_over(std::size_t d, std::span<const device_load> devices);
  std::optional<ready_task> take_planned(std::size_t d, std::span<const device_load> devices);
  /// If `t`, which would be expected to take `there` seconds where it is queued, ends earlier on
  /// `d`, it is taken out of the queue.
  bool take_from(std::size_t v, const ready_task& t, double there, std::size_t d, double here, double now);
  std::optional<ready_task> take_unknown(std::size_t d, std::span<const device_load> devices);
  static std::uint64_t promised(std::uint64_t piece, std::size_t d) noexcept { return piece * 257 + d; }

  std::size_t queued_ = 0; // tasks, in all queues of devices
  bool plans_ = false;     // there has been a task of one
  // What the clock has said last, if that was when the last task came or ended: reading it costs as
  // much as the rest of giving a task to a device.
  static constexpr float brief = 20e-6F;
  static constexpr int brief_most = 4;
  int brief_ends_ = 0; // since it was read
  double now_ = 0;
  bool now_is_new_ = false;
  ready_queue unplaceable_;
  affinity_table keys_;
  std::vector<attempt> tries_;   // that have not ended
  double seconds_elsewhere_ = 0; // of known tasks that were given to others than the host
  std::unordered_map<std::uint64_t, promise> promises_;
  // For their memory.
  std::vector<candidate> candidates_;
  std::vector<affinity_table::choice> choices_;
  std::vector<attempt> untried_;
  std::vector<read_data> data_;
  std::vector<double> times_;
  std::vector<std::size_t> order_;
};

} // namespace tern::hetero::detail
