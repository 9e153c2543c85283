// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the ranks that are left after a death agree on a new generation (generation.hpp, which is
/// what layers above see). Internal.
///
/// Each rank that has abandoned its generation, and whose handlers of it have ended, reports which
/// deaths it knows to its *coordinator*, the lowest rank that it takes to be alive. A coordinator
/// that has equal reports from all whom it takes to be alive tells them to begin; the generation's
/// number is the number of the dead. Whatever names a death spreads it. A rank that learns of
/// another one reports again, perhaps to another coordinator, and has given up what it had begun
/// meanwhile.
///
/// Two coordinators never begin different generations of one number: their sets of dead ranks were
/// reported by all that are in neither, and what a rank reports only grows. The failure detector
/// must be perfect: no rank is told dead that still runs, and each death is told to all others.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tern/net/failure/generation.hpp>
#include <tern/net/termination/generation_state.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net {

class node;

namespace detail {

/// What a report and a decision tell.
struct standing {
  std::vector<int> dead; ///< ascending
  std::int64_t copy = -1;
  bool finished = false;
  std::vector<std::string> texts{}; ///< what is known of each death
  template <class A> void serialize(A& ar) { ar(dead, copy, finished, texts); }
};

/// A rank's part. Thread-safe, but for what is said to be done where messages arrive.
class survivors {
public:
  explicit survivors(node& here) noexcept : here_(here) {}
  survivors(const survivors&) = delete;
  survivors& operator=(const survivors&) = delete;

  /// As detail::guard.
  void guard();
  /// As detail::recover. \return nothing if a rank has come to the end of the job: then all have
  /// done what the job is for, and it need not be waited for.
  std::optional<recovery> recover(std::int64_t copy);

  // Where messages arrive ---------------------------------------------------------------------------------------------
  /// A rank is dead.
  void learn(generation_state::death d);
  /// A rank has come to the end of the job.
  void leaves(int rank);
  /// \throws error(invalid_data).
  void take_report(int source, standing theirs);
  void take_decision(int source, const standing& all);

private:
  void begin_recovering();
  void end_recovering() noexcept;
  void learn_all(int source, const standing& theirs);
  void abandon();
  void decide();
  void wake();

  node& here_;
  tern::detail::spin_lock guard_; // of what follows
  tern::detail::waiter_list waiting_;
  std::optional<standing> ready_; // what this rank has reported; its own handlers have ended
  std::optional<recovery> begun_;
  std::map<int, standing> reports_; // the latest of each rank
  bool recovering_ = false;         // in a fiber. Not a tern::mutex: that of a dead rank stays locked
  bool over_ = false;
};

} // namespace detail
} // namespace tern::net
