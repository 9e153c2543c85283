// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One scheduler in a simulation: its workers' clocks, and what can run there. Internal.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/wait/indexed_heap.hpp>

namespace tern::sim::detail {

inline constexpr std::int64_t never = tern::detail::wait_limit::never;

/// A fiber that can run.
struct entry {
  std::int64_t at; // not before
  std::uint64_t order;
  tern::detail::runnable* x;
  bool before(const entry& o) const noexcept { return at != o.at ? at < o.at : order < o.order; }
};

/// One thread. A simulation may have 100,000 of them: what a message touches stands together, and
/// the only worker that most have needs no memory of its own.
struct member_state {
  /// What is known of a worker.
  struct timeline {
    std::int64_t clock = 0;
    std::int64_t pushed = never; // since when it has tasklets: no worker takes one before
  };
  explicit member_state(tern::detail::scheduler_core& c)
      : core(c), apart(c.cfg.poll_apart), others(c.workers.size() - 1) {}
  timeline& of(std::size_t worker) noexcept { return worker == 0 ? first : others[worker - 1]; }
  const timeline& of(std::size_t worker) const noexcept { return worker == 0 ? first : others[worker - 1]; }
  std::int64_t earliest(const tern::detail::worker& w) const noexcept;
  /// Does the worker only look after events?
  bool only_polls(const tern::detail::worker& w) const noexcept { return apart && w.index == 0; }
  bool source_has_work() const noexcept { return core.cfg.source && core.cfg.source->has_work(); }
  bool any_tasklets() const noexcept {
    return std::any_of(core.workers.begin(), core.workers.end(), [](const auto& w) { return w->deque.size() > 0; });
  }
  bool quiescent() const noexcept {
    return any.empty() && std::all_of(bound.begin(), bound.end(), [](const auto& b) { return b.empty(); }) &&
           !any_tasklets() && core.outside.empty() && !source_has_work() &&
           std::none_of(core.workers.begin(), core.workers.end(), [](const auto& w) { return w->queue.has_spawner(); });
  }

  tern::detail::scheduler_core& core;
  // What others need to know of it stands together.
  std::int64_t key = never;        // of its turn
  std::uint64_t chance = 0;        // as well
  timeline first;                  // of worker 0
  std::int64_t events_due = never; // when its events want to be polled
  std::int64_t next_timer = never; // the first of its timers, when it was planned
  std::int64_t held_until = 0;
  std::size_t number = 0;
  bool active = false; // it is one of those that run
  bool dead = false;
  bool listed = false; // see any_twice
  const bool apart;
  std::int64_t offered = never; // since when its work source has work
  int turns_without_source = 0; // that its workers have taken although it had some
  tern::detail::indexed_heap<entry> any;
  std::vector<tern::detail::indexed_heap<entry>> bound; // by worker; empty as long as there was none
  std::vector<timeline> others;                         // of the other workers
  std::uint64_t entries = 0;                            // ever made
  std::uint64_t slower = 1024;
};

} // namespace tern::sim::detail
