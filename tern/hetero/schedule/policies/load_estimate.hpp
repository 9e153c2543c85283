// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// When a device will have time for one more task. Internal.

#include <cstddef>
#include <vector>

#include <tern/hetero/policy.hpp>

namespace tern::hetero::detail {

/// What a device has to do, in expected seconds: tasks that a policy keeps for it (queued), and
/// those that it has been given, of which the first few run at the same time and the others follow.
///
/// Requires that each task is queued, taken out or given, and ended in this order; times in
/// seconds by one clock. Guarantees that a task that takes longer than expected, or ends early,
/// counts for what it took once it has ended, and that no time is before `now`.
///
/// How many tasks a device runs at the same time, its *units*, is measured: the expected times of
/// tasks that have ended, over the time in which they did, while it always had more to do.
///
/// Threads: one at a time. Costs: `free_at` after a change looks at all tasks given, else at the
/// priorities queued.
class load_estimate {
public:
  /// Tasks that end until the units are taken anew.
  static constexpr int window = 16;

  /// \param units at first; \param most that there can be.
  load_estimate(int units, int most);

  void queue(int priority, double seconds);
  /// It leaves the queue, for this device or another.
  void take_out(int priority, double seconds) noexcept;
  /// \param seconds below 0: not known.
  void give(const ready_task& t, double seconds, double now);
  /// Of a task that was given.
  void end(const ready_task& t, double now);

  /// When a task of the priority could begin, if its data were there.
  double free_at(int priority, double now);
  /// When what it has been given is over, without what is queued.
  double running_until(double now);
  /// What all queued tasks take, one after the other, as far as that is known.
  double queued() const noexcept;
  int units() const noexcept { return units_; }
  std::size_t given() const noexcept { return given_.size(); }

private:
  struct entry {
    ready_task task;
    double seconds;
    double begin; ///< below 0: it waits
  };
  struct line { // of one priority
    int priority;
    double seconds;
    std::size_t tasks;
  };
  std::vector<line>::iterator line_of(int priority) noexcept;
  static bool waits(const entry& e) noexcept { return e.begin < 0; }
  void begin_waiting(double now) noexcept;
  void measure(double seconds, double now) noexcept;
  bool has_more() const noexcept; ///< than it runs at a time
  void restart(double now) noexcept;
  double when_given_are_over(double now);

  int units_;
  const int most_;
  std::vector<entry> given_; // in this order
  std::vector<line> queued_; // higher priorities first
  std::vector<double> ends_; // for its memory
  double free_ = 0;          // of `when_given_are_over`, unless `changed_`
  bool changed_ = true;
  // Since when the device has always had more to do, and what has ended since then.
  double since_ = 0, ended_ = 0;
  int count_ = -1; ///< below 0: it has not
};

} // namespace tern::hetero::detail
