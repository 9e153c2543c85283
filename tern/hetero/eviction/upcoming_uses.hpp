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

/// When a task will run, compared with others: first by `turn`, then by what orders those of one.
struct use_order {
  std::uint64_t turn = 0, within = 0;
  friend auto operator<=>(const use_order&, const use_order&) = default;
};

/// The uses of objects by tasks that have been submitted and have not ended: a forecast, which says
/// what a device's memory is needed for last.
///
/// Off at first, when tasks pay one look for it. `start` switches it on for the rest of the run.
/// Then each task that a policy places is noted when it is submitted, and taken out when it ends.
///
/// Tasks that change one object one after the other are a *chain*. Its first one takes its turn
/// among all that are ready, in the order in which they became so; those that follow are launched
/// behind it for as long as their data are there, and what is left of the chain takes a turn at
/// the end of the queue. So a task's turn is that of its chain, and one more round of the queue for
/// each run of tasks that come before it, which is as long as runs have been of late. What a chain
/// waits for on others is not looked at: if its first task is not ready yet, it comes after all
/// that are, by levels. The level of a task is one more than that of the last tasks whose order it
/// follows; of one that follows none, that of the task that ended last.
///
/// Threads: any. Never locks an object. Memory: 80 bytes a use, of `most_tasks` tasks at most:
/// tasks beyond that are not noted, and their uses count as far away. Source: decision 0089;
/// Belady's rule, "A study of replacement algorithms", IBM Systems Journal 5(2), 1966, for the part
/// of the future that is known.
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
  /// It is ready, and waits for its turn; or again, as its device is lost. The task may not have
  /// been noted.
  void ready(task_record& t) noexcept {
    if (are_noted(t)) [[unlikely]]
      has_turn(t, true);
  }
  /// It has been put behind its predecessors on a device.
  void follows(task_record& t) noexcept {
    if (are_noted(t)) [[unlikely]]
      has_turn(t, false);
  }
  /// \pre it is on; the task's objects are still there. The task may not have been noted, or
  /// not any more.
  void ended(task_record& t) noexcept;

  /// Does it know of the task's uses?
  static bool are_noted(task_record& t) noexcept;

  /// Are all uses known but those that are far away?
  bool complete() const noexcept;
  /// To `next`: of any device, by levels alone.
  static constexpr std::uint8_t any_device = 255;
  /// The next use of the part on device `d`. Nothing: there is none in sight.
  std::optional<use_order> next(const object_state& object, const box& part, std::uint8_t d) const noexcept;
  std::size_t tasks() const noexcept;   ///< that are noted
  std::size_t objects() const noexcept; ///< that these use

private:
  struct uses_of_object;
  struct upcoming {
    const task_record* task; ///< compared only; null: it has ended
    std::uint64_t level, number;
    box part;
    std::int64_t devices;  ///< where it may run, by number
    uses_of_object* chain; ///< that of what it writes first; null: it writes nothing
    std::uint64_t link;    ///< its number there
  };
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct uses_of_object {
    std::uint64_t written = 0, used = 0; ///< the highest levels
    std::uint64_t links = 0;             ///< of its chain: the number of the next task
    std::uint64_t head = 0;              ///< of the first that has not ended
    std::uint64_t known = none;          ///< of the last that was ready, or followed
    std::uint64_t began = 0, turn = 0;   ///< the last that was ready, and its turn; 0: there was none
    std::size_t first = 0, left = 0;     ///< in `all`: before `first` all have ended
    std::size_t ended = 0;               ///< behind the one that ended last: the next to end is often near
    std::vector<upcoming> all;
  };
  void has_turn(task_record& t, bool of_its_own) noexcept;
  use_order expected(const upcoming& u) const noexcept;

  std::atomic<bool> on_{false};
  mutable tern::detail::spin_lock lock_;
  std::unordered_map<const object_state*, uses_of_object> objects_; // address: looked up only
  std::uint64_t number_ = 0, level_now_ = 0;
  std::uint64_t last_turn_ = 0, turn_now_ = 0; // that were given; of those that ended, the last
  double run_ = 1;                             // tasks of a chain in a turn, the mean of late
  std::uint64_t unknown_ = 0;                  // so many tasks may be left that were not noted
  std::size_t tasks_ = 0;
};

} // namespace tern::hetero::detail
