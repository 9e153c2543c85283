// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The nodes and edges of a task_graph, and their memory. Internal.
///
/// A graph that is built, run once and dropped costs what building costs, twice: meanwhile the
/// other workers have nothing to do. So
/// - a node is one line of the cache, with its counter and, if it is small, its function;
/// - a function is made where it stays, and never moves;
/// - a node's edges are a list in one array, which the first run follows as it is; for those that
///   come later they are sorted;
/// - all of it lies in chunks that the next graph gets, which then are in a cache.
///
/// Memory of a graph: 64 bytes a node, 8 an edge (16 from the second run on), and functions larger
/// than 24 bytes.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/language/compiler.hpp>
#include <tern/task/tasklet/tasklet.hpp>

namespace tern::detail {

struct graph_node;

/// How a node's function is called and destroyed.
struct graph_function {
  void (*call)(graph_node&);
  void (*destroy)(graph_node&) noexcept; ///< null: nothing to do
};

/// Ends a list of edges.
constexpr std::uint32_t no_edge = std::numeric_limits<std::uint32_t>::max();

struct graph_edge {
  std::uint32_t to = 0;
  std::uint32_t next = no_edge; ///< of the same node
};

/// What building and running need of a node.
struct alignas(64) graph_node : tasklet {
  const graph_function* function = nullptr;
  std::atomic<std::uint32_t> pending{0}; ///< predecessors that have not returned in this run
  std::uint32_t predecessors = 0;
  std::uint32_t first = no_edge, last = no_edge;
  alignas(8) std::byte storage[24]; ///< the function, or where it is

  void operator()() { function->call(*this); }
};
static_assert(sizeof(graph_node) == 64);

/// Pieces of memory of one size, aligned to a line of the cache. What one graph has given back the
/// next one gets, whichever thread it is on; at most 8 MiB wait for that.
class graph_chunks {
public:
  static constexpr std::size_t bytes = std::size_t{32} * 1024;

  graph_chunks() = default;
  ~graph_chunks();
  graph_chunks(const graph_chunks&) = delete;
  graph_chunks& operator=(const graph_chunks&) = delete;
  void swap(graph_chunks& other) noexcept { all_.swap(other.all_); }
  /// \throws std::bad_alloc.
  void* add();
  void* operator[](std::size_t i) const noexcept { return all_[i]; }

private:
  std::vector<void*> all_;
};

[[noreturn]] void throw_too_large();

/// Elements that stay where they are, and are numbered.
/// \tparam T is not destroyed.
template <class T> class graph_row {
  static constexpr std::uint32_t in_chunk = graph_chunks::bytes / sizeof(T);
  static_assert((in_chunk & (in_chunk - 1)) == 0 && std::is_trivially_destructible_v<T>);

public:
  void swap(graph_row& other) noexcept {
    chunks_.swap(other.chunks_);
    std::swap(free_, other.free_);
    std::swap(end_, other.end_);
    std::swap(size_, other.size_);
  }
  std::uint32_t size() const noexcept { return size_; }
  T& operator[](std::uint32_t i) const noexcept { return static_cast<T*>(chunks_[i / in_chunk])[i % in_chunk]; }
  /// Memory for one more, which `count` makes a part of the row.
  /// \throws std::bad_alloc; error(invalid_argument) if there are nearly 2^32.
  T* next() {
    if (free_ == end_) [[unlikely]] {
      if (size_ > no_edge - in_chunk) throw_too_large();
      free_ = static_cast<T*>(chunks_.add());
      end_ = free_ + in_chunk;
    }
    return free_;
  }
  void count() noexcept {
    ++free_;
    ++size_;
  }
  /// \throws as `next`.
  void push_back(const T& one) {
    ::new (static_cast<void*>(next())) T(one);
    count();
  }

private:
  graph_chunks chunks_;
  T *free_ = nullptr, *end_ = nullptr;
  std::uint32_t size_ = 0;
};

/// One context at a time changes it.
class graph_store {
public:
  graph_store(group_state& group, tasklet::run_function run) noexcept : group_(&group), run_(run) {}
  ~graph_store();
  graph_store(const graph_store&) = delete;
  graph_store& operator=(const graph_store&) = delete;

  const graph_row<graph_node>& nodes() const noexcept { return nodes_; }
  const graph_row<graph_edge>& edges() const noexcept { return edges_; }

  /// \throws what making the function from `f` throws, and as `next`: then there is no node more.
  template <class F> void add_node(F&& f) {
    using callable = std::decay_t<F>;
    graph_node* const made = ::new (static_cast<void*>(nodes_.next())) graph_node;
    made->run = run_;
    made->group = group_;
    made->function = function_of<callable>();
    if constexpr (is_inside<callable>) {
      ::new (static_cast<void*>(made->storage)) callable(std::forward<F>(f));
    } else {
      void* const at = memory(sizeof(callable), alignof(callable));
      ::new (static_cast<void*>(made->storage))(callable*)(::new (at) callable(std::forward<F>(f)));
    }
    if constexpr (!std::is_trivially_destructible_v<callable>) destroys_ = true;
    nodes_.count();
  }
  /// \pre both are nodes, and no run is under way. \throws as `next`.
  void add_edge(std::uint32_t from, std::uint32_t to) {
    const std::uint32_t number = edges_.size();
    edges_.push_back({to, no_edge});
    graph_node& before = nodes_[from];
    if (before.first == no_edge)
      before.first = number;
    else
      edges_[before.last].next = number;
    before.last = number;
    graph_node& after = nodes_[to];
    after.pending.store(++after.predecessors, std::memory_order_relaxed); // as after a run
    if (!sorted_.empty()) [[unlikely]]
      sorted_.clear();
  }
  /// Calls `f(from, to)` for each edge, those of a node in the order in which they were added.
  template <class F> void each_edge(F&& f) const {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i)
      for (std::uint32_t k = nodes_[i].first; k != no_edge; k = edges_[k].next) f(i, edges_[k].to);
  }
  /// For graphs that are run again; until there is another edge.
  /// \throws std::bad_alloc.
  void sort_edges();
  bool sorted() const noexcept { return sorted_.size() == edges_.size(); }
  /// Calls `f(node)` for each successor of `n`, in the order in which the edges were added. Any
  /// thread, during a run.
  template <class F> void each_successor(const graph_node& n, F&& f) const {
    if (!sorted_.empty()) {
      if (n.first == no_edge) return;
      graph_node* const* const to = sorted_.data();
      for (std::uint32_t k = n.first, last = n.last; k <= last; ++k) f(*to[k]);
    } else {
      for (std::uint32_t k = n.first; k != no_edge;) {
        const graph_edge& e = edges_[k];
        k = e.next;
        f(nodes_[e.to]);
      }
    }
  }

private:
  template <class F> static constexpr bool is_inside = sizeof(F) <= sizeof(graph_node::storage) && alignof(F) <= 8;

  template <class F> static F& in(graph_node& n) noexcept {
    if constexpr (is_inside<F>)
      return *std::launder(reinterpret_cast<F*>(n.storage));
    else
      return **std::launder(reinterpret_cast<F**>(n.storage));
  }
  template <class F> static const graph_function* function_of() noexcept {
    static constexpr graph_function made{
        [](graph_node& n) { static_cast<void>(in<F>(n)()); },
        std::is_trivially_destructible_v<F> ? nullptr : +[](graph_node& n) noexcept { in<F>(n).~F(); }};
    return &made;
  }
  /// For a function. Lives as long as the store.
  void* memory(std::size_t size, std::size_t alignment);

  struct large_block {
    void* at;
    std::size_t alignment;
  };

  group_state* const group_;
  const tasklet::run_function run_;
  bool destroys_ = false; ///< some functions
  graph_row<graph_node> nodes_;
  graph_row<graph_edge> edges_;
  std::vector<graph_node*> sorted_; ///< where edges lead, those of a node side by side; none: they are not sorted
  graph_chunks functions_;
  std::byte* free_ = nullptr; ///< in the last chunk of functions
  std::size_t free_bytes_ = 0;
  std::vector<large_block> large_;
};

} // namespace tern::detail
