// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where tasks run that could run on several devices: a policy decides when nothing is left that
/// they wait for, or (`follow`) when all of that is on one device. Chosen by the option
/// `hetero-policy`; a program registers its own under a name.
///
/// A policy is a small class without locks: the runtime calls it from one context at a time. It may
/// go by how long tasks and copies are expected to take, as far as performance models know.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/base/policy_parameters.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::hetero {

namespace detail {
struct task_record;
}

/// A piece of what a task reads that is not valid where the task may run.
struct missing_data {
  std::uint64_t piece = 0; ///< equal for the same piece, whatever task reads it
  std::int64_t bytes = 0;
  int from = 0; ///< the device that has it; 0: the host
};
/// A piece of what a task reads, and where it is.
struct read_data {
  missing_data as_missing;    ///< where it is not
  std::uint64_t memories = 0; ///< those that have it: bit d is the memory of device d, bit 0 the host's
};

/// A task that is ready to run. A reference: cheap to copy, valid until `pop` has returned it.
class ready_task {
public:
  explicit ready_task(detail::task_record* t) noexcept : task_(t) {}
  const char* name() const noexcept;
  int priority() const noexcept; ///< higher ones first
  /// Tasks of one key belong on one device (affinity.hpp).
  std::optional<std::uint64_t> affinity() const noexcept;
  /// Whether it has a variant for the device, and the user allows it.
  bool may_run_on(int device) const noexcept;
  /// A plan (planned.hpp) has chosen its device, so that it may run on that one only.
  bool is_planned() const noexcept;
  /// It goes to this device instead. \pre is_planned, the device is of the same model
  /// (`device_load::model`), and it has not been given to one.
  void plan_for(int device) noexcept;
  /// What would have to be copied to the device first, in bytes.
  std::int64_t bytes_missing(int device) const;
  /// The same by pieces, which take the place of what `into` holds.
  void find_missing(int device, std::vector<missing_data>& into) const;
  /// All that it reads, for asking about several devices at the cost of one.
  void find_data(std::vector<read_data>& into) const;
  /// Is that not valid where tasks of the device work?
  bool is_missing(const read_data& piece, int device) const noexcept;

  // What is expected of it, by performance models (docs/concepts/devices.md), in seconds ------------------------------
  /// How long it will run on the device, without copies and waiting. Nothing where the models know
  /// too little.
  std::optional<double> expected_time(int device) const;
  /// The same of all devices at once, which costs less. \param into has an entry for each, which is
  /// set: below 0 if it is not known.
  void expected_times(std::vector<double>& into) const;
  /// How long a copy of so many bytes takes, by way of the host where it must. Nothing where the
  /// models know too little.
  std::optional<double> expected_copy(int from, int to, std::int64_t bytes) const;
  /// What running for so long takes there beyond idling, in joules. Nothing where the device's
  /// power is not known.
  std::optional<double> expected_joules(int device, double seconds) const;
  /// What the device takes while it is idle, in watts. Nothing where its power is not known.
  std::optional<double> idle_watts(int device) const;
  /// Equal for tasks that teach, and go by, the same model on this device: one kernel, equal sizes.
  /// 0: its time is not measured there, so it will never be known.
  std::uint64_t size_class(int device) const;

  // For policies that plan --------------------------------------------------------------------------------------------
  /// By the clock of fibers, in seconds; virtual in simulations.
  double now() const;
  /// A number that a policy keeps with the task from `push` to `ended`; 0 at first.
  float note() const noexcept;
  void set_note(float n) noexcept;
  friend bool operator==(const ready_task&, const ready_task&) noexcept = default;

  detail::task_record* inside() const noexcept { return task_; }

private:
  detail::task_record* task_;
};

/// A device as policies see it. Their numbers are indices of the span that `push` and `pop` get; 0
/// is the host. The span may have the host alone until the first task that could run on another
/// device.
struct device_load {
  const device_info* info = nullptr;
  int tasks = 0;      ///< that run there, or are about to: their data are on their way
  int free_slots = 0; ///< how many tasks more it makes sense to give it now
  bool lost = false;
  int model = 0; ///< equal for like devices: tasks are taken to last equally long on them
};

struct placement {
  ready_task task;
  int device; ///< -1: no device that it may run on is left
};

/// First in, first out among tasks of one priority. Nothing is allocated for a task, but for the
/// first of a priority.
class ready_queue {
public:
  void push(ready_task t);
  bool empty() const noexcept { return count_ == 0; }
  std::size_t size() const noexcept { return count_; }
  /// The one that came first of the highest priority; it stays. \pre not empty.
  ready_task first() const noexcept {
    auto at = lines_.begin();
    while (!at->second.first) ++at;
    return ready_task(at->second.first);
  }
  /// The first that `wanted` accepts, taken out.
  template <class F> std::optional<ready_task> take(F&& wanted) {
    if (count_ > 0)
      for (auto& [priority, all] : lines_)
        for (detail::task_record *before = nullptr, *t = all.first; t; before = t, t = after(t))
          if (wanted(ready_task(t))) return unlink(all, before, t);
    return std::nullopt;
  }
  /// The first that may run on the device and that `wanted` accepts, taken out. Where none may run
  /// there, it looks again only when one has come.
  template <class F> std::optional<ready_task> take_for(int device, F&& wanted) {
    const std::uint64_t bit = std::uint64_t{1} << device;
    if (none_for_ & bit) return std::nullopt;
    bool some = false;
    auto found = take([&](const ready_task& t) {
      if (!t.may_run_on(device)) return false;
      some = true;
      return wanted(t);
    });
    if (!some) none_for_ |= bit;
    return found;
  }
  std::optional<ready_task> take_for(int device) {
    return take_for(device, [](const ready_task&) { return true; });
  }
  /// Of the first `most` of the highest priority, the one for which `cost`, a number not below 0,
  /// is least, taken out; the first of several.
  template <class F> std::optional<ready_task> take_least(std::size_t most, F&& cost) {
    if (count_ == 0) return std::nullopt;
    auto at = lines_.begin();
    while (!at->second.first) ++at;
    detail::task_record *before_best = nullptr, *best = at->second.first;
    auto least = most > 1 && after(best) ? cost(ready_task(best)) : decltype(cost(ready_task(best)))();
    detail::task_record* before = best;
    for (detail::task_record* t = after(best); t && --most > 0 && least > 0; before = t, t = after(t))
      if (const auto c = cost(ready_task(t)); c < least) {
        least = c;
        before_best = before;
        best = t;
      }
    return unlink(at->second, before_best, best);
  }

private:
  struct line { // of one priority
    detail::task_record *first = nullptr, *last = nullptr;
  };
  static detail::task_record* after(detail::task_record* t) noexcept;
  ready_task unlink(line& of, detail::task_record* before, detail::task_record* t) noexcept;
  std::map<int, line, std::greater<>> lines_;
  std::size_t count_ = 0, empty_lines_ = 0;
  std::uint64_t none_for_ = 0; ///< bit d: nothing here may run on device d
};

class policy {
public:
  virtual ~policy() = default;
  virtual const char* name() const noexcept = 0;
  virtual void push(ready_task t, std::span<const device_load> devices) = 0;
  /// What to start now, and where; nothing if no device has a free slot for what there is. A task
  /// that may run on none that is left must be given back with device -1.
  virtual std::optional<placement> pop(std::span<const device_load> devices) = 0;
  /// All that the task waits for runs on the device, or is in its streams: is it to be launched
  /// there behind that, before it is ready? Then it will not be pushed, and ends as if `pop` had
  /// given it to the device, but has no slot. Else it is pushed when it is ready. By default yes if
  /// none of its data are missing there, and it would not keep a device waiting that has nothing to
  /// do; and where it could run on no other.
  virtual bool follow(ready_task t, int device, std::span<const device_load> devices);
  /// Does it ask what tasks take in joules? Then power is measured, where there are counters. Asked
  /// once, before all else.
  virtual bool weighs_energy() const noexcept { return false; }
  /// A task that `pop` has given to the device has ended there, or has left a device that was lost,
  /// and is pushed again. Of the task only what says "For policies that plan" may be asked, and
  /// whether it is the same.
  virtual void ended(ready_task, int /*device*/, std::span<const device_load>) {}
};

/// Makes a policy; `seed` for those that draw random numbers.
using policy_maker = std::unique_ptr<policy> (*)(std::uint64_t seed);
/// The same for one with parameters, for which it asks `given`.
using policy_maker_with_parameters = std::unique_ptr<policy> (*)(std::uint64_t seed, policy_parameters& given);
/// Makes a policy known by a name. Before the runtime starts; a static object. There are:
/// `auto` (the default: `locality`, and `dmda` when it knows enough), `locality` (where most of the
/// bytes are; a device without work takes from one that has too much), `eager` (first come, first
/// served, by the device with the fewest tasks), `round-robin`, `random`, and by performance models
/// (docs/concepts/devices.md) `dmda` (where a task is expected to end first), `steal` (devices of
/// one model take from each other) and `energy` (where it costs the fewest joules without making
/// the whole much longer).
class policy_registration {
public:
  policy_registration(std::string_view name, policy_maker make);
  policy_registration(std::string_view name, policy_maker_with_parameters make);
};
/// \param text NAME or NAME:PARAMETER=VALUE,…, as `dmda:alpha=1,beta=2`. \throws
/// error(invalid_option) for a name that none has, with those that there are, and for parameters
/// that the policy does not have or allow.
std::unique_ptr<policy> make_policy(std::string_view text, std::uint64_t seed = 1);

extern const option<std::string> hetero_policy; ///< `--tern-hetero-policy`

} // namespace tern::hetero
