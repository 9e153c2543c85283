// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where tasks run that could run on several devices: a policy decides when nothing is left that
/// they wait for. Chosen by the option `hetero-policy`; a program registers its own under a name.
///
/// A policy is a small class without locks: the runtime calls it from one context at a time.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tern/base/options.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::hetero {

namespace detail {
struct task_record;
}

/// A task that is ready to run. A reference: cheap to copy, valid until `pop` has returned it.
class ready_task {
public:
  explicit ready_task(detail::task_record* t) noexcept : task_(t) {}
  const char* name() const noexcept;
  int priority() const noexcept; ///< higher ones first
  /// Whether it has a variant for the device, and the user allows it.
  bool may_run_on(int device) const noexcept;
  /// What would have to be copied to the device first, in bytes.
  std::int64_t bytes_missing(int device) const;
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
  /// The first that `wanted` accepts, taken out.
  template <class F> std::optional<ready_task> take(F&& wanted) {
    if (count_ > 0)
      for (auto& [priority, all] : lines_)
        for (detail::task_record *before = nullptr, *t = all.first; t; before = t, t = after(t))
          if (wanted(ready_task(t))) return unlink(all, before, t);
    return std::nullopt;
  }

private:
  struct line { // of one priority
    detail::task_record *first = nullptr, *last = nullptr;
  };
  static detail::task_record* after(detail::task_record* t) noexcept;
  ready_task unlink(line& of, detail::task_record* before, detail::task_record* t) noexcept;
  std::map<int, line, std::greater<>> lines_;
  std::size_t count_ = 0, empty_lines_ = 0;
};

class policy {
public:
  virtual ~policy() = default;
  virtual const char* name() const noexcept = 0;
  virtual void push(ready_task t, std::span<const device_load> devices) = 0;
  /// What to start now, and where; nothing if no device has a free slot for what there is. A task
  /// that may run on none that is left must be given back with device -1.
  virtual std::optional<placement> pop(std::span<const device_load> devices) = 0;
};

/// Makes a policy; `seed` for those that draw random numbers.
using policy_maker = std::unique_ptr<policy> (*)(std::uint64_t seed);
/// Makes a policy known by a name. Before the runtime starts; a static object. There are:
/// `locality` (the default: where most of the bytes are; a device without work takes from one that
/// has too much), `eager` (first come, first served, by the device with the fewest tasks),
/// `round-robin`, `random`.
class policy_registration {
public:
  policy_registration(std::string_view name, policy_maker make);
};
/// \throws error(invalid_option) for a name that none has, with those that there are.
std::unique_ptr<policy> make_policy(std::string_view name, std::uint64_t seed = 1);

extern const option<std::string> hetero_policy; ///< `--tern-hetero-policy`

} // namespace tern::hetero
