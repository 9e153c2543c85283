// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runs of a task_graph that is divided among the workers beforehand. Internal.
///
/// Where nodes are stolen as they become ready, each edge between two workers costs several lines
/// of the cache that go from core to core, and neighbours in the graph soon belong to different
/// workers. A graph of short functions that is run again and again is better divided once: a node
/// goes where most of its predecessors are, and each worker gets its share of every level.
///
/// Contract
/// - A *part* has its nodes, their counters and its queues for itself. The tasklet that runs it,
///   its *strand*, is the only one that touches them. There is at most one strand of a part, and
///   any worker may run it, also all strands one after the other.
/// - An edge to another part is an entry in an array, which the one part writes and the other one
///   reads. Nothing waits for a line of another core but the reader.
/// - Nodes that others wait for come first in a part.
/// - A strand that has nothing to do looks for entries for a few microseconds, while another part
///   is being run, and then ends. The next entry makes another one.
/// - A function may wait. Then its fiber is left, and another strand goes on with the part; the one
///   that waited gives its node back when it has returned.
///
/// How no entry is lost. `part::state` says what a part that has written an entry must do:
///
///     running, queued: nothing; idle: queue the strand, if it is the first; leaving: say `mailed`
///
/// A strand that is about to end says `leaving`, passes the barrier that is one for all threads,
/// and looks at its entries; so the writer sees `leaving`, or the strand sees the entry (Dekker).
/// It ends if it can change `leaving` to `idle`, and not if it finds `mailed` there. Model:
/// tests/models/parts.pml.
///
/// Source: static schedules of Gerasoulis, Yang: A comparison of clustering heuristics for
/// scheduling directed acyclic graphs (1992); that of the nodes that cross first is ours.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <tern/task/parallel/graph_store.hpp>
#include <tern/task/tasklet/tasklet.hpp>

namespace tern::detail {

class divided_graph {
public:
  static constexpr std::size_t most_parts = 64, most_nodes = std::size_t{1} << 24, least_nodes = 32; ///< of a part

  /// Can graphs of so many nodes be divided there?
  static bool possible(const scheduler_core& home, std::size_t nodes) noexcept;
  /// \param graph without a cycle; lives as long as this, and does not change. \pre it is possible.
  divided_graph(scheduler_core& home, group_state& group, const graph_store& graph);
  ~divided_graph();
  divided_graph(const divided_graph&) = delete;
  divided_graph& operator=(const divided_graph&) = delete;
  bool is_of(const scheduler_core& home) const noexcept { return &home == &core_; }
  /// In which part a node is. For tests.
  std::size_t part_of(std::uint32_t i) const noexcept { return place_[i] >> part_shift; }

  /// Begins a run, in a fiber. All is done when the group, which was empty, is.
  void begin();

private:
  struct node;
  struct part;
  class strand;
  static constexpr unsigned part_shift = 24; // a place: the part, and the number there
  static constexpr std::uint32_t place_mask = (1u << part_shift) - 1;

  std::vector<std::uint32_t> divide(const graph_store& graph);
  static worker_base* run_part(tasklet* t) noexcept;
  void finish(part& mine, std::uint32_t i) noexcept;
  bool wait_for_more(const part& mine) const noexcept;
  bool stays(part& mine) noexcept;
  void wake(part& to) noexcept;
  void queue(part& p) noexcept;
  void give_back(part& p, std::uint32_t i) noexcept;
  void take_returned(part& mine) noexcept;

  scheduler_core& core_;
  group_state& group_;
  std::vector<std::uint32_t> place_; // of each node
  std::unique_ptr<part[]> parts_;
  std::size_t part_count_;
  std::uint32_t run_ = 0;
};

} // namespace tern::detail
