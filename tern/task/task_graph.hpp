// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Graphs of tasks that are built once and run many times.
///
///     tern::task_graph g;
///     auto a = g.add([] { … }, "read"), b = g.add([] { … }, "left"), c = g.add([] { … }, "right");
///     g.precede(a, b, c);              // b and c after a
///     for (int step = 0; step < 1000; ++step) g.run();

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/task/parallel/graph_store.hpp>
#include <tern/task/tasklet/tasklet.hpp>

namespace tern {
namespace detail {
class divided_graph;
struct task_graph_ways;

/// Callables that may be empty.
template <class F>
concept may_be_empty = std::is_pointer_v<F> || requires(const F& f) {
  f.operator bool();
};
} // namespace detail

/// A directed acyclic graph of functions. A run calls each function once, after all that precede it
/// have returned; functions that no path connects may run at the same time. A run costs no
/// allocation and a few nanoseconds a node.
///
/// Workers take functions from each other. A graph of many short functions that is run again and
/// again is divided among them beforehand, once, if that turns out to be faster.
///
/// A node takes 64 bytes, which have room for a function of 24, and an edge 8 or 16. The next
/// graph gets the memory of one that is gone.
///
/// One context builds and runs; the functions run anywhere and may block. A graph neither changes
/// nor runs twice at the same time (checked: error(invalid_state)). It stays where it is made.
class task_graph {
public:
  /// Names a function of one graph. Copied freely.
  class node {
  public:
    node() = default;

  private:
    friend class task_graph;
    node(const task_graph* graph, std::uint32_t index) : graph_(graph), index_(index) {}
    const task_graph* graph_ = nullptr;
    std::uint32_t index_ = 0;
  };

  explicit task_graph(std::source_location made = std::source_location::current());
  ~task_graph();
  task_graph(const task_graph&) = delete;
  task_graph& operator=(const task_graph&) = delete;

  /// Adds a function without predecessors: anything that is called without arguments. What it
  /// returns is ignored. The name is for pictures and errors.
  /// \throws error(invalid_argument) if `f` is an empty function or a null pointer; what copying
  /// `f` throws: then the graph is as before.
  template <class F>
  requires(std::is_invocable_v<std::decay_t<F>&>) node add(F&& f, std::string name = {}) {
    if constexpr (detail::may_be_empty<std::remove_cvref_t<F>>)
      if (!f) refuse_empty();
    change();
    see_sources(); // those before this one have their edges, mostly
    store_->add_node(std::forward<F>(f));
    if (!name.empty()) [[unlikely]]
      name_last(std::move(name));
    return {this, store_->nodes().size() - 1};
  }
  /// Adds a graph as one function of this one: its run is this node's. It must live as long as this
  /// graph. The same graph in two nodes that may run at the same time is an error when that
  /// happens.
  /// \throws error(invalid_argument) if `inner` is this graph or contains it.
  node add(task_graph& inner, std::string name = {});
  /// `after` begin once `before` has returned. Edges may be given twice.
  /// \throws error(invalid_argument) for nodes of another graph or none.
  template <class... Nodes> void precede(node before, Nodes... after) {
    static_assert((std::is_same_v<Nodes, node> && ...), "precede takes nodes of this graph");
    (add_edge(before, after), ...);
  }

  /// Runs all, and returns when all have returned. In a fiber.
  /// \throws the first exception that a function threw: those that had not begun are then left out,
  /// and the next run begins anew. error(invalid_argument) naming the nodes if the graph has a
  /// cycle; error(invalid_state) outside a fiber.
  void run();

  std::size_t nodes() const noexcept { return store_->nodes().size(); }
  std::size_t edges() const noexcept { return store_->edges().size(); }
  /// The graph in the DOT language of Graphviz; inner graphs as clusters.
  std::string dot() const;

private:
  friend struct detail::task_graph_ways; // for tests
  struct core;
  struct labels;

  void change() {
    if (running_.load(std::memory_order_relaxed)) [[unlikely]]
      refuse_while_running();
    checked_ = false;
  }
  void see_sources() {
    for (const std::uint32_t n = store_->nodes().size(); sources_seen_ < n; ++sources_seen_)
      if (store_->nodes()[sources_seen_].predecessors == 0) sources_.push_back(sources_seen_);
  }
  void add_edge(node before, node after) {
    change();
    if (before.graph_ != this || after.graph_ != this) [[unlikely]]
      refuse_node();
    store_->add_edge(before.index_, after.index_);
    forward_ = forward_ && before.index_ < after.index_;
  }
  [[noreturn]] void refuse_empty() const;
  [[noreturn]] void refuse_node() const;
  [[noreturn]] void refuse_while_running() const;
  void name_last(std::string name);
  bool contains(const task_graph& other) const;
  const task_graph* inner(std::uint32_t i) const noexcept;
  void check();
  /// How runs are made, and how long they took that way.
  enum way : std::uint8_t { stolen, divided };
  way choose(detail::scheduler_core& home);
  void learn(way how, double seconds, const detail::scheduler_core& home) noexcept;
  void begin_stolen();
  void check_cycles() const;
  [[noreturn]] void throw_cycle(const std::vector<std::uint32_t>& pending) const;
  std::string label(std::uint32_t i) const;
  void write_dot(std::string& out, const std::string& prefix, int depth) const;
  static detail::worker_base* run_node(detail::tasklet* t) noexcept;

  std::source_location made_;
  std::unique_ptr<core> core_;     // apart from this, so that its group counts atomically
  detail::graph_store* store_;     // in it
  std::unique_ptr<labels> labels_; // null: there are none
  // Nodes without predecessors, of those that have been looked at; some may have got one since.
  std::vector<std::uint32_t> sources_;
  std::uint32_t sources_seen_ = 0;
  bool forward_ = true;  // all edges lead to nodes that were added later: there is no cycle
  bool checked_ = false; // since the last change: it can be run
  std::atomic<bool> running_{false};
  std::unique_ptr<detail::divided_graph> divided_; // made when it is first tried
  double mean_[2] = {};                            // seconds of a run, by the way; 0: not known
  std::uint32_t runs_ = 0;                         // since it was changed
  int odd_runs_ = 0;                               // in a row, that took another time than those before
  bool dividing_helps_ = true;                     // as far as is known: functions are short
  bool new_division_ = false;                      // it has not been run
  bool always_divided_ = false;                    // for tests
};

} // namespace tern
