// SPDX-License-Identifier: Apache-2.0
#include <tern/task/task_graph.hpp>

#include <algorithm>
#include <type_traits>
#include <utility>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/task/parallel/divided_graph.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/task_group.hpp>

namespace tern {
namespace {

constexpr int longest_chain = 64; // functions that one worker calls in a row before it looks around
// Longer functions are worth going where a worker has nothing to do. Seconds of a worker for a
// node.
constexpr double short_function = 4e-6;
constexpr std::uint32_t other_way = 32; // one of so many runs goes the way that took longer
constexpr double another_load = 1.75;   // so many times longer, or shorter, twice: the functions have changed

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

} // namespace

static_assert(std::is_standard_layout_v<task_group>); // it begins with its state

/// What runs reach from a tasklet: its group is the first part.
struct task_graph::core : task_group {
  explicit core(std::source_location made) : task_group(made), store(state_, run_node) {}
  detail::graph_store store;
};

/// By the number of the node, ascending.
struct task_graph::labels {
  std::vector<std::pair<std::uint32_t, std::string>> names;
  std::vector<std::pair<std::uint32_t, const task_graph*>> inner;
};

namespace {

/// What goes with `i`; null if nothing does.
template <class T> const T* found(const std::vector<std::pair<std::uint32_t, T>>& all, std::uint32_t i) noexcept {
  const auto at =
      std::lower_bound(all.begin(), all.end(), i, [](const auto& one, std::uint32_t n) { return one.first < n; });
  return at != all.end() && at->first == i ? &at->second : nullptr;
}

} // namespace

task_graph::task_graph(std::source_location made)
    : made_(made), core_(std::make_unique<core>(made)), store_(&core_->store) {}
task_graph::~task_graph() = default;

void task_graph::refuse_while_running() const {
  throw error(errc::invalid_state, "a task_graph was changed or run while it runs",
              "wait for its run to return, or use a graph for each", made_);
}

void task_graph::refuse_empty() const {
  throw error(errc::invalid_argument, "a task_graph was given an empty function", {}, made_);
}

void task_graph::refuse_node() const {
  throw error(errc::invalid_argument, "task_graph::precede was given a node of another graph, or none",
              "use what this graph's add returned", made_);
}

void task_graph::name_last(std::string name) {
  if (!labels_) labels_ = std::make_unique<labels>();
  labels_->names.emplace_back(store_->nodes().size() - 1, std::move(name));
}

task_graph::node task_graph::add(task_graph& inner, std::string name) {
  if (inner.contains(*this))
    throw error(errc::invalid_argument, "a task_graph was added to itself", "a graph cannot run inside its own run",
                made_);
  if (!labels_) labels_ = std::make_unique<labels>();
  const node n = add([&inner] { inner.run(); }, std::move(name));
  labels_->inner.emplace_back(n.index_, &inner);
  return n;
}

bool task_graph::contains(const task_graph& other) const {
  return this == &other || (labels_ && std::any_of(labels_->inner.begin(), labels_->inner.end(),
                                                   [&](const auto& one) { return one.second->contains(other); }));
}

const task_graph* task_graph::inner(std::uint32_t i) const noexcept {
  const task_graph* const* const at = labels_ ? found(labels_->inner, i) : nullptr;
  return at ? *at : nullptr;
}

std::string task_graph::label(std::uint32_t i) const {
  const std::string* const name = labels_ ? found(labels_->names, i) : nullptr;
  return name ? *name : "node " + std::to_string(i);
}

// Since the last change nothing has been run.
void task_graph::check() {
  see_sources();
  std::erase_if(sources_, [&](std::uint32_t i) { return store_->nodes()[i].predecessors > 0; });
  if (!forward_) check_cycles();
  checked_ = true;
  divided_.reset();
  runs_ = 0;
  mean_[stolen] = mean_[divided] = 0;
}

// Without cycles everything can be taken away from the sources on (Kahn 1962).
void task_graph::check_cycles() const {
  const auto& nodes = store_->nodes();
  const auto& edges = store_->edges();
  std::vector<std::uint32_t> pending(nodes.size()), order = sources_;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) pending[i] = nodes[i].predecessors;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::uint32_t k = nodes[order[i]].first; k != detail::no_edge; k = edges[k].next)
      if (--pending[edges[k].to] == 0) order.push_back(edges[k].to);
  if (order.size() < nodes.size()) throw_cycle(pending);
}

// Every node that is left has a predecessor that is left: walking backwards must come round.
void task_graph::throw_cycle(const std::vector<std::uint32_t>& pending) const {
  std::vector<std::uint32_t> predecessor(pending.size());
  store_->each_edge([&](std::uint32_t from, std::uint32_t to) {
    if (pending[from] > 0 && pending[to] > 0) predecessor[to] = from;
  });
  auto v = static_cast<std::uint32_t>(
      std::find_if(pending.begin(), pending.end(), [](std::uint32_t p) { return p > 0; }) - pending.begin());
  std::vector<bool> seen(pending.size(), false);
  for (; !seen[v]; v = predecessor[v]) seen[v] = true;
  std::vector<std::uint32_t> cycle{v};
  for (std::uint32_t u = predecessor[v]; u != v; u = predecessor[u]) cycle.push_back(u);
  std::string text = label(v);
  const std::size_t shown = std::min<std::size_t>(cycle.size(), 8);
  if (shown < cycle.size()) text = "… -> " + text;
  for (std::size_t i = 1; i < shown; ++i) text = label(cycle[i]) + " -> " + text;
  throw error(errc::invalid_argument, "a task_graph has a cycle: " + label(v) + " -> " + text,
              "each of these waits for the one before; leave out one of the edges", made_);
}

detail::worker_base* task_graph::run_node(detail::tasklet* t) noexcept {
  auto* n = static_cast<detail::graph_node*>(t);
  detail::group_state& group = *n->group;
  // address: the state of a group is where the group is, and the group where the core is
  const detail::graph_store& graph = static_cast<core&>(reinterpret_cast<task_group&>(group)).store;
  for (int extra = 0;; ++extra) {
    detail::run_closure(group, *n);
    n->pending.store(n->predecessors, std::memory_order_relaxed); // for the next run; all predecessors are done
    detail::graph_node* next = nullptr;
    graph.each_successor(*n, [&](detail::graph_node& s) {
      // acq_rel: the worker that starts it sees what all its predecessors wrote. The only one left
      // needs no read-modify-write.
      if (s.pending.load(std::memory_order_acquire) != 1 && s.pending.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
      if (next) static_cast<detail::worker_base*>(detail::this_worker_head())->push(next); // may move to another worker
      next = &s;
    });
    auto* w = static_cast<detail::worker_base*>(detail::this_worker_head());
    if (next && extra < longest_chain) {
      w->home->stealing.share(static_cast<detail::worker&>(*w)); // a chain neither pushes nor pops
      n = next;
      continue;
    }
    // The worker that runs tasklets counts this one. The others must be counted first: the group
    // ends with the last.
    if (extra > 0) group.complete(extra);
    if (next) {
      w->push(next);
      w = static_cast<detail::worker_base*>(detail::this_worker_head());
    }
    return w;
  }
}

void task_graph::run() {
  if (!scheduler::in_fiber())
    throw error(errc::invalid_state, "task_graph::run was called outside any fiber",
                "call it from inside tern::run, scheduler::run, a handler or a tasklet", made_);
  if (running_.exchange(true, std::memory_order_acquire)) refuse_while_running();
  struct idle_again {
    std::atomic<bool>& flag;
    ~idle_again() { flag.store(false, std::memory_order_release); }
  } const guard{running_};
  if (!checked_) check();
  if (nodes() == 0) return;
  // The second run is perhaps the first of many.
  if (++runs_ > 1 && !store_->sorted()) store_->sort_edges();
  detail::scheduler_core& home = *detail::this_worker()->home;
  if (!detail::divided_graph::possible(home, nodes())) {
    begin_stolen();
    core_->wait();
    return;
  }
  const way how = choose(home);
  const double began = steady_seconds();
  if (how == divided) {
    core_->enter_context(); // until it has been waited for
    divided_->begin();
  } else {
    begin_stolen();
  }
  core_->wait();
  learn(how, steady_seconds() - began, home);
}

void task_graph::begin_stolen() {
  core_->state_.remote.store(-static_cast<std::int64_t>(nodes()), std::memory_order_relaxed);
  core_->enter_context(); // until it has been waited for
  for (const std::uint32_t i : sources_)
    static_cast<detail::worker_base*>(detail::this_worker_head())->push(&store_->nodes()[i]);
}

// The first run finds nothing in the caches, and tells nothing.
task_graph::way task_graph::choose(detail::scheduler_core& home) {
  const bool other = runs_ % other_way == 0;
  if ((runs_ <= 2 || !dividing_helps_) && !always_divided_) return stolen;
  if (!divided_ || !divided_->is_of(home)) {
    divided_ = std::make_unique<detail::divided_graph>(home, core_->state_, *store_);
    mean_[divided] = 0;
    new_division_ = true;
  }
  if (always_divided_) return divided;
  if (mean_[divided] == 0 || mean_[stolen] == 0) return mean_[divided] == 0 ? divided : stolen;
  return (mean_[divided] < mean_[stolen]) != other ? divided : stolen;
}

void task_graph::learn(way how, double seconds, const detail::scheduler_core& home) noexcept {
  if (runs_ <= 1 || (how == divided && std::exchange(new_division_, false))) return; // nothing was in the caches
  double& mean = mean_[how];
  if (mean != 0 && (seconds > another_load * mean || another_load * seconds < mean)) {
    if (++odd_runs_ < 2) return; // another program had the core
    mean_[how == divided ? stolen : divided] = mean = 0;
  }
  odd_runs_ = 0;
  // Other programs can only make a run longer.
  mean = mean == 0 || seconds < mean ? seconds : mean + (seconds - mean) / 8;
  // What divided runs take tells nothing of functions: they may have waited for each other.
  if (how == stolen)
    dividing_helps_ = mean * static_cast<double>(home.workers.size()) < short_function * static_cast<double>(nodes());
}

std::string task_graph::dot() const {
  std::string out = "digraph tern {\n  compound=true;\n  node [shape=box];\n";
  write_dot(out, "n", 1);
  return out + "}\n";
}

void task_graph::write_dot(std::string& out, const std::string& prefix, int depth) const {
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  for (std::uint32_t i = 0; i < nodes(); ++i) {
    const std::string id = prefix + std::to_string(i);
    if (const task_graph* const in = inner(i)) {
      out += indent + "subgraph cluster_" + id + " {\n" + indent + "  label=" + quoted(label(i)) + ";\n";
      out += indent + "  " + id + " [shape=point, style=invis];\n"; // what edges of the outer graph hold on to
      in->write_dot(out, id + "_", depth + 1);
      out += indent + "}\n";
    } else {
      out += indent + id + " [label=" + quoted(label(i)) + "];\n";
    }
  }
  store_->each_edge([&](std::uint32_t from, std::uint32_t to) {
    out += indent + prefix + std::to_string(from) + " -> " + prefix + std::to_string(to);
    std::string ends;
    if (inner(from)) ends = "ltail=cluster_" + prefix + std::to_string(from);
    if (inner(to)) ends += (ends.empty() ? "" : ", ") + ("lhead=cluster_" + prefix + std::to_string(to));
    out += (ends.empty() ? "" : " [" + ends + "]") + ";\n";
  });
}

} // namespace tern
