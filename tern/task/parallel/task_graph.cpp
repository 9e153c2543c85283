// SPDX-License-Identifier: Apache-2.0
#include <tern/task/task_graph.hpp>

#include <algorithm>
#include <limits>
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

/// What running needs of a node.
struct task_graph::vertex : detail::tasklet {
  std::atomic<std::uint32_t> pending{0}; // predecessors that have not returned in this run
  std::uint32_t predecessors = 0;
  std::uint32_t first = 0, last = 0; // in successors_
  task_graph* graph = nullptr;
  unique_function<void()>* f = nullptr;
};

task_graph::task_graph(std::source_location made) : made_(made), group_(std::make_unique<task_group>(made)) {}
task_graph::~task_graph() = default;

void task_graph::check_idle() const {
  if (running_.load(std::memory_order_relaxed))
    throw error(errc::invalid_state, "a task_graph was changed or run while it runs",
                "wait for its run to return, or use a graph for each", made_);
}

task_graph::node task_graph::add(unique_function<void()> f, std::string name) {
  check_idle();
  if (!f) throw error(errc::invalid_argument, "a task_graph was given an empty function", {}, made_);
  if (bodies_.size() >= std::numeric_limits<std::uint32_t>::max())
    throw error(errc::invalid_argument, "a task_graph has at most 2^32 - 1 nodes", {}, made_);
  prepared_ = false;
  bodies_.push_back({std::move(f), std::move(name), nullptr});
  return {this, static_cast<std::uint32_t>(bodies_.size() - 1)};
}

task_graph::node task_graph::add(task_graph& inner, std::string name) {
  if (inner.contains(*this))
    throw error(errc::invalid_argument, "a task_graph was added to itself", "a graph cannot run inside its own run",
                made_);
  const node n = add([&inner] { inner.run(); }, std::move(name));
  bodies_.back().inner = &inner;
  return n;
}

bool task_graph::contains(const task_graph& other) const {
  return this == &other || std::any_of(bodies_.begin(), bodies_.end(),
                                       [&](const body& b) { return b.inner && b.inner->contains(other); });
}

void task_graph::add_edge(node before, node after) {
  check_idle();
  if (before.graph_ != this || after.graph_ != this)
    throw error(errc::invalid_argument, "task_graph::precede was given a node of another graph, or none",
                "use what this graph's add returned", made_);
  prepared_ = false;
  edges_.emplace_back(before.index_, after.index_);
  forward_ = forward_ && before.index_ < after.index_;
}

std::string task_graph::label(std::uint32_t i) const {
  return bodies_[i].name.empty() ? "node " + std::to_string(i) : bodies_[i].name;
}

void task_graph::prepare() {
  const std::size_t n = bodies_.size();
  auto vertices = std::make_unique<vertex[]>(n);
  for (const auto& [from, to] : edges_) {
    ++vertices[from].last;
    ++vertices[to].predecessors;
  }
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    vertex& v = vertices[i];
    const std::uint32_t count = v.last;
    v.first = v.last = at;
    at += count;
    v.graph = this;
    v.f = &bodies_[i].f;
    v.group = &group_->state_;
    v.run = run_vertex;
    v.pending.store(v.predecessors, std::memory_order_relaxed);
  }
  successors_.resize(edges_.size());
  for (const auto& [from, to] : edges_) successors_[vertices[from].last++] = to;
  sources_.clear();
  for (std::size_t i = 0; i < n; ++i)
    if (vertices[i].predecessors == 0) sources_.push_back(static_cast<std::uint32_t>(i));
  vertices_ = std::move(vertices);
  if (!forward_) check_cycles();
  prepared_ = true;
  divided_.reset();
  runs_ = 0;
  mean_[stolen] = mean_[divided] = 0;
}

// Without cycles everything can be taken away from the sources on (Kahn 1962).
void task_graph::check_cycles() const {
  const std::size_t n = bodies_.size();
  std::vector<std::uint32_t> pending(n), order = sources_;
  for (std::size_t i = 0; i < n; ++i) pending[i] = vertices_[i].predecessors;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const vertex& v = vertices_[order[i]];
    for (std::uint32_t k = v.first; k < v.last; ++k)
      if (--pending[successors_[k]] == 0) order.push_back(successors_[k]);
  }
  if (order.size() < n) throw_cycle(pending);
}

// Every node that is left has a predecessor that is left: walking backwards must come round.
void task_graph::throw_cycle(const std::vector<std::uint32_t>& pending) const {
  std::vector<std::uint32_t> predecessor(bodies_.size());
  for (const auto& [from, to] : edges_)
    if (pending[from] > 0 && pending[to] > 0) predecessor[to] = from;
  auto v = static_cast<std::uint32_t>(
      std::find_if(pending.begin(), pending.end(), [](std::uint32_t p) { return p > 0; }) - pending.begin());
  std::vector<bool> seen(bodies_.size(), false);
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

detail::worker_base* task_graph::run_vertex(detail::tasklet* t) noexcept {
  auto* v = static_cast<vertex*>(t);
  task_graph& graph = *v->graph;
  detail::group_state& group = *v->group;
  for (int extra = 0;; ++extra) {
    detail::run_closure(group, *v->f);
    v->pending.store(v->predecessors, std::memory_order_relaxed); // for the next run; all predecessors are done
    vertex* next = nullptr;
    for (std::uint32_t k = v->first; k < v->last; ++k) {
      vertex& s = graph.vertices_[graph.successors_[k]];
      // acq_rel: the worker that starts it sees what all its predecessors wrote. The only one left
      // needs no read-modify-write.
      if (s.pending.load(std::memory_order_acquire) != 1 && s.pending.fetch_sub(1, std::memory_order_acq_rel) != 1)
        continue;
      if (next) static_cast<detail::worker_base*>(detail::this_worker_head())->push(next); // may move to another worker
      next = &s;
    }
    auto* w = static_cast<detail::worker_base*>(detail::this_worker_head());
    if (next && extra < longest_chain) {
      w->home->stealing.share(static_cast<detail::worker&>(*w)); // a chain neither pushes nor pops
      v = next;
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
  if (running_.exchange(true, std::memory_order_acquire))
    throw error(errc::invalid_state, "a task_graph was run while it runs",
                "wait for its run to return, or use a graph for each", made_);
  struct idle_again {
    std::atomic<bool>& flag;
    ~idle_again() { flag.store(false, std::memory_order_release); }
  } const guard{running_};
  if (!prepared_) prepare();
  if (bodies_.empty()) return;
  detail::scheduler_core& home = *detail::this_worker()->home;
  if (!detail::divided_graph::possible(home, bodies_.size())) {
    begin_stolen();
    group_->wait();
    return;
  }
  const way how = choose(home);
  const double began = steady_seconds();
  if (how == divided) {
    group_->enter_context(); // until it has been waited for
    divided_->begin();
  } else {
    begin_stolen();
  }
  group_->wait();
  learn(how, steady_seconds() - began, home);
}

void task_graph::begin_stolen() {
  group_->state_.remote.store(-static_cast<std::int64_t>(bodies_.size()), std::memory_order_relaxed);
  group_->enter_context(); // until it has been waited for
  for (const std::uint32_t i : sources_)
    static_cast<detail::worker_base*>(detail::this_worker_head())->push(&vertices_[i]);
}

// The first run finds nothing in the caches, and tells nothing.
task_graph::way task_graph::choose(detail::scheduler_core& home) {
  const bool other = ++runs_ % other_way == 0;
  if ((runs_ <= 2 || !dividing_helps_) && !always_divided_) return stolen;
  if (!divided_ || !divided_->is_of(home)) {
    std::vector<unique_function<void()>*> functions;
    functions.reserve(bodies_.size());
    for (body& b : bodies_) functions.push_back(&b.f);
    divided_ = std::make_unique<detail::divided_graph>(home, group_->state_, functions, edges_);
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
    dividing_helps_ =
        mean * static_cast<double>(home.workers.size()) < short_function * static_cast<double>(bodies_.size());
}

std::string task_graph::dot() const {
  std::string out = "digraph tern {\n  compound=true;\n  node [shape=box];\n";
  write_dot(out, "n", 1);
  return out + "}\n";
}

void task_graph::write_dot(std::string& out, const std::string& prefix, int depth) const {
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  for (std::uint32_t i = 0; i < bodies_.size(); ++i) {
    const std::string id = prefix + std::to_string(i);
    if (const task_graph* inner = bodies_[i].inner) {
      out += indent + "subgraph cluster_" + id + " {\n" + indent + "  label=" + quoted(label(i)) + ";\n";
      out += indent + "  " + id + " [shape=point, style=invis];\n"; // what edges of the outer graph hold on to
      inner->write_dot(out, id + "_", depth + 1);
      out += indent + "}\n";
    } else {
      out += indent + id + " [label=" + quoted(label(i)) + "];\n";
    }
  }
  for (const auto& [from, to] : edges_) {
    out += indent + prefix + std::to_string(from) + " -> " + prefix + std::to_string(to);
    std::string ends;
    if (bodies_[from].inner) ends = "ltail=cluster_" + prefix + std::to_string(from);
    if (bodies_[to].inner) ends += (ends.empty() ? "" : ", ") + ("lhead=cluster_" + prefix + std::to_string(to));
    out += (ends.empty() ? "" : " [" + ends + "]") + ";\n";
  }
}

} // namespace tern
