// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which submitted tasks will use what, in which order. Internal.

#include <atomic>
#include <compare>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <tern/hetero/record/box.hpp>
#include <tern/hetero/record/task_record.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

/// When a task will run, compared with others: tasks run about level by level, as each becomes
/// ready when the last one that it follows has ended; those of a level in the order of submission.
struct use_order {
  std::uint64_t level = 0, number = 0;
  friend auto operator<=>(const use_order&, const use_order&) = default;
};

/// The uses of objects by tasks that have been submitted and have not ended: a forecast, which says
/// what a device's memory is needed for last.
///
/// Off at first, when tasks pay one look for it. `start` switches it on for the rest of the run.
/// Then each task that a policy places is noted when it is submitted, and taken out when it ends.
/// The level of a task is one more than that of the last tasks whose order it follows; of one that
/// follows none, that of the task that ended last.
///
/// Threads: any. Never locks an object. Memory: 48 bytes a use, of `most_tasks` tasks at most:
/// tasks beyond that are not noted, and their uses count as far away. Source: Belady's rule, "A
/// study of replacement algorithms", IBM Systems Journal 5(2), 1966, for the part of the future
/// that is known.
class upcoming_uses {
public:
  static constexpr std::size_t most_tasks = 32 * 1024;
  /// Of one object, so many are looked at for the next one.
  static constexpr std::size_t most_looked_at = 64;

  /// \param before so many tasks have been submitted, and may use anything: until as many have
  /// ended, what has no use in sight may have one.
  void start(std::uint64_t before) noexcept;
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  /// By its submitter, before it may run. Sets `use::noted` of its uses, if they have been.
  void note(task_record& t) noexcept;
  /// \pre it is on; the task's objects are still there. The task may not have been noted, or
  /// not any more.
  void ended(task_record& t) noexcept;

  /// Does it know of the task's uses?
  static bool are_noted(task_record& t) noexcept;

  /// Are all uses known but those that are far away?
  bool complete() const noexcept;
  static constexpr std::uint8_t any_device = 255; ///< to `next`
  /// The next use of the part on device `d`. Nothing: there is none in sight.
  std::optional<use_order> next(const object_state& object, const box& part, std::uint8_t d) const noexcept;
  std::size_t tasks() const noexcept;   ///< that are noted
  std::size_t objects() const noexcept; ///< that these use

private:
  struct upcoming {
    const task_record* task; ///< compared only; null: it has ended
    use_order order;
    box part;
    std::int64_t devices; ///< where it may run, by number
  };
  struct uses_of_object {
    std::uint64_t written = 0, used = 0; ///< the highest levels
    std::size_t first = 0, left = 0;     ///< in `all`: before `first` all have ended
    std::size_t ended = 0;               ///< behind the one that ended last: the next to end is often near
    std::vector<upcoming> all;
  };

  std::atomic<bool> on_{false};
  mutable tern::detail::spin_lock lock_;
  std::unordered_map<const object_state*, uses_of_object> objects_; // address: looked up only
  std::uint64_t number_ = 0, level_now_ = 0;
  std::uint64_t unknown_ = 0; // so many tasks may be left that were not noted
  std::size_t tasks_ = 0;
};

} // namespace tern::hetero::detail
