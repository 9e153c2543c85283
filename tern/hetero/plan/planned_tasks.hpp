// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that are submitted together again and again, and placed ahead (planned.hpp). Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <tern/hetero/graph/recorded_tasks.hpp>
#include <tern/hetero/plan/heft.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

/// Where each task of a round goes, and how urgent it is.
struct task_plan {
  std::vector<std::uint8_t> device;
  std::vector<int> priority;
  double seconds; ///< expected of a round
};

/// How long rounds of one shape took. Any thread.
class round_times {
public:
  enum way : std::uint8_t { by_policy, by_plan };
  /// Every so many rounds the way that is not the better one is tried.
  static constexpr int compared_every = 16;

  /// Tasks differ from those of the round before: nothing is known. \param shape of the new ones.
  void restart(std::uint64_t shape) noexcept;
  /// How the next round goes.
  way next() noexcept;
  /// Has `next` chosen the plan anew after the policy was the better way? Then its expectations are
  /// old.
  bool stale() const noexcept;
  /// A round is over. Rounds overlap: what counts is the time since the one before was over, too.
  /// \param begun, now in seconds. One of another shape does not count.
  void ended(std::uint64_t shape, way how, double begun, double now) noexcept;

private:
  mutable tern::detail::spin_lock lock_; // of all that follows
  std::uint64_t shape_ = 0;
  std::array<double, 2> seconds_{-1, -1}; // of the last round of each way; below 0: not known
  double last_end_ = 0;
  int since_ = 0; // rounds since both were compared
  bool stale_ = false;
};

/// What a `tern::planned` knows from round to round. By its fiber only, but for `times`.
struct plan_memo {
  const char* name;
  std::uint64_t shape = 0;
  std::optional<task_plan> plan;
  std::vector<std::uint32_t> last; ///< tasks of such a round that no other follows
  round_times times;
  bool said = false; ///< that there is no plan
};

class planned_collector final : public collector {
public:
  planned_collector(runtime& home, std::shared_ptr<plan_memo> memo);
  void submit();

private:
  /// \return nothing if the time of a task is known nowhere.
  std::optional<task_plan> make_plan() const;
  void follow_plan(task_record& t, std::uint8_t device, int priority) const noexcept;
  const std::shared_ptr<plan_memo> memo_;
};

} // namespace tern::hetero::detail
